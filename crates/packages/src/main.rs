//! `weft-packages`: writes the packages of Weft.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use weft_operands::image::ImageReference;
use weft_packages::{
    chart, files, krew, kustomize,
    manifests::Program,
    olm,
    release::{Images, check_version},
    yaml,
};

/// Writes the packages of Weft from what `weft manifests` prints: release YAML, also in the files of
/// cluster-network-addons-operator, the Helm chart (folder `weft`), the kustomize bases (folder
/// `kustomize`), bundle and catalog for Operator Lifecycle Manager (folder `olm`), and the manifest
/// of the kubectl plugin (folder `krew`). The same arguments lead to the same bytes
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The `weft` program, built before
    #[arg(long, default_value = "target/release/weft")]
    weft: PathBuf,
    /// The folder for the packages. Files that are there already are replaced
    #[arg(long, default_value = "target/packages")]
    out: PathBuf,
    /// The version of the release. The command fails if the program has another one
    #[arg(long, value_name = "VERSION")]
    release: Option<String>,
    /// The operator's image in all packages [default: localhost/weft:VERSION]
    #[arg(long, value_name = "IMAGE")]
    image: Option<ImageReference>,
    /// The image of the agents in all packages [default: localhost/weft-agent:VERSION]
    #[arg(long, value_name = "IMAGE")]
    agent_image: Option<ImageReference>,
    /// The image of the bundle, which the catalog names [default: localhost/weft-bundle:VERSION]
    #[arg(long, value_name = "IMAGE")]
    bundle_image: Option<ImageReference>,
    /// The image of the catalog, which the CatalogSource names [default:
    /// localhost/weft-catalog:VERSION]
    #[arg(long, value_name = "IMAGE")]
    catalog_image: Option<ImageReference>,
    /// The folder with weft-VERSION-linux-amd64.tar.gz and weft-VERSION-linux-arm64.tar.gz. Without
    /// it, no manifest of the kubectl plugin is written
    #[arg(long, value_name = "DIR", requires = "url")]
    archives: Option<PathBuf>,
    /// The URL of the folder from which users download the archives
    #[arg(long, value_name = "BASE", requires = "archives", value_parser = address)]
    url: Option<String>,
}

fn address(text: &str) -> Result<String, String> {
    let is_address = ["https://", "http://"].iter().any(|scheme| {
        text.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    });
    match is_address {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no URL: write it like https://downloads.example/weft"
        )),
    }
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let program = Program::new(&cli.weft);
    check_version(&program, cli.release.as_deref())?;
    let usual = Images::usual()?;
    let images = Images {
        operator: cli.image.unwrap_or(usual.operator),
        agent: cli.agent_image.unwrap_or(usual.agent),
        bundle: cli.bundle_image.unwrap_or(usual.bundle),
        catalog: cli.catalog_image.unwrap_or(usual.catalog),
    };
    files::write(&cli.out, &yaml::files(&program, &images)?)?;
    yaml::write_as_cnao(&program, &images, &cli.out)?;
    files::write(&cli.out.join("weft"), &chart::files(&program, &images)?)?;
    files::write(
        &cli.out.join("kustomize"),
        &kustomize::files(&program, &images)?,
    )?;
    files::write(&cli.out.join("olm"), &olm::files(&program, &images)?)?;
    if let (Some(archives), Some(url)) = (cli.archives, cli.url) {
        files::write(&cli.out.join("krew"), &krew::files(&archives, &url)?)?;
    }
    Ok(())
}

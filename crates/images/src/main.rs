//! `weft-images`: writes the images of Weft as OCI archives.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use weft_images::{Error, Image, olm};

/// Writes the images of Weft as OCI archives, from programs and packages that were built before
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// A folder with the programs `weft` and `weft-agent` of one platform. Several folders make
    /// images for several platforms
    #[arg(long, default_value = "target/release")]
    programs: Vec<PathBuf>,
    /// The registry, with the path in it, that the names of the images begin with
    #[arg(long, default_value = "localhost")]
    registry: String,
    /// The folder `olm` that weft-packages has written. With it, the images of bundle and catalog
    /// for Operator Lifecycle Manager are written, too
    #[arg(long)]
    olm: Option<PathBuf>,
    /// Folder for the archives
    #[arg(long, default_value = "target/images")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// An image of the program at this path, with this name.
type Recipe = fn(&Path, &str) -> Result<Image, Error>;

fn run(cli: &Cli) -> Result<(), Error> {
    let recipes: [(&str, Recipe); 2] = [
        ("weft", weft_images::weft),
        ("weft-agent", weft_images::weft_agent),
    ];
    for (program, recipe) in recipes {
        let images = cli
            .programs
            .iter()
            .map(|folder| recipe(&folder.join(program), &name(cli, program)))
            .collect::<Result<Vec<_>, _>>()?;
        write(cli, program, &images)?;
    }
    if let Some(folder) = &cli.olm {
        let image = "weft-bundle";
        write(
            cli,
            image,
            &olm::bundle(&folder.join("bundle"), &name(cli, image))?,
        )?;
        let image = "weft-catalog";
        write(
            cli,
            image,
            &olm::catalog(&folder.join("catalog"), &name(cli, image))?,
        )?;
    }
    Ok(())
}

fn name(cli: &Cli, image: &str) -> String {
    format!("{}/{image}:{}", cli.registry, env!("CARGO_PKG_VERSION"))
}

fn write(cli: &Cli, image: &str, platforms: &[Image]) -> Result<(), Error> {
    let path = cli.out.join(image).with_extension("tar");
    let size = match platforms {
        [image] => image.write(&path)?,
        several => Image::write_platforms(several, &path)?,
    };
    println!(
        "{:<28} {:>6.1} MB  {}",
        name(cli, image),
        size as f64 / 1e6,
        path.display()
    );
    Ok(())
}

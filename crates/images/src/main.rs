//! `weft-images`: writes the images of Weft as OCI archives.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use weft_images::{Error, Image};

/// Writes the images of Weft as OCI archives, from programs that were built before
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
        let name = format!("{}/{program}:{}", cli.registry, env!("CARGO_PKG_VERSION"));
        let images = cli
            .programs
            .iter()
            .map(|folder| recipe(&folder.join(program), &name))
            .collect::<Result<Vec<_>, _>>()?;
        let path = cli.out.join(program).with_extension("tar");
        let size = match images.as_slice() {
            [image] => image.write(&path)?,
            several => Image::write_platforms(several, &path)?,
        };
        println!(
            "{name:<28} {:>6.1} MB  {}",
            size as f64 / 1e6,
            path.display()
        );
    }
    Ok(())
}

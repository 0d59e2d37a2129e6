//! `weft-images`: writes the images of Weft as OCI archives.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Writes the images of Weft as OCI archives, from programs that were built before.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The `weft` program
    #[arg(long, default_value = "target/release/weft")]
    weft: PathBuf,
    /// The `weft-agent` program
    #[arg(long, default_value = "target/release/weft-agent")]
    weft_agent: PathBuf,
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

fn run(cli: &Cli) -> Result<(), weft_images::Error> {
    let version = env!("CARGO_PKG_VERSION");
    let images = [
        ("weft.tar", weft_images::weft(&cli.weft, version)?),
        (
            "weft-agent.tar",
            weft_images::weft_agent(&cli.weft_agent, version)?,
        ),
    ];
    for (file, image) in images {
        let path = cli.out.join(file);
        let size = image.write(&path)?;
        println!(
            "{:<28} {:>6.1} MB  {}",
            image.reference(),
            size as f64 / 1e6,
            path.display()
        );
    }
    Ok(())
}

//! weft-agent

use std::process::ExitCode;

use clap::Parser;
use weft_agent::commands::{Common, Offline};

/// The network of a host: seen, changed in one transaction, rolled back when in doubt
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Offline,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.run(&cli.common).await {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

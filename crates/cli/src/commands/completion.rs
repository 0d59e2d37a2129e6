//! `weft completion`

use std::process::ExitCode;

use anyhow::Result;
use clap_complete::Shell;

use crate::output;

/// Print a script that completes commands and flags in your shell
#[derive(clap::Args)]
#[command(after_help = "\
To have it now:          source <(weft completion bash)
In every bash:           weft completion bash > ~/.local/share/bash-completion/completions/weft
In every zsh:            weft completion zsh > \"${fpath[1]}/_weft\"
In every fish:           weft completion fish > ~/.config/fish/completions/weft.fish")]
pub struct Args {
    /// The shell
    shell: SupportedShell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum SupportedShell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script for this command.
pub fn run(args: &Args, mut command: clap::Command) -> Result<ExitCode> {
    let shell = match args.shell {
        SupportedShell::Bash => Shell::Bash,
        SupportedShell::Zsh => Shell::Zsh,
        SupportedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "weft", &mut script);
    output::print_as_is(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

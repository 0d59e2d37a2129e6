//! `weft completion`

use std::process::ExitCode;

use anyhow::Result;
use clap_complete::Shell;

use crate::output;

/// Print a script that completes commands and flags in your shell
#[derive(clap::Args)]
#[command(after_help = "\
Now:            source <(weft completion bash)
In every bash:  weft completion bash \\
                  > ~/.local/share/bash-completion/completions/weft
In every zsh:   weft completion zsh > \"${fpath[1]}/_weft\"
In every fish:  weft completion fish > ~/.config/fish/completions/weft.fish
For kubectl:    weft completion kubectl > ~/.local/bin/kubectl_complete-weft
                chmod +x ~/.local/bin/kubectl_complete-weft

kubectl runs kubectl_complete-weft to complete `kubectl weft`, so it must be in
your PATH. A link of that name to this program serves as well.")]
pub struct Args {
    /// The shell, or kubectl for its plugin
    shell: SupportedShell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum SupportedShell {
    Bash,
    Zsh,
    Fish,
    Kubectl,
}

/// The program that kubectl runs to complete the words after `kubectl weft`.
const KUBECTL: &str = "#!/bin/sh\nexec kubectl-weft __complete \"$@\"\n";

/// Prints the script for this command.
pub fn run(args: &Args, mut command: clap::Command) -> Result<ExitCode> {
    let shell = match args.shell {
        SupportedShell::Bash => Shell::Bash,
        SupportedShell::Zsh => Shell::Zsh,
        SupportedShell::Fish => Shell::Fish,
        SupportedShell::Kubectl => {
            output::print_as_is(KUBECTL)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "weft", &mut script);
    output::print_as_is(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

//! `holdfast completions`: scripts that complete the command line, made from its definitions.

use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};

use crate::report::{Outcome, print};

const EXAMPLES: &str = "Examples:
  holdfast completions bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completions zsh > /usr/local/share/zsh/site-functions/_holdfast
  holdfast completions fish > ~/.config/fish/completions/holdfast.fish";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script for the command line `definitions`.
pub(crate) fn run(completions: &Completions, mut definitions: Command) -> Outcome {
    let shell = match completions.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definitions, "holdfast", &mut script);
    print(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

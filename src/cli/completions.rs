//! `toolgate completions SHELL`.

use clap::CommandFactory as _;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Prints the completions.
pub(super) fn run(args: &Args) -> u8 {
    let mut command = super::Cli::command();
    clap_complete::generate(args.shell, &mut command, "toolgate", &mut std::io::stdout());
    0
}

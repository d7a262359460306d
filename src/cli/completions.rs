//! `toolgate completions SHELL`.

use super::help;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Prints the completions.
pub(super) fn run(args: &Args) -> u8 {
    let mut command = help::command();
    clap_complete::generate(args.shell, &mut command, "toolgate", &mut std::io::stdout());
    0
}

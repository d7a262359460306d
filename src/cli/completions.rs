//! `toolgate completions SHELL`.

use super::help;
use super::printed::LastingOutput;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Prints the completions.
pub(super) fn run(args: &Args) -> u8 {
    let mut command = help::command();
    let mut out = LastingOutput(std::io::stdout());
    clap_complete::generate(args.shell, &mut command, "toolgate", &mut out);
    0
}

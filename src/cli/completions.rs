//! `toolgate completions SHELL`.

use clap::CommandFactory as _;

/// Which shell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Prints the completions.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut command = super::Cli::command();
    clap_complete::generate(args.shell, &mut command, "toolgate", &mut std::io::stdout());
    Ok(0)
}

//! The program: the guard of a tool server first, because it must stay small; then the command
//! line.

use std::process::ExitCode;
use toolgate::cli::{self, guard};
use toolgate::owners;

pub(crate) fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(verb) if verb == guard::GUARD_VERB => return guard::run(arguments),
        Some(verb) if verb == guard::CONFINE_VERB => return guard::confine(arguments),
        Some(_) | None => {}
    }
    owners::seal_memory();
    match cli::run(cli::typed()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            cli::configured::say(&format!("toolgate: {error:#}"));
            ExitCode::from(1)
        }
    }
}

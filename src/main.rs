//! The program: the guard of a tool server first, because it must stay small; everything else after it.

use std::process::ExitCode;
use toolgate::cli::guard;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == guard::VERB) {
        return guard::run(arguments);
    }
    ExitCode::SUCCESS
}

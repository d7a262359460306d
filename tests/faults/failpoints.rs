//! toolgate, built with fail points.

#[path = "../../src/main.rs"]
mod program;

fn main() -> std::process::ExitCode {
    program::main()
}

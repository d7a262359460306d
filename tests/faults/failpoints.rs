//! toolgate, built with fail points, and with clocks that a test can stop and move.

mod clock_hand;
#[path = "../../src/main.rs"]
mod program;

fn main() -> std::process::ExitCode {
    clock_hand::listen();
    program::main()
}

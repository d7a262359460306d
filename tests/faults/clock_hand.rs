//! The hand of a test on the clocks of this program, at the Unix socket that `TOOLGATE_CLOCK` names. Each line there is a
//! number of milliseconds: the first one stops the clocks, and each moves them on by so much. The answer is the time that they
//! show then.

use std::io::{BufRead as _, BufReader, Result, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;
use toolgate::model::clock::stopped;

/// Listens in a thread of its own, if a test asks for that. A child of the program, which inherits the variable,
/// finds the name taken, and goes by the machine's clocks.
pub(crate) fn listen() {
    let Some(path) = std::env::var_os("TOOLGATE_CLOCK") else {
        return;
    };
    if let Ok(listener) = UnixListener::bind(path) {
        std::thread::spawn(move || {
            for orders in listener.incoming().flatten() {
                drop(obey(orders));
            }
        });
    }
}

/// Does what one test says until it hangs up.
fn obey(mut orders: UnixStream) -> Result<()> {
    for order in BufReader::new(orders.try_clone()?).lines() {
        let told = match order?.parse() {
            Ok(ms) => stopped::pass(Duration::from_millis(ms)).to_string(),
            Err(error) => error.to_string(),
        };
        writeln!(orders, "{told}")?;
    }
    Ok(())
}

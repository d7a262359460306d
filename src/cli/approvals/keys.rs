//! Keys of a terminal, one at a time, as long as this lives; afterwards the terminal is as it was.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal as _, Read as _, stdin};
use tokio::sync::mpsc;

/// Keys that wait to be looked at; more are not read.
const MAX_KEYS_AHEAD: usize = 16;

/// A terminal that gives keys at once, and does not show them.
pub(in crate::cli) struct KeyTerminal {
    before: Termios,
}

impl KeyTerminal {
    /// Takes the terminal over; none where nobody types at one.
    pub(in crate::cli) fn open() -> Option<Self> {
        if !stdin().is_terminal() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let taken = Self { before };
        taken.read_keys(true);
        Some(taken)
    }

    /// Whether keys are given at once, or lines are, as they are typed. Ctrl-C is a signal either way, so that it
    /// ends also what waits for an answer; who watches has to drop this then.
    pub(in crate::cli) fn read_keys(&self, is_raw: bool) {
        let mut modes = self.before.clone();
        if is_raw {
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        }
        let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
    }
}

impl Drop for KeyTerminal {
    fn drop(&mut self) {
        self.read_keys(false);
    }
}

/// The bytes that are typed, until the end of the input.
pub(in crate::cli) fn typed() -> mpsc::Receiver<u8> {
    let (keys, typed) = mpsc::channel(MAX_KEYS_AHEAD);
    // Nothing can end a read of a terminal: the thread lasts as long as the process.
    let read = move || {
        let mut one = [0];
        while matches!(stdin().read(&mut one), Ok(1)) && keys.blocking_send(one[0]).is_ok() {}
    };
    // Without it no key comes, and q is Ctrl-C.
    let _ = std::thread::Builder::new()
        .name("keys".to_owned())
        .spawn(read);
    typed
}

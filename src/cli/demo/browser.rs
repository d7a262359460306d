//! The person's browser, where there is one: what `BROWSER` names, or, at a terminal of a desktop, the desktop's own.

use std::env;
use std::ffi::OsString;
use std::io::{IsTerminal as _, stdout};
use std::process::Stdio;
use tokio::process::Command;

/// What opens an address in the browser that its person has chosen for the desktop.
const DESKTOP_OPENER: &str = "xdg-open";

/// In a runtime: opens `address`, of which nothing is secret; whether there is what opens it.
pub(super) fn open(address: &str) -> bool {
    let Some(browser) = named() else { return false };
    let mut command = Command::new(browser);
    command.arg(address).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // It may last for as long as the browser does, and is not waited for.
    command.spawn().is_ok()
}

fn named() -> Option<OsString> {
    if let Some(browser) = env::var_os("BROWSER").filter(|name| !name.is_empty()) {
        return Some(browser);
    }
    let is_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .map(env::var_os)
        .iter()
        .any(Option::is_some);
    (is_desktop && stdout().is_terminal()).then(|| DESKTOP_OPENER.into())
}

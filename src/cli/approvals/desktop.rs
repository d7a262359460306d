//! A note on the desktop for each call that comes, by the program `notify-send`. All who see the screen read it: it names
//! the tool and who asks, and nothing that the agent says in the call.

use crate::mcp::pretty::plain;
use crate::store::approvals::OpenHold;
use crate::telemetry::tasks;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Semaphore;

const PROGRAM: &str = "notify-send";
/// What the program is given of the environment: where the desktop is, and no token.
const VARIABLES: [&str; 8] = [
    "PATH",
    "HOME",
    "LANG",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];
/// Notes that are on their way at once; what comes beyond them has none.
const MAX_NOTES: usize = 4;
/// How long the program may take for one.
const NOTE_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters of a name in a note.
const SHOWN_CHARS_MAX: usize = 100;

/// Where notes are shown.
pub(super) struct DesktopNotes {
    program: PathBuf,
    room: Arc<Semaphore>,
}

impl DesktopNotes {
    /// By the program that is found in `PATH`; none where there is none.
    pub(super) fn open() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let places = std::env::split_paths(&path).filter(|place| place.is_absolute());
        let program = places
            .map(|place| place.join(PROGRAM))
            .find(|file| is_program(file))?;
        let room = Arc::new(Semaphore::new(MAX_NOTES));
        Some(Self { program, room })
    }

    /// Shows a note of these calls, and waits for nothing.
    pub(super) fn tell<'a>(&self, holds: impl Iterator<Item = &'a OpenHold>) {
        let waiting: Vec<&OpenHold> = holds.filter(|hold| hold.state == "pending").collect();
        let (title, body) = match &waiting[..] {
            [] => return,
            [one] => words(one),
            several => {
                let title = format!("{} calls wait for a person", several.len());
                (title, String::new())
            }
        };
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            return;
        };
        let mut command = Command::new(&self.program);
        command
            .args(["--app-name=toolgate", "--", &title, &body])
            .env_clear()
            .envs(
                VARIABLES
                    .into_iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        tasks::spawn("a note on the desktop", async move {
            let _place = place;
            if let Ok(mut shown) = command.spawn() {
                // One that hangs is ended, and shows nothing.
                let _ = tokio::time::timeout(NOTE_TIMEOUT, shown.wait()).await;
            }
        });
    }
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::metadata(file);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The title and the text of the note of one call.
fn words(hold: &OpenHold) -> (String, String) {
    let title = format!("A call waits: {}", short(&hold.tool));
    let who = match &hold.user {
        Some(user) => format!("{} for {}", short(&hold.agent), short(user)),
        None => short(&hold.agent),
    };
    let body = format!("{who} asks; until {}", short(&hold.approve_by));
    // Desktops read the text as markup.
    let body = body
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    (title, body)
}

/// As much of a name as a note has room for, and nothing of it that does not print.
fn short(name: &str) -> String {
    let cut: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    plain(&cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// No argument is in a note, and no markup of a name's.
    #[test]
    fn a_note_says_nothing_that_the_agent_says() {
        let hold = json!({
            "id": "019abc00-0000-7001-8000-000000000001", "state": "pending", "asked": "2026-11-28T11:59:00Z",
            "approve_by": "2026-11-28T12:09:00Z", "agent": "<b>bot</b>&co", "user": "ada\u{202e}", "caller_roles": [],
            "tool": "bank__pay", "arguments": { "to": "DE89" }, "actions": [], "irreversible": true,
            "purpose": "Pay a bill.", "task": "secret plan", "policy": "", "schema_hash": "", "needed": 1,
            "allowed_by": [], "roles": ["approver"], "self_approval": false, "decisions": [],
        });
        let (title, body) = words(&serde_json::from_value(hold).unwrap());
        assert_eq!(title, "A call waits: bank__pay");
        assert_eq!(
            body,
            "&lt;b&gt;bot&lt;/b&gt;&amp;co for ada\\u202e asks; until 2026-11-28T12:09:00Z"
        );
    }
}

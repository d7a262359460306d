//! `toolgate approvals watch --notify-send`: a note on the desktop for each call that comes.

use super::void::at_once;
use super::{ANN, HoldingGate, call, held};
use crate::harness::until;
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// A `notify-send` that notes what it was given, and never ends.
const HANGING: &str = "#!/bin/sh\nprintf '%s\\n' \"$@\" >> NOTES\nenv >> NOTES\nexec sleep 600\n";

/// 001-52: a note names the tool and who asks, no argument, and is given no token; nothing waits for the program that shows
/// it, and what waited before has none.
#[tokio::test]
async fn a_call_that_comes_is_shown_on_the_desktop() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let first = held(&call(&bot, "pay", json!({ "n": 1 }), "k1").await);
    let (desk, notes) = (stage.gate.path("desk"), stage.gate.path("notes"));
    std::fs::create_dir(&desk).unwrap();
    let program = desk.join("notify-send");
    let script = HANGING.replace("NOTES", &format!("'{}'", notes.display()));
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", desk.display());
    let door = stage.gate.operators.to_string();
    let words = ["approvals", "watch", "--json", "--notify-send"];
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let setup = stage.gate.setup.operator(ANN).environment("PATH", &path);
    let mut watch = setup.command(&[&words[..], &place].concat());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let line = at_once(lines.next_line()).await.unwrap().unwrap();
    assert!(line.contains(&first), "{line}");
    for n in 2..=3 {
        let arguments = json!({ "n": n, "to": "CANARY" });
        let id = held(&call(&bot, "pay", arguments, &format!("k{n}")).await);
        let line = at_once(lines.next_line()).await.unwrap().unwrap();
        assert!(line.contains(&id), "{line}");
        until("the note", || async {
            let told = std::fs::read_to_string(&notes).unwrap_or_default();
            let count = told.matches("A call waits: bank__pay").count();
            (count == n - 1).then_some(())
        })
        .await;
    }
    let told = std::fs::read_to_string(&notes).unwrap();
    assert!(told.contains("bot asks; until "), "{told}");
    for secret in ["CANARY", "token-of-ann", "OPERATOR_TOKEN"] {
        assert!(!told.contains(secret), "{told}");
    }
    watch.kill().await.unwrap();
}

//! Who decides: a person with a token of their own, which is in no configuration that others read.

use super::{ask, held, setup};
use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::{DEADLINE, until};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;
use std::fs::{File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

fn token_file(setup: &Setup, name: &str, token: &str, mode: u32) -> String {
    let path = setup.directory().join(name);
    std::fs::write(&path, format!("{token}\n")).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn approvals(gate: &Gate, setup: &Setup, words: &[&str]) -> (i32, String) {
    let door = gate.operators.to_string();
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let (code, out, err) = run(setup, &[&["approvals"], words, &place].concat()).await;
    (code, out + &err)
}

/// 003-47, guarantees §7: two of a quorum are two people, because none of them has what the other
/// shows; the tokens of the configuration are nobody's who reads it.
#[tokio::test]
async fn two_of_a_quorum_are_two_people() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(2, json!({}))]).await;
    let gate = setup.begin().await;
    let ann = token_file(&gate.setup, "ann", "token-of-ann-the-operator", 0o600);
    let bob = token_file(&gate.setup, "bob", "token-of-bob-the-operator", 0o600);
    let word = ["allow", &ids[0], "--why", "it is due", "--token-file"];
    let allows =
        async |file: &str| approvals(&gate, &gate.setup, &[&word[..], &[file]].concat()).await;
    let (code, said) = allows(&ann).await;
    assert!(
        code == 0 && said.contains("more operators have to allow it"),
        "{said}"
    );
    let (code, said) = allows(&ann).await;
    assert!(code == 0 && said.contains("nothing changes"), "{said}");
    let (code, said) = allows(&bob).await;
    assert!(code == 0 && said.contains("allowed by bob"), "{said}");
}

/// Without a token, with one of nobody's, and with one that others can read, nothing is decided, and it
/// is said what to do; a file counts before the variable.
#[tokio::test]
async fn who_proves_nothing_decides_nothing() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    let wrong = gate
        .setup
        .clone()
        .environment("OPERATOR_TOKEN", "token-of-nobody-at-all");
    let open = token_file(&gate.setup, "open", "token-of-ann-the-operator", 0o644);
    let nobodys = token_file(&gate.setup, "nobodys", "token-of-nobody-at-all", 0o600);
    let ann = token_file(&gate.setup, "ann", "token-of-ann-the-operator", 0o600);
    let deny = ["deny", &ids[0], "--why", "too dear"];
    for (setup, more, said) in [
        (&gate.setup, &[][..], "set OPERATOR_TOKEN"),
        (
            &wrong,
            &[],
            "the token from OPERATOR_TOKEN is no operator's",
        ),
        (&gate.setup, &["--token-file", &open], "chmod go-r"),
        (
            &gate.setup,
            &["--token-file", &nobodys],
            "the token from the file",
        ),
        (&gate.setup, &["--token-file", "nowhere"], "cannot be read"),
    ] {
        let (code, words) = approvals(&gate, setup, &[&deny[..], more].concat()).await;
        assert!(code == 1 && words.contains(said), "{more:?}: {words}");
    }
    let (code, words) = approvals(
        &gate,
        &wrong,
        &[&deny[..], &["--token-file", &ann]].concat(),
    )
    .await;
    assert!(code == 0 && words.contains("denied by ann"), "{words}");
}

/// At a terminal the token is asked for, once, and is not shown.
#[tokio::test]
async fn a_token_is_typed_unseen() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let path = ptsname(&keyboard, Vec::new()).unwrap();
    let line = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let door = gate.operators.to_string();
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let words = ["approvals", "allow", &ids[0], "--why", "it is due"];
    let mut command = gate.setup.command(&[&words[..], &place].concat());
    let end = || Stdio::from(line.try_clone().unwrap());
    let mut program = command
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    drop(command);
    let mut keyboard = File::from(keyboard);
    let screen = Arc::<Mutex<String>>::default();
    let (mut shown, kept) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(bytes @ 1..) = shown.read(&mut part) {
            let text = String::from_utf8_lossy(&part[..bytes]);
            kept.lock().unwrap().push_str(&text);
        }
    });
    let has = |words: &str| screen.lock().unwrap().contains(words);
    until("the question", || async {
        has("operator's token: ").then_some(())
    })
    .await;
    keyboard
        .write_all(b"token-of-ann-the-operatorx\x7f\n")
        .unwrap();
    let ended = tokio::time::timeout(DEADLINE, program.wait()).await;
    assert!(
        ended.unwrap().unwrap().success(),
        "{}",
        screen.lock().unwrap()
    );
    until("the answer", || async {
        has("allowed by ann").then_some(())
    })
    .await;
    assert!(!has("token-of-ann"), "{}", screen.lock().unwrap());
}

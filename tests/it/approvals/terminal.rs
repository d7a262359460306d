//! `toolgate approvals watch` at a terminal: a call is allowed by two keys that were meant for it, and the
//! terminal is given back as it was.

use super::{ask, held, says, setup, shown};
use crate::harness::gate::Gate;
use crate::harness::{DEADLINE, until};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::process::Child;
use toolgate::model::decision_terms::DecisionTerms;
use toolgate::store::state::command::HoldRequest;

/// What stands at the end of the screen while keys are read.
const KEY_LINE: &str = "a allow once";
/// What stands there also when nothing waits.
const LEAVE_KEY: &str = "q leave";

/// A terminal with a program on it.
pub struct WatchTerminal {
    keyboard: File,
    /// What the program has it from.
    line: OwnedFd,
    screen: Arc<Mutex<String>>,
    program: Child,
}

impl WatchTerminal {
    /// Ann watches, and is shown the first screen.
    pub async fn new(gate: &Gate) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap();
        let line = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let door = gate.operators.to_string();
        let words = ["approvals", "watch", "--config", "toolgate.yaml"];
        let place = ["--admin", &door];
        let mut command = gate
            .setup
            .operator("ann")
            .command(&[&words[..], &place].concat());
        let end = || Stdio::from(line.try_clone().unwrap());
        let program = command.stdin(end()).stdout(end()).spawn().unwrap();
        drop(command);
        let (keyboard, screen) = (File::from(keyboard), Arc::<Mutex<String>>::default());
        shows(keyboard.try_clone().unwrap(), Arc::clone(&screen));
        let terminal = Self {
            keyboard,
            line,
            screen,
            program,
        };
        until("the first screen", || async {
            (terminal.count(KEY_LINE) > 0).then_some(())
        })
        .await;
        terminal
    }

    /// How often the words have stood on the screen.
    pub fn count(&self, words: &str) -> usize {
        self.screen.lock().unwrap().matches(words).count()
    }

    pub fn types(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    /// Whether what is typed is shown as it is typed, as at a prompt.
    fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.line).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Its exit code, once it has ended.
    pub async fn ended(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(DEADLINE, self.program.wait()).await;
        ended.expect("it ends").unwrap().code()
    }
}

/// Keeps what comes to the screen, until no program has the terminal any more.
fn shows(mut terminal: File, screen: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(bytes @ 1..) = terminal.read(&mut part) {
            let text = String::from_utf8_lossy(&part[..bytes]);
            screen.lock().unwrap().push_str(&text);
        }
    });
}

/// 001-52: keys that were typed ahead, or come as fast as one that is held down, allow nothing; a key that was
/// pressed for a call that is over allows no other; two that were meant do.
#[tokio::test]
async fn two_keys_allow_the_call_that_they_were_meant_for() {
    let setup = setup();
    setup.write();
    let asks = vec![ask(1, json!({ "n": 1 })), ask(1, json!({ "n": 2 }))];
    let ids = held(&setup, asks).await;
    let gate = setup.begin().await;
    let mut terminal = WatchTerminal::new(&gate).await;
    terminal.types(b"aaaa");
    let looked_at = until("four questions about one call", || async {
        let asked = |id: &String| terminal.count(&format!("let {id} run once"));
        ids.iter().position(|id| asked(id) >= 4)
    })
    .await;
    assert_eq!(terminal.count("\u{7}"), 1, "the bell, once for what is new");
    let (first, second) = (&ids[looked_at], &ids[1 - looked_at]);
    assert_eq!(shown(&gate, first).await["state"], "pending");
    let denied = says(&gate, "bob", &["deny", first, "--why", "not due"]).await;
    assert_eq!(denied.0, 0, "{}", denied.1);
    terminal.types(b"a");
    assert_eq!(shown(&gate, second).await["state"], "pending");
    let mut status = 3;
    for _ in 0..20 {
        terminal.types(b"a");
        // A person takes a moment between two keys.
        (status, _) = says(&gate, "bob", &["wait", second, "--timeout", "2s"]).await;
        if status != 3 {
            break;
        }
    }
    assert_eq!(status, 0, "{}", terminal.screen.lock().unwrap());
    let allowed = shown(&gate, second).await;
    assert_eq!(allowed["allowed_by"], json!(["ann"]), "{allowed}");
    assert_eq!(shown(&gate, first).await["state"], "denied");
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
}

/// A call whose contract has these reasons to deny it, and wants one of who allows it.
fn asks_why(n: u64) -> HoldRequest {
    let mut asked = ask(1, json!({ "n": n }));
    asked.question.terms = DecisionTerms {
        deny_reasons: ["not due", "wrong account"].map(str::to_owned).into(),
        needs_why: true,
        ..DecisionTerms::default()
    };
    asked
}

impl WatchTerminal {
    /// Types `keys` once the words stand on the screen once more than before; echoed as it is typed.
    pub async fn answers(&mut self, key: &[u8], question: &str, line: &[u8]) {
        let before = self.count(question);
        self.types(key);
        until(question, || async {
            (self.count(question) > before && self.echoes()).then_some(())
        })
        .await;
        let screens = self.count(LEAVE_KEY);
        self.types(line);
        until("the screen", || async {
            (self.count(LEAVE_KEY) > screens && !self.echoes()).then_some(())
        })
        .await;
    }
}

/// 001-52: who denies is shown the contract's reasons, by their numbers, and can say another; an empty line
/// denies nothing.
#[tokio::test]
async fn who_denies_is_asked_why() {
    const QUESTION: &str = "why not? the agent reads it, or its number (nothing: not denied): ";
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![asks_why(1), asks_why(2)]).await;
    let gate = setup.begin().await;
    let mut terminal = WatchTerminal::new(&gate).await;
    terminal.answers(b"d", QUESTION, b"\n").await;
    assert_eq!(terminal.count("1 not due"), 1);
    assert_eq!(terminal.count("2 wrong account"), 1);
    for id in &ids {
        assert_eq!(shown(&gate, id).await["state"], "pending");
    }
    terminal.answers(b"d", QUESTION, b"2\n").await;
    terminal
        .answers(b"d", QUESTION, b" ask again in May \n")
        .await;
    let mut reasons = Vec::new();
    for id in &ids {
        let hold = shown(&gate, id).await;
        assert_eq!(hold["state"], "denied", "{hold}");
        let word = &hold["decisions"][0];
        assert_eq!(word["who"], "ann", "{hold}");
        reasons.push(word["why"].as_str().unwrap().to_owned());
    }
    reasons.sort();
    assert_eq!(reasons, ["ask again in May", "wrong account"]);
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
}

/// 001-52: where the contract wants a reason of who allows, the second key asks for it; an empty line allows
/// nothing.
#[tokio::test]
async fn who_allows_says_why_where_that_is_wanted() {
    const QUESTION: &str = "why? (nothing: not allowed): ";
    const SURE: &str = "press a once more";
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![asks_why(1)]).await;
    let gate = setup.begin().await;
    let mut terminal = WatchTerminal::new(&gate).await;
    for (line, state) in [("\n", "pending"), ("as agreed\n", "allowed")] {
        let before = terminal.count(QUESTION);
        while terminal.count(QUESTION) == before {
            let asked = terminal.count(SURE);
            terminal.types(b"a");
            until("what comes of the key", || async {
                (terminal.count(SURE) > asked || terminal.count(QUESTION) > before).then_some(())
            })
            .await;
            // A person takes a moment between two keys.
            says(&gate, "bob", &["wait", &ids[0], "--timeout", "2s"]).await;
        }
        terminal.types(line.as_bytes());
        until("the line is read", || async {
            (!terminal.echoes()).then_some(())
        })
        .await;
        let hold = until("what came of it", || async {
            let hold = shown(&gate, &ids[0]).await;
            (hold["state"] == state).then_some(hold)
        })
        .await;
        if state == "allowed" {
            assert_eq!(hold["decisions"][0]["why"], "as agreed", "{hold}");
        }
    }
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
}

/// 001-A3: one key gives the call that is shown more time; a second one is told that it has it.
#[tokio::test]
async fn a_key_gives_more_time_once() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    let mut terminal = WatchTerminal::new(&gate).await;
    for told in ["given more time by ann", "more time already"] {
        terminal.types(b"e");
        until(told, || async { (terminal.count(told) > 0).then_some(()) }).await;
    }
    let hold = shown(&gate, &ids[0]).await;
    assert_eq!(
        (&hold["extended"], &hold["state"]),
        (&json!(true), &json!("pending")),
        "{hold}"
    );
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
}

/// However it is left, what is typed afterwards is shown again.
#[tokio::test]
async fn the_terminal_is_given_back() {
    let setup = setup();
    setup.write();
    held(&setup, vec![ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    for end in [Some(Signal::INT), Some(Signal::TERM), None] {
        let mut terminal = WatchTerminal::new(&gate).await;
        assert!(!terminal.echoes(), "keys are read one by one");
        match end {
            Some(signal) => {
                let pid = i32::try_from(terminal.program.id().unwrap()).unwrap();
                kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
            }
            None => terminal.types(b"q"),
        }
        assert_eq!(terminal.ended().await, Some(0), "{end:?}");
        assert!(terminal.echoes(), "{end:?}");
    }
}

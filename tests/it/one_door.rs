//! A verb asks no toolgate but the one that has the directory it is about, also where the configurations of
//! several name one address; and a directory is seen without any (issue 17, "never the wrong data").

use crate::harness::DEADLINE;
use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-the-operator-ann, roles: [approver, switch] } ]";
/// What a wait of a second may take on a busy machine; an answer may take 30 s elsewhere.
const WAIT_BOUND: Duration = Duration::from_secs(20);
const AT_ANY_PORT: &str = "admin: { listen: 127.0.0.1:0";

async fn server() -> ToolServer {
    let script = Script::new().tool("read", Behaviour::Answers);
    script.start().await
}

/// A toolgate in a directory of its own, and nobody else's.
async fn toolgate(server: &ToolServer) -> Gate {
    let setup = Setup::new().server("bank", server);
    let setup = setup.contracts(&[("bank__read", "read")]);
    setup.operators(OPERATORS).start().await
}

/// From now on the configuration of `setup` says that its operators' door is at `address`.
fn points_at(setup: &Setup, address: SocketAddr) {
    let path = setup.directory().join("toolgate.yaml");
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains(AT_ANY_PORT), "{written}");
    let there = format!("admin: {{ listen: {address}");
    fs::write(path, written.replace(AT_ANY_PORT, &there)).unwrap();
}

/// What a verb of the operator ann says: the exit code, and all that is printed.
async fn said(setup: &Setup, words: &[&str]) -> (i32, String) {
    let (code, out, err) = run(&setup.operator("ann"), words).await;
    (code, out + &err)
}

fn tools_away(status: &str) -> Value {
    let status: Value = serde_json::from_str(status).unwrap();
    status["disabled"].clone()
}

/// What is meant for the toolgate of one directory is not done in another, and no operator's token goes
/// there.
#[tokio::test]
async fn another_toolgate_is_asked_nothing() {
    let server = server().await;
    let (first, second) = (toolgate(&server).await, toolgate(&server).await);
    points_at(&second.setup, first.operators);
    let away = ["disable", "bank__read", "--why", "x"];
    for words in [
        &away[..],
        &["approvals"],
        &["approvals", "wait", "0198f1a2-0001-7000-8000-00000000000a"],
    ] {
        let (code, text) = said(&second.setup, words).await;
        assert_eq!(code, 2, "{words:?}: {text}");
        assert!(
            text.contains("the toolgate of another data directory"),
            "{text}"
        );
    }
    let (code, text) = said(&second.setup, &["status"]).await;
    let holder = format!("process {} has the data directory", second.pid());
    assert!(code == 1 && text.contains(&holder), "{text}");
    // A door that an operator names is not the directory's for that.
    let named = first.operators.to_string();
    let (code, text) = said(&second.setup, &[&away[..], &["--admin", &named]].concat()).await;
    assert_eq!(code, 2, "{text}");
    let named = second.operators.to_string();
    for (verb, is_away) in [("disable", true), ("enable", false)] {
        let words = [verb, "bank__read", "--why", "x", "--admin", &named];
        let (code, text) = said(&second.setup, &words).await;
        assert_eq!(code, 0, "{text}");
        let words = ["status", "--json", "--admin", &named];
        let away = tools_away(&said(&second.setup, &words).await.1);
        assert_eq!(away.get("bank__read").is_some(), is_away, "{away}");
    }
    let admin = first.operators.to_string();
    let (_, text) = said(&first.setup, &["status", "--json", "--admin", &admin]).await;
    assert_eq!(tools_away(&text), json!({}), "{text}");
}

/// A directory whose toolgate does not run is at rest, also where another answers at its address.
#[tokio::test]
async fn a_directory_at_rest_is_not_another_that_runs() {
    let server = server().await;
    let first = toolgate(&server).await;
    let setup = toolgate(&server).await.stop().await;
    points_at(&setup, first.operators);
    let (code, text) = said(&setup, &["status"]).await;
    assert_eq!(code, 1, "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let other = format!(
        "what answers at {} is the toolgate of another",
        first.operators
    );
    assert!(
        words.contains("does not run") && words.contains(&other),
        "{text}"
    );
    let (_, text) = said(&setup, &["status", "--json"]).await;
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["running"], false, "{text}");
    assert_eq!(said(&setup, &["approvals"]).await.0, 2);
    // Its own servers are looked at, and its address is taken.
    let (code, text) = said(&setup, &["doctor"]).await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("tool server `bank` answers"), "{text}");
    assert!(
        text.contains(&other) && !text.contains("another policy"),
        "{text}"
    );
    // Which toolgate is meant, an operator can say; a directory that is named counts more.
    let named = first.operators.to_string();
    let (code, text) = said(&setup, &["status", "--admin", &named]).await;
    let pid = format!("process {}", first.pid());
    assert!(code == 0 && text.contains(&pid), "{text}");
    let (code, text) = said(&setup, &["status", "--admin", &named, "--data", "data"]).await;
    assert!(code == 1 && !text.contains(&pid), "{text}");
    // What is done on a directory at rest is done there.
    let (code, text) = said(&setup, &["disable", "bank__read", "--why", "x"]).await;
    assert_eq!(code, 0, "{text}");
    let (_, text) = said(&first.setup, &["status", "--json", "--admin", &named]).await;
    assert_eq!(tools_away(&text), json!({}), "{text}");
}

/// With `--data` alone no configuration says where a door is: the directory is shown.
#[tokio::test]
async fn a_directory_is_seen_without_a_door() {
    let server = server().await;
    let gate = toolgate(&server).await;
    let (code, text) = said(&gate.setup, &["status", "--data", "data"]).await;
    let holder = format!("process {} has the data directory", gate.pid());
    assert!(code == 1 && text.contains(&holder), "{text}");
    let (code, text) = said(&gate.setup, &["approvals", "--data", "data"]).await;
    assert!(code == 2 && text.contains("--admin ADDRESS"), "{text}");
    let named = gate.operators.to_string();
    for words in [
        &["status", "--data", "data"][..],
        &["approvals", "--data", "data"],
    ] {
        let (code, text) = said(&gate.setup, &[words, &["--admin", &named]].concat()).await;
        assert_eq!(code, 0, "{words:?}: {text}");
    }
    let setup = gate.stop().await;
    let away = ["disable", "bank__read", "--why", "x", "--data", "data"];
    assert_eq!(said(&setup, &away).await.0, 0);
    for words in [
        &["--data", "data"][..],
        &["--config", "toolgate.yaml", "--data", "moved"],
    ] {
        if words.contains(&"moved") {
            fs::rename(
                setup.directory().join("data"),
                setup.directory().join("moved"),
            )
            .unwrap();
        }
        let (code, text) = said(&setup, &[&["status"], words].concat()).await;
        assert_eq!(code, 1, "{text}");
        assert!(
            text.contains("does not run: no process has the data directory"),
            "{text}"
        );
        assert!(text.contains("bank__read by"), "{text}");
    }
    let (_, text) = said(&setup, &["doctor", "--data", "moved"]).await;
    for told in ["tool server `bank` answers", "`bank__read` is disabled by"] {
        assert!(text.contains(told), "{text}");
    }
}

/// `--watch` looks again until it is told to end, and then all was well.
#[tokio::test]
async fn status_watches_until_it_is_left() {
    let server = server().await;
    let gate = toolgate(&server).await;
    let named = gate.operators.to_string();
    let words = [
        "status", "--watch", "--json", "--admin", &named, "--data", "data",
    ];
    let mut watching = gate.setup.operator("ann").command(&words).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await;
        let line = line.expect("a look in time").unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let first = next().await;
    assert_eq!(
        (&first["running"], &first["pid"]),
        (&json!(true), &json!(gate.pid()))
    );
    gate.stop().await;
    // One look may be on its way, or see it end.
    let mut later = Vec::new();
    while later.len() < 20 && later.last() != Some(&json!(false)) {
        later.push(next().await["running"].clone());
    }
    assert_eq!(later.last(), Some(&json!(false)), "{later:?}");
    let pid = rustix::process::Pid::from_raw(i32::try_from(watching.id().unwrap()).unwrap());
    rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
    let ended = tokio::time::timeout(DEADLINE, watching.wait()).await;
    assert_eq!(ended.expect("an end in time").unwrap().code(), Some(0));
}

/// An operator who has pinned nothing reads so; one who has pinned some reads which server is left.
#[tokio::test]
async fn doctor_says_which_servers_are_not_pinned() {
    let (bank, shop) = (server().await, server().await);
    let setup = Setup::new().server("bank", &bank).server("shop", &shop);
    let tools = [("bank__read", "read"), ("shop__read", "read")];
    let pins = "pins: toolgate.pins.yaml";
    let setup = setup.contracts(&tools).more(pins);
    let path = setup.write();
    let (code, out, err) = run(&setup, &["pins", "approve", "bank__*"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let notes = async || {
        let (_, out, err) = run(&setup, &["doctor"]).await;
        let notes = out
            .lines()
            .filter(|line| line.starts_with("note     no definition of "));
        (notes.map(ToOwned::to_owned).collect::<Vec<_>>(), out + &err)
    };
    let (some, text) = notes().await;
    let [one] = some.as_slice() else {
        panic!("{text}")
    };
    assert!(one.contains(" of `shop` is pinned"), "{one}");
    assert!(one.contains("toolgate pins approve \"shop__*\""), "{one}");
    let written = fs::read_to_string(&path).unwrap();
    fs::write(&path, written.replace(pins, "")).unwrap();
    let (all, text) = notes().await;
    let [one] = all.as_slice() else {
        panic!("{text}")
    };
    assert!(one.contains(" of a tool is pinned"), "{one}");
}

/// A configuration that came with a directory has an operator's token sent to no other machine.
#[tokio::test]
async fn a_token_stays_on_this_machine() {
    let server = server().await;
    let gate = toolgate(&server).await;
    // Nobody has an address of a block that is there for examples (RFC 5737).
    let elsewhere: SocketAddr = "192.0.2.7:7411".parse().unwrap();
    points_at(&gate.setup, elsewhere);
    for words in [
        &["approvals"][..],
        &["approvals", "grants", "list"],
        &["disable", "bank__read", "--why", "x"],
        &["status"],
    ] {
        let (code, told) = said(&gate.setup, words).await;
        // A directory that another process has is shown all the same.
        let is_shown = words[0] == "status";
        assert!(code == 2 || is_shown, "{words:?}: {told}");
        assert!(
            told.contains("192.0.2.7:7411, which is another machine")
                && told.contains("--admin 192.0.2.7:7411"),
            "{words:?}: {told}"
        );
    }
}

/// An operators' door that takes connections and never answers, and where it is.
async fn silent_door() -> (tokio::task::JoinHandle<()>, String) {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let taken = tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            kept.push(silent.accept().await.unwrap());
        }
    });
    (taken, address)
}

/// What was asked for may be done though nobody says so in time: it reads so, and not as if nobody were there.
#[tokio::test]
async fn a_word_without_an_answer_may_count() {
    let (taken, address) = silent_door().await;
    let setup = Setup::new().operators(OPERATORS);
    setup.write();
    let id = "0198f1a2-0001-7000-8000-00000000000a";
    let mut words = vec!["approvals", "deny", id, "--why", "no", "--admin", &address];
    words.extend(["--answer-timeout", "300ms"]);
    let (code, told) = said(&setup, &words).await;
    assert!(
        code == 1 && told.contains("may be done all the same") && told.contains("within 0.3s"),
        "{told}"
    );
    taken.abort();
}

/// Issue 17: a script that waits for a decision goes on when its time is over, also where a toolgate
/// hangs.
#[tokio::test]
async fn a_wait_ends_though_nobody_answers() {
    let (taken, address) = silent_door().await;
    let setup = Setup::new().operators(OPERATORS);
    setup.write();
    // A part of an id has to be looked for first.
    for id in ["0198f1a2-0001-7000-8000-00000000000a", "0198f1a2"] {
        let words = ["approvals", "wait", id, "--timeout", "1s"];
        let words = [&words[..], &["--admin", &address]].concat();
        let ended = tokio::time::timeout(WAIT_BOUND, said(&setup, &words)).await;
        let (code, told) = ended.expect("an end soon after the time is over");
        assert!(code == 2 && told.contains("has not answered"), "{told}");
    }
    taken.abort();
}

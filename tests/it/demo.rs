//! `toolgate demo`: its stories come out, and nothing of it stays behind, however it ends (issue 20).

use crate::closed_pipes::unread;
use crate::harness::answer::{exchange, get};
use crate::harness::gate::run;
use crate::harness::left_out::left_out;
use crate::harness::setup::{Setup, TOOLGATE};
use crate::harness::{DEADLINE, until};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

/// A place for demos, whose own directories come below `tmp`.
fn stage() -> (Setup, PathBuf) {
    let setup = Setup::new();
    let tmp = setup.directory().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let setup = setup.environment("TMPDIR", tmp.to_str().unwrap());
    (setup, tmp)
}

/// What is in a directory.
fn inside(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// A demo that waits for a decision on the page.
struct Waiting {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    operators: SocketAddr,
    token: String,
}

impl Waiting {
    async fn start(setup: &Setup) -> Self {
        let browser = setup.directory().join("browser");
        let opened = setup.directory().join("opened");
        let script = format!("#!/bin/sh\necho \"$1\" >'{}'\n", opened.display());
        fs::write(&browser, script).unwrap();
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        let setup = setup
            .clone()
            .environment("BROWSER", browser.to_str().unwrap());
        let mut process = setup.command(&["demo", "--page"]).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (mut operators, mut token) = (None, None);
        let read = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let after = |word: &str| {
                    let (_, rest) = line.split_once(word)?;
                    Some(rest.trim().to_owned())
                };
                let page = after("http://");
                let page = page.as_ref().and_then(|page| page.split_once("/approvals"));
                let address = page.map(|(address, opened)| {
                    assert_eq!(opened, " (opened in your browser)");
                    address
                });
                operators = operators.or_else(|| address?.parse().ok());
                let said = after("  token ").map(|rest| rest.split(' ').next().unwrap().to_owned());
                token = token.take().or(said);
                if line.contains("waiting for your decision") {
                    return;
                }
            }
            panic!("the demo ends before it waits");
        };
        tokio::time::timeout(DEADLINE, read).await.unwrap();
        let page = format!("http://{}/approvals\n", operators.unwrap());
        until("the page, and nothing else, is opened", || async {
            let opened = fs::read_to_string(&opened).ok();
            opened.filter(|opened| *opened == page)
        })
        .await;
        Self {
            process,
            lines,
            operators: operators.unwrap(),
            token: token.unwrap(),
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// What the operators' door answers to the person who has the token.
    async fn asks(&self, method: &str, path: &str, body: &str) -> Value {
        let (address, token, length) = (self.operators, &self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let answer = exchange(address, request.into_bytes()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_str(&answer.text()).unwrap()
    }

    /// The exit code, and what is printed until then.
    async fn ended(mut self) -> (Option<i32>, String) {
        let rest = async {
            let mut text = String::new();
            while let Some(line) = self.lines.next_line().await.unwrap() {
                text += &(line + "\n");
            }
            (self.process.wait().await.unwrap().code(), text)
        };
        let ended = tokio::time::timeout(DEADLINE, rest).await;
        ended.expect("the demo ends in time")
    }
}

/// The first screen: five stories, each as promised, on lines of 80 columns, and nothing else is left.
#[tokio::test]
async fn five_stories_come_out_as_promised() {
    let (setup, tmp) = stage();
    let (code, out, err) = run(&setup, &["demo"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for line in out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let seconds = Regex::new(r"in \d+\.\d s").unwrap();
    let records = Regex::new(r"chain of \d+ records").unwrap();
    let text = seconds.replace(&out, "in [SECONDS] s");
    let text = records.replace(&text, "chain of [COUNT] records");
    insta::assert_snapshot!("five_stories", text);
    assert_eq!(inside(&tmp), Vec::<PathBuf>::new());
}

/// The same for a program: one object, with what the tool servers counted.
#[tokio::test]
async fn a_program_reads_one_object() {
    let (setup, tmp) = stage();
    let (code, out, err) = run(&setup, &["demo", "--json"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
    let told: Value = out.parse().unwrap();
    assert_eq!(told["kept_promises"], true);
    assert!(told["ledger"]["records"].as_u64().unwrap() > 14, "{told}");
    assert_eq!(told["data"], Value::Null);
    let stories = told["stories"].as_array().unwrap();
    let runs = stories.iter().map(|story| {
        let count = |key: &str| story[key].as_u64().unwrap();
        (
            story["name"].as_str().unwrap(),
            count("without"),
            count("with"),
        )
    });
    let expected = [
        ("lost_answer", 2, 1),
        ("killed", 2, 1),
        ("loop", 8, 3),
        ("wrong_tenant", 1, 0),
        ("deletion", 1, 1),
    ];
    assert_eq!(runs.collect::<Vec<_>>(), expected);
    assert_eq!(stories[0]["made"], stories[0]["read_of_it"]);
    assert_eq!(stories[4]["before_word"], 0);
    assert_eq!(inside(&tmp), Vec::<PathBuf>::new());
}

/// `--keep`: what the demo said of the ledger can be looked at afterwards, by the verbs that are there for it.
#[tokio::test]
async fn what_is_kept_can_be_read() {
    let (setup, tmp) = stage();
    let (code, out, err) = run(&setup, &["demo", "--keep", "kept"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(inside(&tmp), Vec::<PathBuf>::new());
    let data = setup.directory().join("kept/data");
    let data = data.to_str().unwrap();
    let hint = format!("kept: toolgate ledger list --data {data}\n");
    assert!(out.ends_with(&hint), "{out}");
    let (code, listed, _) = run(&setup, &["ledger", "list", "--json", "--data", data]).await;
    assert_eq!((code, listed.lines().count()), (0, 14), "{listed}");
    let (code, verified, _) = run(&setup, &["ledger", "verify", "--data", data]).await;
    assert_eq!(code, 0, "{verified}");
    for (counts, expected) in [("shop.counts", 6), ("bare.counts", 14)] {
        let text = fs::read_to_string(setup.directory().join("kept").join(counts)).unwrap();
        assert_eq!(text.lines().count(), expected, "{counts}: {text}");
    }
    let (code, _, err) = run(&setup, &["check", "kept/toolgate.yaml"]).await;
    assert_eq!(code, 0, "{err}");
    // What is there is not written over.
    let (code, out, err) = run(&setup, &["demo", "--keep", "kept"]).await;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("is not empty: name a new directory"), "{err}");
}

/// `--page`: a person decides at the door that is printed; both words are as promised.
#[tokio::test]
async fn a_person_decides_on_the_page() {
    for (word, expected) in [
        ("deny", "never ran: a person denied it"),
        ("allow", "ran once, after a person allowed it"),
    ] {
        let (setup, tmp) = stage();
        let waiting = Waiting::start(&setup).await;
        let listed = waiting.asks("GET", "/api/approvals", "").await;
        let held = &listed["approvals"][0];
        assert_eq!(held["tool"], "shop__delete_customer");
        let (id, shown) = (
            held["id"].as_str().unwrap(),
            held["shown"].as_str().unwrap(),
        );
        let body = format!(r#"{{"decision":"{word}","why":"a test","shown":"{shown}"}}"#);
        let path = format!("/api/approvals/{id}");
        waiting.asks("POST", &path, &body).await;
        let (code, out) = waiting.ended().await;
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains(expected), "{out}");
        assert_eq!(inside(&tmp), Vec::<PathBuf>::new());
    }
}

/// `--interactive`: only a yes is one; the end of the input is none.
#[tokio::test]
async fn a_person_decides_at_the_terminal() {
    for (typed, expected) in [
        ("y\n", "ran once, after a person allowed it"),
        ("n\n", "never ran: a person denied it"),
        ("", "never ran: a person denied it"),
    ] {
        let (setup, _) = stage();
        let mut command = setup.command(&["demo", "--interactive"]);
        let mut demo = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = demo.stdin.take().unwrap();
        stdin.write_all(typed.as_bytes()).await.unwrap();
        drop(stdin);
        let ended = tokio::time::timeout(DEADLINE, demo.wait_with_output()).await;
        let ended = ended.unwrap().unwrap();
        let out = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{typed:?}: {out}");
        assert!(out.contains(expected), "{typed:?}: {out}");
        assert!(out.contains("allow this call, once? [y/N]"), "{out}");
    }
}

/// Whatever ends it: its directory and its toolgate are gone then.
#[tokio::test]
async fn an_interrupted_demo_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (setup, tmp) = stage();
        let waiting = Waiting::start(&setup).await;
        assert_eq!(inside(&tmp).len(), 1, "it has a directory meanwhile");
        let operators = waiting.operators;
        assert!(get(operators, "/healthz").await.is_some());
        waiting.signal(signal);
        let (code, out) = waiting.ended().await;
        assert_eq!(code, Some(1), "{out}");
        assert_eq!(inside(&tmp), Vec::<PathBuf>::new());
        assert!(get(operators, "/healthz").await.is_none(), "{signal:?}");
    }
}

/// Nothing can be cleared away by a process that is killed; but no process stays.
#[tokio::test]
async fn a_killed_demo_leaves_no_process() {
    let (setup, _) = stage();
    let waiting = Waiting::start(&setup).await;
    let operators = waiting.operators;
    waiting.signal(Signal::KILL);
    until("the demo's toolgate is gone", || async {
        get(operators, "/healthz").await.is_none().then_some(())
    })
    .await;
}

/// Neither sees the other's directory, port or calls. One of them in colours.
#[tokio::test]
async fn two_demos_at_once() {
    let (setup, tmp) = stage();
    let colored = ["--color", "always", "demo"];
    let (one, other) = tokio::join!(run(&setup, &["demo"]), run(&setup, &colored));
    for (code, out, err) in [&one, &other] {
        assert_eq!((*code, err.as_str()), (0, ""), "{out}");
    }
    assert!(!one.1.contains('\u{1b}'), "{}", one.1);
    let ok = "\u{1b}[32mok\u{1b}[0m";
    assert_eq!(other.1.matches(ok).count(), 5, "{}", other.1);
    assert_eq!(inside(&tmp), Vec::<PathBuf>::new());
}

/// Nothing but a place for its own directory is needed: no home, no directory that can be written, and no operator
/// who reads.
#[tokio::test]
async fn a_demo_needs_a_directory_of_its_own_only() {
    let (setup, tmp) = stage();
    let mut command = setup.command(&["demo"]);
    let demo = command.current_dir("/proc").output();
    let demo = tokio::time::timeout(DEADLINE, demo).await.unwrap().unwrap();
    let out = String::from_utf8(demo.stdout).unwrap();
    assert_eq!(demo.status.code(), Some(0), "{out}");
    assert_eq!(unread(&setup, &["demo"]).await, 0);
    assert_eq!(inside(&tmp), Vec::<PathBuf>::new());

    let absent = tmp.join("absent");
    let setup = setup.environment("TMPDIR", absent.to_str().unwrap());
    let (code, out, err) = run(&setup, &["demo"]).await;
    assert_eq!((code, out.as_str()), (1, ""));
    let expected = format!(
        "{} cannot be written: name another directory in TMPDIR, or with --keep",
        absent.display()
    );
    assert!(err.contains(&expected), "{err}");
    assert_eq!(run(&setup, &["demo", "--keep", "kept"]).await.0, 0);
}

/// Where there is no port for the second tool server, or no way to one's own machine, that is said, and nothing stays.
#[tokio::test]
async fn a_machine_without_ports_is_told() {
    const UNSHARED: [&str; 3] = ["--map-root-user", "--user", "--net"];
    const ONE_PORT: &str = "echo 50000 50000 > /proc/sys/net/ipv4/ip_local_port_range || exit 77";
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(UNSHARED)
            .args(["sh", "-c", script, "sh", TOOLGATE]);
        command
    };
    let ports = unshared(ONE_PORT).output();
    if !ports.is_ok_and(|done| done.status.success()) {
        return left_out("network namespace", "allow user namespaces to try it");
    }
    let (setup, tmp) = stage();
    // A network of its own begins with everything down.
    let one_port = (ONE_PORT, ["finds no port on 127.0.0.1"; 2]);
    // To an account that is not root, the directories above are nobody's there, and toolgate takes none of them.
    let unreachable = [
        "nothing answers at 127.0.0.1",
        "toolgate does not serve: it exited",
    ];
    for (before, expected) in [one_port, (":", unreachable)] {
        let demo = unshared(&format!("{before}; exec \"$1\" demo"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TMPDIR", &tmp)
            .current_dir(setup.directory())
            .output()
            .unwrap();
        let err = String::from_utf8(demo.stderr).unwrap();
        assert_eq!(demo.status.code(), Some(1), "{err}");
        assert!(expected.iter().any(|said| err.contains(said)), "{err}");
        assert_eq!(inside(&tmp), Vec::<PathBuf>::new());
    }
}

/// What cannot be both is wrong usage.
#[tokio::test]
async fn a_decision_has_one_place() {
    let (setup, _) = stage();
    for words in [
        ["demo", "--page", "--interactive"],
        ["demo", "--json", "--interactive"],
    ] {
        let (code, out, _) = run(&setup, &words).await;
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
    }
}

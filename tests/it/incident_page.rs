//! The incident of document 004 as `docs/incident-004.md` tells it, from the first alert to the closed incident:
//! each command of the page is run, each call made, and each answer compared.
//!
//! `INCIDENT_WRITE=1` writes the answers into the page instead, to be read before they are committed.

use crate::harness::DEADLINE;
use crate::harness::agent::modern;
use crate::harness::answer::{DECISION, code};
use crate::harness::gate::{Gate, runs};
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::{Setup, programs};
use crate::harness::until;
use crate::incidents::{ANN, CALLERS, CLERK, first};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::process::Command;

const OPERATORS: &str = "tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [lead, switch, resolver, auditor] } ]";
/// What the model reads, and takes for a reason to order once more (004-08).
const WORDS: &str = "The order is being processed. If in doubt, confirm again.";
/// What stands in the page for what is another one each time.
const MASKS: [(&str, &str); 11] = [
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "2026-01-01T12:00:00Z"),
    (r" on \d{4}-\d\d-\d\d", " on 2026-01-01"),
    ("policy [0-9a-f]{12}", "policy 0a1b2c3d4e5f"),
    ("→ [0-9a-f]{12}", "→ 0a1b2c3d4e5f"),
    (r"\b(\d+[smhd] ago|now) {2,}", "5s ago  "),
    (r"\b(\d+[smhd] ago|now) by ", "5s ago by "),
    (r"(?m)^TIME +", "TIME    "),
    ("OPENED +", "OPENED  "),
    (r"(?m)^(5s ago .*?) +\d+(\.\d)?( ms| s)?$", "$1   1.2"),
    (r"(?m)^(TIME .*CODE) +MS$", "$1   MS"),
    (r": \d+ rows", ": 10 rows"),
];

/// The orders that stand at the shop, by their ids, and how many there ever were.
#[derive(Default)]
struct OrderBook {
    open: BTreeMap<String, u64>,
    placed: usize,
}

impl OrderBook {
    fn answer(&mut self, seen: &Seen) -> Reply {
        let arguments = &seen.body["params"]["arguments"];
        if seen.body["params"]["name"] == "cancel_order" {
            let id = arguments["id"].as_str().unwrap_or_default();
            let was_open = self.open.remove(id).is_some();
            return says("Cancelled.", &json!({ "was_open": was_open }));
        }
        self.placed += 1;
        let id = format!("A-{}", self.placed);
        let amount = arguments["amount"].as_u64().unwrap();
        self.open.insert(id.clone(), amount);
        says(WORDS, &json!({ "id": id }))
    }
}

fn says(words: &str, content: &Value) -> Reply {
    Reply::Result(json!({
        "content": [{ "type": "text", "text": words }], "structuredContent": content, "resultType": "complete",
    }))
}

/// The walk through the page.
struct PageWalk {
    gate: Gate,
    /// Action ids in the order in which they were met: the page has numbers for them.
    met: Vec<String>,
    id: Regex,
}

/// The id that the page has for the `nth` that is met.
fn told(nth: usize) -> String {
    format!("01a0b1c2-0000-7000-8000-00000a1b2c{:02}", nth + 1)
}

/// How lists show an id.
fn short(id: &str) -> &str {
    &id[id.len() - 8..]
}

/// Puts a file in the place of another, whole.
fn replaces(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::metadata(path).unwrap().permissions()).unwrap();
    fs::rename(new, path).unwrap();
}

/// The lines of the first block of this kind.
fn block(page: &str, kind: &str) -> String {
    let begin = format!("```{kind}\n");
    let (_, rest) = page.split_once(&begin).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

impl PageWalk {
    /// A toolgate before that shop, at whose door verbs find it by its configuration.
    async fn start(server: &ScriptedServer, policy: &str) -> Self {
        let setup = Setup::new()
            .server_with("shop", &format!("url: \"{}\"", server.url()))
            .callers(CALLERS)
            .operators(OPERATORS)
            .policy(policy);
        let gate = setup.start().await;
        let path = gate.path("toolgate.yaml");
        let written = fs::read_to_string(&path).unwrap();
        let any_port = "admin: { listen: 127.0.0.1:0";
        assert!(written.contains(any_port), "{written}");
        let own_port = format!("admin: {{ listen: {}", gate.operators);
        replaces(&path, &written.replace(any_port, &own_port));
        until("that is read before anything happens", || async {
            let (_, events, _) = runs(&gate.setup, "ledger events --json --data data").await;
            events.contains("reloaded").then_some(())
        })
        .await;
        Self {
            gate,
            met: Vec::new(),
            id: Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap(),
        }
    }

    fn meets(&mut self, id: &str) {
        if !self.met.iter().any(|known| known == id) {
            self.met.push(id.to_owned());
        }
    }

    /// What is read after a command was typed, as the page has it.
    async fn types(&mut self, command: &str) -> String {
        let ids = self.met.iter().enumerate();
        let typed = ids.fold(command.to_owned(), |typed, (nth, id)| {
            let told = told(nth);
            typed.replace(&told, id).replace(short(&told), short(id))
        });
        // What nobody waits for is recorded in a moment.
        self.gate.ledger().await;
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("umask 022; {{ {typed}\n}} 2>&1")])
            .env_clear()
            .env("PATH", format!("{}:{path}", programs().display()))
            .env("HOME", self.gate.path(""))
            .env("OPERATOR_TOKEN", ANN)
            .envs([("NO_COLOR", "1"), ("COLUMNS", "240")])
            .current_dir(self.gate.path(""))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(DEADLINE, shell.output()).await;
        let output = output
            .unwrap_or_else(|_| panic!("{command} does not end"))
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let code = match output.status.code().unwrap() {
            0 => String::new(),
            code => format!("(exit code {code})\n"),
        };
        self.shown(&text) + &code
    }

    /// Without what is another one each time.
    fn shown(&mut self, text: &str) -> String {
        let ids = self.id.clone();
        for id in ids.find_iter(text) {
            self.meets(id.as_str());
        }
        let ids = self.met.iter().enumerate();
        let text = ids.fold(text.to_owned(), |text, (nth, id)| {
            let told = told(nth);
            text.replace(id, &told).replace(short(id), short(&told))
        });
        let masked = MASKS.iter().fold(text, |text, (pattern, with)| {
            let pattern = Regex::new(pattern).unwrap();
            pattern.replace_all(&text, *with).into_owned()
        });
        masked
            .lines()
            .fold(String::new(), |lines, line| lines + line.trim_end() + "\n")
    }

    /// A call of the agent's, or a series of the metrics; as the page has it.
    async fn happens(&mut self, line: &str) -> String {
        if let Some((series, _)) = line
            .split_once(' ')
            .filter(|_| line.starts_with("toolgate_"))
        {
            let value = self.gate.metric(series).await;
            return format!("{series} {value}\n");
        }
        let (call, _) = line.split_once(" → ").unwrap();
        let (what, key) = call.split_once(" under the key ").unwrap();
        let (tool, arguments) = what.split_once(' ').unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let mut message = modern(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        let meta = &mut message["params"]["_meta"];
        meta["dev.toolgate/idempotencyKey"] = json!(key);
        meta["traceparent"] = json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let answer = self.gate.agent().token(CLERK).answered(&message).await;
        let decided = [&answer["result"]["_meta"], &answer["error"]["data"]];
        let id = decided
            .iter()
            .find_map(|decided| decided[DECISION]["action_id"].as_str());
        self.meets(id.unwrap_or_else(|| panic!("{answer}")));
        let became = match code(&answer) {
            None => "answered".to_owned(),
            Some(code) => format!("refused: {code}"),
        };
        format!("{call} → {became}\n")
    }

    /// Does an edit, and waits until the timeline tells of it.
    async fn edits(&self, lines: &str) {
        let (mut file, mut before) = (PathBuf::new(), "");
        for line in lines.lines() {
            if let Some(name) = line.strip_prefix("--- ") {
                file = self.gate.path(name);
            } else if let Some(gone) = line.strip_prefix('-') {
                before = gone;
            } else {
                let text = fs::read_to_string(&file).unwrap();
                assert_eq!(text.matches(before).count(), 1, "{before}");
                replaces(
                    &file,
                    &text.replace(before, line.strip_prefix('+').unwrap()),
                );
            }
        }
        until("the reload stands in the timeline", || async {
            let shown = first(Ok(&self.gate)).await;
            let mut line = shown["timeline"].as_array().unwrap().iter();
            line.any(|event| event["step"] == "reloaded").then_some(())
        })
        .await;
    }

    /// The page with what happens now.
    async fn walks(&mut self, page: &str) -> String {
        let (mut happened, mut kind, mut diff) = (String::new(), "", String::new());
        for line in page.lines() {
            let fence = line.strip_prefix("```");
            let typed = line.strip_prefix("$ ").filter(|_| kind == "console");
            if let Some(fence) = fence {
                if kind == "diff" {
                    self.edits(&std::mem::take(&mut diff)).await;
                }
                kind = fence;
            } else if kind == "diff" {
                diff += line;
                diff.push('\n');
            }
            if fence.is_none() && kind == "text" {
                happened += &self.happens(line).await;
            } else if fence.is_some() || kind != "console" || typed.is_some() {
                happened += line;
                happened.push('\n');
            }
            if let Some(typed) = typed {
                happened += &self.types(typed).await;
            }
        }
        happened
    }
}

/// Document 004, from the first alert to the closed incident, with what was charged twice taken back
/// (003-20, 003-43): the page says what happens.
#[tokio::test]
async fn the_page_of_the_incident_is_what_happens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/incident-004.md");
    let page = fs::read_to_string(&path).unwrap();
    let server = ScriptedServer::with(["create_order", "cancel_order"].map(tool).to_vec()).await;
    let books = Arc::new(Mutex::new(OrderBook::default()));
    let own = books.clone();
    server.answers(move |seen| own.lock().unwrap().answer(seen));
    let mut walk = PageWalk::start(&server, &block(&page, "yaml")).await;
    let happened = walk.walks(&page).await;
    if std::env::var_os("INCIDENT_WRITE").is_some() {
        fs::write(&path, &happened).unwrap();
        return;
    }
    let (written, now) = (page.lines(), happened.lines());
    let differs = written.zip(now).find(|(written, now)| written != now);
    assert!(differs.is_none(), "written, happened: {differs:#?}");
    assert_eq!(page, happened, "one of the two has more");
    let open = [("A-1".to_owned(), 99), ("A-3".to_owned(), 40)];
    let books = books.lock().unwrap();
    assert_eq!(books.open, BTreeMap::from(open), "each order is there once");
    assert_eq!(books.placed, 3);
}

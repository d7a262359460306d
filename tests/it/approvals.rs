//! Calls that are held, as operators decide on them with `toolgate approvals` (guarantees §7;
//! 003-46, 003-47).

mod alike;
mod card;
mod identity;
mod more_time;
mod page_words;
pub mod pages;
pub mod terminal;
mod unattended;
mod waits;
mod waits_once;
mod watched;

use crate::harness::gate::{Gate, run};
use crate::harness::setup::{Setup, contract, undo};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use toolgate::model::clock::Clock;
use toolgate::model::digest::Digest;
use toolgate::model::ids::{ActionId, ToolName};
use toolgate::store::claims::Store as _;
use toolgate::store::embedded::EmbeddedStore;
use toolgate::store::journal::{Journal, JournalOptions};
use toolgate::store::state::command::{HoldBounds, HoldRequest, StoreCommand};
use toolgate::store::state::hold::HoldQuestion;

const OPERATORS: &str = "tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [lead] }, \
                         { name: bob, token: token-of-bob-the-operator, roles: [lead] }, \
                         { name: eve, token: token-of-eve-the-operator, roles: [auditor] } ]";

/// A call of `bank__pay` that `needed` operators have to allow.
pub fn ask(needed: u32, arguments: Value) -> HoldRequest {
    let id = ActionId::generate();
    HoldRequest {
        key: Digest::of(id.as_bytes()),
        id,
        approve_for: 600_000,
        execute_for: 600_000,
        needed,
        roles: vec!["lead".to_owned(), "owner".to_owned()],
        self_approval: false,
        question: HoldQuestion {
            agent: "bot".to_owned(),
            tenant: Some("t_001".to_owned()),
            user: None,
            caller_roles: vec!["teller".to_owned()],
            tool: ToolName::new("bank__pay"),
            arguments,
            answers: None,
            beside: None,
            over: None,
            original: None,
            changed_by: Vec::new(),
            unedited: None,
            terms: toolgate::model::decision_terms::DecisionTerms::default(),
            show: Vec::new(),
            because: None,
            left: None,
            notify: Vec::new(),
            actions: vec!["pay".to_owned()],
            irreversible: true,
            undo: Some("impossible".to_owned()),
            undo_within: None,
            purpose: "pays an invoice".to_owned(),
            not_for: Some("salaries\u{202e}".to_owned()),
            writes: Some("the ledger of the bank".to_owned()),
            session: None,
            task: Some("month's end".to_owned()),
            policy: "3f9a1c".to_owned(),
            bound_to: None,
            schema_hash: "a".repeat(64),
            own_definition: false,
            request: None,
            undoes: None,
        },
        bounds: HoldBounds {
            all: 256,
            agent: 128,
            caller: 20,
        },
    }
}

/// Holds calls in the data directory of a toolgate that does not run, bound to what its files say now;
/// gives their ids.
pub async fn held(setup: &Setup, mut asks: Vec<HoldRequest>) -> Vec<String> {
    let files = setup.directory().join("toolgate.yaml");
    let policy = toolgate::config::load(&files).reading.policy.unwrap();
    for HoldRequest { question, .. } in &mut asks {
        let tenant = question.tenant.as_deref();
        let bound = policy.bound_to(&question.tool, &question.agent, tenant);
        question.bound_to = Some(bound.to_string());
    }
    recorded(setup, asks).await
}

/// The same, as the calls are.
async fn recorded(setup: &Setup, asks: Vec<HoldRequest>) -> Vec<String> {
    let data = setup.directory().join("data");
    let options = JournalOptions {
        gather: Duration::ZERO,
        ..JournalOptions::default()
    };
    let journal = Journal::open(&data, options).unwrap();
    let store = EmbeddedStore::open(&data, journal.clone(), Clock).unwrap();
    let mut ids = Vec::new();
    for ask in asks {
        ids.push(ask.id.to_string());
        store
            .run(StoreCommand::Hold(Box::new(ask)), None)
            .await
            .unwrap()
            .unwrap();
    }
    drop(store);
    journal.close().await.unwrap();
    ids
}

/// A toolgate with three operators, of whom two may decide, whose bank is not there.
pub fn setup() -> Setup {
    let look = contract("bank__look", "read", "");
    let pay = contract("bank__pay", "pay", ", approval: { approvers: [lead] }");
    let undo = undo("bank__pay");
    let policy = format!("contracts:\n  bank__look: {look}\n  bank__pay: {pay}\n{undo}\n");
    Setup::new()
        .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
        .policy(&policy)
        .callers(
            "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_001, roles: [teller] }",
        )
        .operators(OPERATORS)
}

/// Runs `toolgate approvals` against the running toolgate, as this operator.
pub async fn says(gate: &Gate, who: &str, words: &[&str]) -> (i32, String) {
    let door = gate.operators.to_string();
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let (code, out, err) = run(
        &gate.setup.operator(who),
        &[&["approvals"], words, &place].concat(),
    )
    .await;
    (code, out + &err)
}

/// A held call, as programs read it.
pub async fn shown(gate: &Gate, id: &str) -> Value {
    let (code, text) = says(gate, "eve", &["show", id, "--json"]).await;
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// What differs from run to run has one look.
fn masked(text: &str, ids: &[String]) -> String {
    let named = ids.iter().enumerate();
    let named = named.fold(text.to_owned(), |text, (n, id)| {
        text.replace(id, &format!("0198f1a2-0000-7000-8000-{n:012}"))
    });
    let times = regex::Regex::new(r"\d{4}-\d\d-\d\dT[\d:.]+Z *").unwrap();
    let text = times
        .replace_all(&named, "2026-11-21T10:00:00.000Z  ")
        .into_owned();
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Listed, shown whole with what does not print written out, decided in every way, and refused in
/// words.
#[tokio::test]
async fn operators_decide_on_what_they_see() {
    let setup = setup();
    setup.write();
    let hidden = json!({ "amount": 250, "to": "DE89\u{202e}\u{200b}\u{3164}\u{1b}[2J", "note": "x".repeat(300), "lines": [1, { "a": null }] });
    let asks = vec![
        ask(1, hidden),
        ask(2, json!({ "amount": 9000 })),
        ask(1, json!({})),
    ];
    let ids = held(&setup, asks).await;
    let gate = setup.begin().await;
    let unknown = ActionId::generate().to_string();
    let mut screens = String::new();
    for (who, words) in [
        ("eve", &[][..]),
        ("eve", &["show", &ids[0]]),
        ("eve", &["allow", &ids[0], "--why", "looks fine"]),
        ("ann", &["allow", &ids[0], "--why", "looks fine"]),
        ("ann", &["allow", &ids[0], "--why", "looks fine"]),
        ("bob", &["deny", &ids[0], "--why", "too much"]),
        ("ann", &["allow", &ids[1], "--why", "first of two"]),
        ("ann", &["allow", &ids[1], "--why", "first of two"]),
        ("eve", &["list"]),
        ("bob", &["allow", &ids[1], "--why", "second of two"]),
        ("bob", &["deny", &ids[2], "--why", "nothing to pay"]),
        ("bob", &["allow", &ids[2], "--why", " "]),
        ("eve", &["show", &ids[2]]),
        ("eve", &["show", &unknown]),
        ("bob", &["deny", &unknown, "--why", "x"]),
        ("eve", &["list"]),
    ] {
        let (code, text) = says(&gate, who, words).await;
        writeln!(
            screens,
            "{who}$ toolgate approvals {}  → {code}\n{text}",
            words.join(" ")
        )
        .unwrap();
    }
    let screens = masked(&screens, &ids).replace(&unknown, "UNKNOWN");
    assert!(
        !screens.contains('\u{202e}') && !screens.contains('\u{1b}'),
        "nothing reaches the terminal"
    );
    insta::assert_snapshot!(screens);
}

/// guarantees §7: a call that was held before calls were bound to their tool's contract is found by no
/// call any more, so that nobody is let allow it.
#[tokio::test]
async fn what_was_held_before_an_update_is_void() {
    let setup = setup();
    setup.write();
    let ids = recorded(&setup, vec![ask(1, json!({ "amount": 1 }))]).await;
    let gate = setup.begin().await;
    let void = shown(&gate, &ids[0]).await;
    assert_eq!(void["state"], "void", "{void}");
    let why = void["void"].as_str().unwrap();
    assert!(why.contains("toolgate was updated"), "{void}");
    let (code, said) = says(&gate, "ann", &["allow", &ids[0], "--why", "due"]).await;
    assert!(code == 1 && said.contains("toolgate was updated"), "{said}");
}

/// As with `calls`: the command line is read in full, and a toolgate has to run.
#[tokio::test]
async fn a_decision_is_said_in_full() {
    let setup = setup();
    setup.write();
    let id = "0198f1a2-0000-7000-8000-000000000000";
    for wrong in [
        &["allow", id][..],
        &["deny", id],
        &["allow", "--why", "w"],
        &["allow", "019", "--why", "w"],
        &["show"],
        &["show", "019g"],
        &["list", id],
        &["allow-always", id, "--why", "w"],
        &["allow", id, "--why", "w", "--uses", "3"],
        &["allow", id, "--why", "w", "--always", "--at-most", "amount"],
        &["grants", "add", "--tool", "a__b", "--why", "w"],
        &[
            "grants", "add", "--tool", "a__b", "--agent", "c", "--why", "w", "--total", "/n=x",
        ],
        &[
            "grants",
            "explain",
            "--tool",
            "a__b",
            "--agent",
            "c",
            "--arguments",
            "{",
        ],
    ] {
        let (code, _, err) = run(&setup, &[&["approvals"], wrong].concat()).await;
        assert_eq!(code, 2, "{wrong:?}: {err}");
    }
    let place = ["--config", "toolgate.yaml", "--admin", "127.0.0.1:9"];
    for words in [
        &["approvals"][..],
        &["approvals", "allow", id, "--why", "w"],
    ] {
        let (code, _, err) = run(&setup, &[words, &place].concat()).await;
        assert!(
            code == 1 && err.contains("no operators' door answers at 127.0.0.1:9"),
            "{err}"
        );
        assert!(err.contains("while toolgate runs"), "{err}");
    }
    assert!(
        !Path::new(&setup.directory().join("data")).exists(),
        "nothing is made"
    );
}

/// guarantees §7, restart: what waits goes on waiting, what was decided stays decided.
#[tokio::test]
async fn decisions_outlive_a_restart() {
    let setup = setup();
    setup.write();
    let ids = held(
        &setup,
        vec![ask(1, json!({})), ask(2, json!({})), ask(1, json!({}))],
    )
    .await;
    let mut gate = setup.begin().await;
    for (who, word, id) in [
        ("ann", "allow", &ids[0]),
        ("ann", "allow", &ids[1]),
        ("bob", "deny", &ids[2]),
    ] {
        assert_eq!(says(&gate, who, &[word, id, "--why", "x"]).await.0, 0);
    }
    let mut before = Vec::new();
    for id in &ids {
        before.push(shown(&gate, id).await);
    }
    for is_killed in [false, true] {
        if is_killed {
            gate.kill().await;
        } else {
            gate.terminate();
            gate.wait().await;
        }
        gate = gate.setup.clone().begin().await;
        for (id, before) in ids.iter().zip(&before) {
            assert_eq!(&shown(&gate, id).await, before);
        }
    }
    let (_, again) = says(&gate, "ann", &["allow", &ids[1], "--why", "x"]).await;
    assert_eq!(
        again,
        "nothing changes: that is said already, and it is pending\n"
    );
    let (_, second) = says(&gate, "bob", &["allow", &ids[1], "--why", "x"]).await;
    assert_eq!(
        second,
        "allowed by bob: the agent's call runs once, exactly as it is shown\n"
    );
}

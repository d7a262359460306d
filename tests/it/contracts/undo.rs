//! How what changes something is undone, and who may call it: a contract says both in words that
//! are known, and a rollback is a call that can be made.

use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use serde_json::{Value, json};

const CALLERS: &str = "  - { agent: clerk, token: token-of-the-clerk }";
const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-ann-who-has-the-role, roles: [approver] } ]";

/// One contract for each word, as a new user writes them for a file server.
const WORDS_POLICY: &str = "
contracts:
  fs__write_file:
    purpose: Write a file.
    actions: [write]
    permission: anyone
    side_effect: { writes: files, rollback: { manual: restore it from version control } }
    secrets: []
  fs__move_file:
    purpose: Move a file.
    actions: [write]
    permission: anyone
    side_effect:
      writes: names of files
      rollback: { tool: fs__move_file, arguments: { source: arguments#/destination, destination: arguments#/source, why: action# } }
    secrets: []
    audit: [why]
  fs__create_directory: { purpose: Make a directory., actions: [write], permission: anyone, additive: true, secrets: [] }
  fs__send: { purpose: Send a file., actions: [notify], permission: anyone, irreversible: true, approval: { hold: 0s }, secrets: [] }
";

/// A tool that takes texts of these names and needs all of them.
fn taking(name: &str, arguments: &[&str]) -> Value {
    let text = |name: &&str| ((*name).to_owned(), json!({ "type": "string" }));
    let properties: serde_json::Map<String, Value> = arguments.iter().map(text).collect();
    json!({ "name": name, "inputSchema": { "type": "object", "properties": properties, "required": arguments } })
}

async fn with_words(scripted: &ScriptedServer) -> Gate {
    Setup::new()
        .server_with("fs", &format!("url: \"{}\"", scripted.url()))
        .policy(WORDS_POLICY)
        .callers(CALLERS)
        .operators(OPERATORS)
        .start()
        .await
}

/// 003-19, 003-52, 003-98: a plain write that a person can take back runs without one, and so does
/// what another call takes back or what loses nothing; what nothing takes back asks each time. The
/// ledger has the word.
#[tokio::test]
async fn a_person_is_asked_only_for_what_cannot_be_taken_back() {
    let names = ["write_file", "move_file", "create_directory", "send"];
    let scripted = ScriptedServer::with(names.map(tool).to_vec()).await;
    let gate = with_words(&scripted).await;
    let agent = gate.agent().token("token-of-the-clerk");
    for name in &names[..3] {
        let answer = agent.call(&format!("fs__{name}"), json!({})).await;
        assert_eq!(code(&answer), None, "{name}: {answer}");
    }
    let held = agent.call("fs__send", json!({})).await;
    assert_eq!(code(&held).as_deref(), Some("approval_pending"), "{held}");
    assert_eq!(scripted.executions(), 3);
    let entries = gate.entries(4).await;
    let words: Vec<&Value> = entries.iter().map(|entry| &entry["undo"]).collect();
    assert_eq!(
        words,
        [
            &json!("by hand: restore it from version control"),
            &json!("call fs__move_file"),
            &json!("not needed: nothing is lost"),
            &json!("impossible")
        ]
    );
    let id = entries[3]["approval"].as_str().unwrap();
    let door = gate.operators.to_string();
    let show = [
        "approvals",
        "show",
        id,
        "--config",
        "toolgate.yaml",
        "--admin",
        &door,
    ];
    let (exit, shown, wrong) = run(&gate.setup.operator("ann"), &show).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{shown}");
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("undo ") && line.ends_with(" impossible")),
        "{shown}"
    );
    let (exit, checked, _) = run(&gate.setup, &["check", "."]).await;
    assert_eq!(exit, 0, "{checked}");
    assert!(
        checked.contains("note: 1 of 4 contracts with side effects cannot be taken back"),
        "{checked}"
    );
}

/// 003-19, 003-64: the call that takes another back may be the tool's own; it carries the action id of
/// the call it takes back to the tool server, and the ledger tells by it what it undid.
#[tokio::test]
async fn a_rollback_carries_the_action_id_of_what_it_takes_back() {
    let scripted = ScriptedServer::with(vec![tool("move_file")]).await;
    let gate = with_words(&scripted).await;
    let agent = gate.agent().token("token-of-the-clerk");
    let moved = json!({ "source": "a", "destination": "b" });
    let answer = agent.call("fs__move_file", moved).await;
    let id = &answer["result"]["_meta"]["dev.toolgate/decision"]["action_id"];
    let back = json!({ "source": "b", "destination": "a", "why": id });
    let answer = agent.call("fs__move_file", back.clone()).await;
    assert_eq!(code(&answer), None, "{answer}");
    let calls = scripted.seen();
    let last = calls.iter().rfind(|seen| seen.method() == "tools/call");
    assert_eq!(last.unwrap().body["params"]["arguments"], back);
    let entries = gate.entries(2).await;
    assert!(id.is_string(), "{answer}");
    assert_eq!(&entries[0]["action_id"], id);
    assert_eq!(&entries[1]["audit"]["why"], id);
}

/// What `check` says, without what differs from run to run.
async fn checked(setup: &Setup, arguments: &[&str]) -> String {
    let (exit, out, wrong) = run(setup, arguments).await;
    assert_eq!((exit, wrong.as_str()), (1, ""), "{out}");
    unversioned(&out)
}

/// Without the policy's version, which differs with the server's port.
pub(super) fn unversioned(said: &str) -> String {
    let version = regex::Regex::new("policy [0-9a-f]{12}").unwrap();
    version.replace_all(said, "policy VERSION").into_owned()
}

/// What is missing, said twice, not known or not true.
const WRONG_WORDS: &str = r#"
contracts:
  fs__unsaid: { purpose: p, actions: [write], permission: anyone, secrets: [] }
  fs__effect: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: files }, secrets: [] }
  fs__twice:
    purpose: p
    actions: [write]
    permission: anyone
    side_effect: { writes: files, rollback: { manual: from the bin } }
    additive: true
    secrets: []
  fs__both: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: files, rollback: { manual: from the bin, tool: fs__both } }, secrets: [] }
  fs__neither: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: files, rollback: {} }, secrets: [] }
  fs__blank: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: files, rollback: { manual: " " } }, secrets: [] }
  fs__at_top: { purpose: p, actions: [write], permission: anyone, rollback: { manual: from the bin }, secrets: [] }
  fs__lost: { purpose: p, actions: [delete], permission: { roles: [janitor] }, additive: true, secrets: [] }
  fs__drops: { purpose: p, actions: [deletes], permission: anyone, irreversible: true, secrets: [] }
  fs__who: { purpose: p, actions: [write], additive: true, secrets: [] }
  fs__nobody: { purpose: p, actions: [notify], permission: {}, irreversible: true, secrets: [] }
  fs__typo: { purpose: p, actions: [write], permission: anyon, additive: true, secrets: [] }
  fs__args: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: files, rollback: { manual: x, arguments: { id: 1 } } }, secrets: [] }
"#;

/// 003-15, 003-19, 003-47, 003-52, 003-114: what a contract leaves open is an error that lists the
/// words, in either mode: `deletes` is no action, and no `permission` is not anyone's.
#[tokio::test]
async fn what_a_write_leaves_open_is_an_error() {
    let setup = Setup::new()
        .server_with("fs", "command: x")
        .policy(WRONG_WORDS);
    setup.write();
    let said = checked(&setup, &["check", "."]).await;
    insta::assert_snapshot!("words_for_undoing", said);
    let observing = setup.mode("observe");
    observing.write();
    let errors = |said: &str| -> Vec<String> {
        let lines = said.lines().filter(|line| line.starts_with("error:"));
        lines.map(str::to_owned).collect()
    };
    let observed = checked(&observing, &["check", "."]).await;
    assert_eq!(errors(&observed), errors(&said));
}

/// Rollbacks of which one can be called, and what each of the others lacks.
fn uncallable_policy() -> String {
    let rollbacks = [
        (
            "good",
            "tool: fs__remove, arguments: { path: arguments#/path, id: result#/id }",
        ),
        (
            "unlisted",
            "tool: fs__remvoe, arguments: { path: arguments#/path }",
        ),
        (
            "unset",
            "tool: fs__remove, arguments: { path: arguments#/path }",
        ),
        (
            "misspelt",
            "tool: fs__remove, arguments: { pth: arguments#/path, id: result#/id }",
        ),
        (
            "source",
            "tool: fs__remove, arguments: { path: arguments#/paht, id: result#/id }",
        ),
        ("itself", "tool: fs__itself"),
    ];
    let contract = |(name, rollback): (&str, &str)| {
        format!(
            "  fs__{name}:\n    purpose: p\n    actions: [write]\n    permission: anyone\n    side_effect:\n      writes: files\n      \
             rollback: {{ {rollback} }}\n    secrets: []\n"
        )
    };
    let ways_back = ["remove", "remvoe"].map(|name| {
        format!("  fs__{name}: {{ purpose: p, actions: [delete], permission: {{ roles: [janitor] }}, irreversible: true, secrets: [] }}\n")
    });
    let contracts: String = rollbacks
        .map(contract)
        .into_iter()
        .chain(ways_back)
        .collect();
    format!("contracts:\n{contracts}")
}

/// 003-19, 003-64, 003-P4a: a rollback that can't be called is an error: by the listing of a server
/// that is asked, and by the pins, without one.
#[tokio::test]
async fn a_rollback_that_cannot_be_called_is_an_error() {
    let names = ["good", "unlisted", "unset", "misspelt", "source", "itself"];
    let mut tools: Vec<Value> = names.map(|name| taking(name, &["path"])).to_vec();
    tools.push(taking("remove", &["path", "id"]));
    let scripted = ScriptedServer::with(tools).await;
    let setup = Setup::new()
        .server_with("fs", &format!("url: \"{}\"", scripted.url()))
        .policy(&uncallable_policy());
    setup.write();
    let (exit, out, _) = run(&setup, &["check", "."]).await;
    assert_eq!(exit, 0, "nothing is known of the tools: {out}");
    let asked = checked(&setup, &["check", "--connect", "."]).await;
    let setup = setup.more("pins: toolgate.pins.yaml");
    setup.write();
    let (exit, out, wrong) = run(&setup, &["pins", "approve", "--all"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{out}");
    let pinned = checked(&setup, &["check", "."]).await;
    insta::assert_snapshot!(
        "uncallable_rollbacks",
        format!("{asked}\n--- by pins ---\n{pinned}")
    );
}

/// A file system whose `put` says what it answers, and whose `file` does several things.
async fn with_cases() -> (ScriptedServer, Setup) {
    let answers = json!({ "type": "object", "properties": { "id": { "type": "string" } } });
    let put = json!({ "name": "put", "outputSchema": answers, "inputSchema": { "type": "object", "properties": { "path": { "type": "string" } } } });
    let does = json!({ "enum": ["remove", "list", "move"] });
    let file = json!({ "name": "file", "inputSchema": { "type": "object", "properties": { "do": does, "id": { "type": "string" }, "deep": { "type": "integer" } } } });
    let scripted = ScriptedServer::with(vec![put, file]).await;
    let setup = Setup::new().server_with("fs", &format!("url: \"{}\"", scripted.url()));
    (scripted, setup)
}

/// A policy in which `put` is taken back by a call of `file` with these arguments.
fn taken_back_by(arguments: &str) -> String {
    format!(
        "contracts:
  fs__put:
    purpose: p
    actions: [write]
    permission: anyone
    side_effect: {{ writes: files, rollback: {{ tool: fs__file, arguments: {{ {arguments} }} }} }}
    secrets: []
  fs__file:
    purpose: p
    actions: [read, write]
    permission: anyone
    side_effect: {{ writes: files, rollback: {{ manual: by hand }} }}
    arguments: {{ properties: {{ deep: {{ maximum: 3 }} }} }}
    variants: {{ by: /do, cases: {{ list: {{ actions: [read] }}, remove: {{ actions: [write] }} }} }}
    secrets: []
"
    )
}

/// Arguments of the call that takes back, and what is wrong with them.
const UNFIT_ROLLBACKS: [(&str, &str); 9] = [
    ("do: remove, id: result#/id", ""),
    ("do: remove, id: result#, deep: 3", ""),
    (
        "do: remove, id: result#/di",
        "the result of the call that is taken back has no `di`",
    ),
    (
        "do: remove, id: 7",
        "`fs__file` does not take this value of `id`",
    ),
    (
        "do: remove, deep: 4",
        "`fs__file` does not take this value of `deep`",
    ),
    (
        "do: delete, id: action#",
        "the contract of `fs__file` has no case for \"delete\" at `/do`",
    ),
    (
        "do: move, id: action#",
        "the contract of `fs__file` has no case for \"move\" at `/do`",
    ),
    ("id: action#", "has no case for nothing at `/do`"),
    (
        "do: list, id: action#",
        "the case of `fs__file` that it chooses by `/do` changes nothing",
    ),
];

/// 003-64, 003-P4a: so is one with a value that its tool or its tool's contract does not take, with a
/// case that the contract does not have or that changes nothing, or that takes over a part of the
/// result which the call does not answer with.
#[tokio::test]
async fn a_rollback_with_values_that_do_not_fit_is_an_error() {
    let (_scripted, setup) = with_cases().await;
    let mut shown = Vec::new();
    for pinned in [false, true] {
        let mut setup = setup.clone();
        if pinned {
            setup = setup
                .more("pins: toolgate.pins.yaml")
                .policy(&taken_back_by("do: remove"));
            setup.write();
            let (exit, out, wrong) = run(&setup, &["pins", "approve", "--all"]).await;
            assert_eq!((exit, wrong.as_str()), (0, ""), "{out}");
        }
        for (arguments, message) in UNFIT_ROLLBACKS {
            setup = setup.policy(&taken_back_by(arguments));
            setup.write();
            let words: &[&str] = if pinned {
                &["check", "."]
            } else {
                &["check", "--connect", "."]
            };
            let (exit, out, wrong) = run(&setup, words).await;
            let said = out + &wrong;
            assert_eq!(exit, i32::from(!message.is_empty()), "{arguments}: {said}");
            assert!(said.contains(message), "{arguments}: {said}");
            let told = said.contains("the rollback can't be called");
            assert_eq!(told, !message.is_empty(), "{arguments}: {said}");
            if !pinned {
                let block = said
                    .split("\n\n")
                    .find(|block| block.contains("can't be called"));
                shown.extend(block.map(|block| block.trim().to_owned()));
            }
        }
    }
    insta::assert_snapshot!("unfit_rollbacks", unversioned(&shown.join("\n\n")));
}

//! How a policy comes in force, and how one goes back: packs that have to pass, bundles of what was
//! in force, and rollbacks.

use crate::harness::answer::code;
use crate::harness::gate::{Gate, run, runs};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

mod bundles;
mod pinned;
mod required_packs;
mod rollback_kills;
mod rollbacks;

/// What is too much for the first policy, and not for the second.
const AMOUNT: u32 = 50;
const STRICT: u32 = 10;
const LOOSE: u32 = 100;

/// A read is refused from this amount on.
fn policy(most: u32) -> String {
    format!(
        "contracts:
  oracle__read:
    purpose: test
    actions: [read]
    rules: [ {{ code: too_much, when: \"arguments.amount > {most}\" }} ]
    secrets: []
repetition: {{ unwatched: true }}
budgets: {{ unlimited: true }}
"
    )
}

/// A pack whose one case is that of [`AMOUNT`].
fn pack(expect: &str) -> String {
    format!(
        "pack: amounts
samples:
  - {{ name: large reads, caller: anonymous, tool: oracle__read, arguments: {{ amount: {AMOUNT} }}, expect: {expect} }}
"
    )
}

/// The strict policy, with its pack beside it, which is required if `more` says so.
async fn setup(more: &str) -> (ScriptedServer, Setup) {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
        .policy(&policy(STRICT))
        .more(more);
    std::fs::create_dir(setup.directory().join("tests")).unwrap();
    write(&setup, "tests/amounts.yaml", &pack("too_much"));
    (scripted, setup)
}

/// Writes beside and renames, as editors do.
fn write(setup: &Setup, name: &str, text: &str) {
    let path = setup.directory().join(name);
    let beside = setup.directory().join("beside.new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

fn read(setup: &Setup, name: &str) -> String {
    std::fs::read_to_string(setup.directory().join(name)).unwrap()
}

/// Whether the strict policy judges calls.
async fn is_strict(gate: &Gate) -> bool {
    let answer = gate
        .agent()
        .call("oracle__read", json!({ "amount": AMOUNT }))
        .await;
    match code(&answer).as_deref() {
        None => false,
        Some("too_much") => true,
        Some(other) => panic!("{other}: {answer}"),
    }
}

async fn becomes(gate: &Gate, strict: bool) {
    until(&format!("the strict policy judges: {strict}"), || async {
        (is_strict(gate).await == strict).then_some(())
    })
    .await;
}

/// A verb that says what it has to say in JSON.
async fn json_of(setup: &Setup, line: &str) -> (i32, Value) {
    let (code, out, err) = runs(setup, &format!("{line} --json")).await;
    let value = serde_json::from_str(&out);
    (
        code,
        value.unwrap_or_else(|error| panic!("{line}: {error}: {out}{err}")),
    )
}

/// The kept policies, in the order in which they came in force last.
async fn kept(setup: &Setup) -> Vec<Value> {
    let (code, listed) = json_of(setup, "policy list").await;
    assert_eq!(code, 0, "{listed}");
    listed["policies"].as_array().unwrap().clone()
}

fn hash(policy: &Value) -> String {
    policy["bundle"].as_str().unwrap().to_owned()
}

/// The last time that it came in force.
fn last_life(policy: &Value) -> &Value {
    policy["lives"].as_array().unwrap().last().unwrap()
}

/// A gate with the loose policy in force, which had the strict one before; both hashes.
async fn loosened(more: &str) -> (ScriptedServer, Gate, [String; 2]) {
    let (scripted, setup) = setup(more).await;
    let gate = setup.start().await;
    becomes(&gate, true).await;
    write(&gate.setup, "tests/amounts.yaml", &pack("allow"));
    write(&gate.setup, "policy.yaml", &policy(LOOSE));
    becomes(&gate, false).await;
    let all = kept(&gate.setup).await;
    let hashes = [hash(&all[0]), hash(&all[1])];
    assert_eq!(all.len(), 2, "{all:?}");
    (scripted, gate, hashes)
}

/// Runs a verb that has to end well.
async fn done(setup: &Setup, args: &[&str]) -> String {
    let (code, out, err) = run(setup, args).await;
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

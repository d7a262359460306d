//! One call, one version: whatever is reloaded while calls are under way, who calls and everything
//! that judges the call come from the same files.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const TOKEN: &str = "token-of-the-only-agent";
/// The last of them observes.
const VERSIONS: [u64; 4] = [1, 2, 3, 4];
const OBSERVES: u64 = 4;

/// Everything in it that can say so says `n`, and what is of another version is refused.
fn policy(n: u64) -> String {
    let hidden: String = VERSIONS
        .map(|one| {
            format!("  oracle__hidden_{one}: {{ purpose: test, actions: [read], secrets: [] }}\n")
        })
        .concat();
    format!(
        r#"contracts:
  oracle__undo: {{ purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, rollback: {{ manual: by hand }} }} }}
  oracle__act:
    purpose: test
    actions: [write]
    permission: {{ roles: [role-{n}] }}
    arguments: {{ required: [id], additionalProperties: true }}
    rules: [ {{ code: foreign, when: "caller.group != 'group-{n}'" }} ]
    rewrite: [ {{ name: step-{n}, set: {{ /step: {n} }} }} ]
    budget: {{ max_calls_per_task: {most} }}
    side_effect: {{ writes: effect-{n}, rollback: {{ tool: oracle__undo }} }}
    results: {{ redact: [ {{ pointer: /mark, with: "{n}" }} ] }}
    secrets: [/secret]
    audit: [note_{n}]
{hidden}layers: {{ agent: {{ bot: {{ deny: [oracle__hidden_{n}] }} }} }}
"#,
        most = 1_000 * n
    )
}

/// Each version, and its configuration: only that has to be replaced for all of it to change.
fn versions(base: &Setup, hooks: &HookServer) -> BTreeMap<u64, (Setup, String)> {
    let version = |n: u64| {
        std::fs::write(base.directory().join(format!("v{n}.yaml")), policy(n)).unwrap();
        let callers = format!(
            "  - {{ agent: bot, token: {TOKEN}, tenant: t_001, group: group-{n}, roles: [role-{n}] }}"
        );
        let hooks = hooks.hooks(&[(&format!("h{n}"), "before", "*")], "");
        let secrets = format!(
            "secrets: {{ key: {{ env: SECRET_{n}, for: [ {{ server: oracle, tool: act, pointer: /secret }} ] }} }}"
        );
        let mode = if n == OBSERVES { "observe" } else { "enforce" };
        let policies = format!("policies: [v{n}.yaml]");
        let setup = base
            .clone()
            .callers(&callers)
            .more(&hooks)
            .more(&secrets)
            .more(&policies)
            .mode(mode);
        let text = std::fs::read_to_string(setup.write()).unwrap();
        (n, (setup, text))
    };
    VERSIONS.into_iter().map(version).collect()
}

/// Writes beside and renames: all of it changes at once.
fn place(setup: &Setup, text: &str) {
    let (new, file) = (
        setup.directory().join("toolgate.yaml.new"),
        setup.directory().join("toolgate.yaml"),
    );
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

async fn act(agent: &Agent, id: u64) -> Value {
    let mut arguments = json!({ "id": id, "secret": "<secret_ref:key>" });
    for n in VERSIONS {
        arguments[format!("note_{n}")] = json!(n);
    }
    let meta = json!({ "dev.toolgate/task": format!("task {id}") });
    agent
        .ask(
            "tools/call",
            json!({ "name": "oracle__act", "arguments": arguments, "_meta": meta }),
        )
        .await
}

/// The version by which the result was redacted; nothing refuses a call that is judged by one
/// version.
fn version_of(answer: &Value) -> u64 {
    assert_eq!(code(answer), None, "{answer}");
    answer["result"]["structuredContent"]["mark"]
        .as_str()
        .and_then(|mark| mark.parse().ok())
        .unwrap_or_default()
}

/// The one tool that a listing hides.
async fn hidden(agent: &Agent) -> u64 {
    let listed = agent.tools().await;
    let lacks = |n: &u64| !listed.contains(&format!("oracle__hidden_{n}"));
    let hidden: Vec<u64> = VERSIONS.into_iter().filter(lacks).collect();
    assert!(
        hidden.len() <= 1 && listed.contains(&"oracle__act".to_owned()),
        "{listed:?}"
    );
    // Where nothing is enforced, nothing is hidden.
    hidden.first().copied().unwrap_or(OBSERVES)
}

/// A call, the version that its answer is of, and the answer.
type Heard = (u64, u64, Value);

/// Calls and lists until it is stopped.
async fn goes_on(agent: Agent, stop: Arc<AtomicBool>, next: Arc<AtomicU64>) -> Vec<Heard> {
    let mut heard = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let id = next.fetch_add(1, Ordering::Relaxed);
        let answer = act(&agent, id).await;
        heard.push((id, version_of(&answer), answer));
        hidden(&agent).await;
    }
    heard
}

/// Everything that was recorded of the call, and all that was sent, is of version `n`.
fn is_of(n: u64, entry: &Value, sent: &Value) {
    assert_eq!(entry["roles"], json!([format!("role-{n}")]), "{entry}");
    assert_eq!(entry["writes"], format!("effect-{n}"), "{entry}");
    assert_eq!(entry["audit"], json!({ format!("note_{n}"): n }), "{entry}");
    assert_eq!(
        entry["budget_remaining"]["calls_per_task"],
        1_000 * n - 1,
        "{entry}"
    );
    assert_eq!(sent["secret"], format!("secret-number-{n}"), "{entry}");
    if n == OBSERVES {
        assert_eq!(
            (sent.get("step"), sent.get("hook")),
            (None, None),
            "{entry}"
        );
        assert_eq!(entry["unasked"], json!([format!("hook h{n}")]), "{entry}");
    } else {
        assert_eq!(
            (&sent["step"], &sent["hook"]),
            (&json!(n), &json!(format!("h{n}"))),
            "{entry}"
        );
        assert_eq!(
            entry["rewritten_by"],
            json!([format!("step-{n}"), format!("h{n}")]),
            "{entry}"
        );
    }
}

/// What the tool server was sent, by call.
fn sent(scripted: &ScriptedServer) -> BTreeMap<u64, Value> {
    let calls = scripted
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "tools/call");
    let arguments = calls.map(|seen| seen.body["params"]["arguments"].clone());
    arguments
        .map(|arguments| (arguments["id"].as_u64().unwrap(), arguments))
        .collect()
}

/// The ledger, by action id.
async fn recorded(setup: &Setup) -> BTreeMap<String, Value> {
    let (_, listed, _) = run(setup, &["ledger", "list", "--json", "--data", "data"]).await;
    let entries = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries
        .map(|entry| (entry["action_id"].as_str().unwrap().to_owned(), entry))
        .collect()
}

/// Issue 4, design §3 "Policy is an immutable snapshot", 001-60: under load, with broken files in
/// between, each call has the identity, layers, contract, rules, steps, hooks, budget, secrets,
/// result rules, audit and mode of one version, on both wires, in sessions that are older than the
/// version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_has_parts_of_two_versions() {
    let names = ["act", "hidden_1", "hidden_2", "hidden_3", "hidden_4"];
    let scripted = ScriptedServer::with(names.map(tool).to_vec()).await;
    scripted.answers(|_| {
        Reply::Result(json!({ "content": [], "structuredContent": { "mark": "none" }, "resultType": "complete" }))
    });
    let hooks = HookServer::start().await;
    hooks.says(|told| HookReply::Json(json!({ "arguments": { "hook": told.hook } })));
    let mut base = Setup::new().server_with("oracle", &format!("url: \"{}\"", scripted.url()));
    for n in VERSIONS {
        base = base.environment(&format!("SECRET_{n}"), &format!("secret-number-{n}"));
    }
    let versions = versions(&base, &hooks);
    let gate = versions[&1].0.clone().start().await;
    let (stop, next) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(1)),
    );
    let modern = gate.agent().token(TOKEN);
    let mut agents = vec![modern.clone(), modern.clone()];
    for _ in 0..2 {
        agents.push(modern.clone().initialized().await);
    }
    let load: Vec<_> = agents
        .into_iter()
        .map(|agent| tokio::spawn(goes_on(agent, stop.clone(), next.clone())))
        .collect();
    for n in [2, 3, 4, 1, 3, 2, 4, 3, 1, 4, 2, 1] {
        let text = &versions[&n].1;
        place(&gate.setup, text);
        until(&format!("version {n} is in force"), || async {
            let answer = act(&modern, next.fetch_add(1, Ordering::Relaxed)).await;
            (version_of(&answer) == n).then_some(())
        })
        .await;
        place(
            &gate.setup,
            &text.replace("policies: [", "policies: [absent.yaml, "),
        );
        let stale = async || gate.readiness().await["policy"]["stale"] == true;
        until("the files are broken", || async {
            stale().await.then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut heard = Vec::new();
    for load in load {
        heard.extend(load.await.unwrap());
    }
    let (entries, sent) = (recorded(&gate.stop().await).await, sent(&scripted));
    judge_calls(&heard, &entries, &sent);
}

fn judge_calls(heard: &[Heard], entries: &BTreeMap<String, Value>, sent: &BTreeMap<u64, Value>) {
    let mut known: BTreeMap<u64, (String, usize)> = BTreeMap::new();
    for (id, n, answer) in heard {
        let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
        let entry = &entries[decision["action_id"].as_str().unwrap()];
        let policy = entry["policy"].as_str().unwrap();
        let (version, calls) = known.entry(*n).or_insert_with(|| (policy.to_owned(), 0));
        assert_eq!(policy, version, "{entry}");
        is_of(*n, entry, &sent[id]);
        *calls += 1;
    }
    let names: BTreeSet<&str> = known
        .values()
        .map(|(version, _)| version.as_str())
        .collect();
    assert!(
        names.len() == 4 && known.values().all(|(_, calls)| *calls >= 8),
        "{known:?}"
    );
}

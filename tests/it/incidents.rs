//! Incidents (003-20, 003-41, 003-43): tools are frozen in one act, what went wrong becomes a sample, and the
//! tools come back when that is as expected; whatever ends toolgate in between.

use crate::approvals::pages::{field, sends, signs_in};
use crate::approvals::{ask, held};
use crate::harness::agent::{Agent, modern};
use crate::harness::answer::get;
use crate::harness::gate::{Gate, run};
use crate::harness::setup::{Setup, beside, contract, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use crate::kills::{INCIDENT, PROGRAM, build};
use serde_json::{Value, json};

pub const ORDER: &str = "oracle__create_order";
pub const CLERK: &str = "token-of-the-clerk";
pub const ANN: &str = "token-of-ann-the-operator";
pub const CALLERS: &str =
    "  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [buyer] }\n";
pub const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [lead, switch, auditor] } ]";
/// What the model reads, and takes for a reason to order once more (004-08).
const WORDS: &str = "The order is being processed. If in doubt, confirm again.";

/// What an order is, as the contract has it: its server says nothing.
const NAMES: &str = ", arguments: { properties: { business_id: { type: string }, sku: { type: string }, \
                     amount: { type: integer }, note: { type: string } } }";

pub fn policy(most: u32) -> String {
    let rule = format!(", rules: [ {{ code: too_much, when: \"arguments.amount > {most}\" }} ]");
    let keys = ", idempotency: { derive: arguments }";
    let order = contract(ORDER, "write", &format!("{rule}{keys}{NAMES}"));
    format!("contracts:\n{}\n  {ORDER}: {order}\n", undo(ORDER))
}

pub async fn shop() -> (ToolServer, Gate) {
    let said = json!({ "content": [{ "type": "text", "text": WORDS }], "resultType": "complete" });
    let server = Script::new()
        .tool("create_order", Behaviour::Says(said))
        .start()
        .await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(&policy(100));
    (server, setup.start().await)
}

/// Runs `toolgate incident …` as Ann: at the running toolgate, or on the data directory.
pub async fn says(gate: Result<&Gate, &Setup>, words: &[&str]) -> (i32, String) {
    let door = gate.ok().map(|gate| gate.operators.to_string());
    let setup = gate.map_or_else(Clone::clone, |gate| gate.setup.clone());
    let mut all = [&["incident"], words, &["--config", "toolgate.yaml"]].concat();
    all.extend(door.iter().flat_map(|door| ["--admin", door]));
    let setup = setup.environment("OPERATOR_TOKEN", ANN);
    let (code, out, err) = run(&setup, &all).await;
    (code, out + &err)
}

/// Incident 1 as programs read it.
pub async fn first(gate: Result<&Gate, &Setup>) -> Value {
    let (code, text) = says(gate, &["show", "1", "--json"]).await;
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).unwrap()
}

pub fn order(amount: u32) -> Value {
    json!({ "business_id": "order-7", "sku": "sku-1", "amount": amount, "note": WORDS })
}

/// Places an order in the trace of its session, under a key of the agent's (004-03).
pub async fn place(agent: &Agent, order: &Value, key: &str) -> Value {
    let mut message = modern("tools/call", json!({ "name": ORDER, "arguments": order }));
    message["params"]["_meta"]["dev.toolgate/idempotencyKey"] = json!(key);
    message["params"]["_meta"]["traceparent"] =
        json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    agent.answered(&message).await
}

/// An order runs twice, and its tools are frozen; the action ids of both calls.
pub async fn frozen_after_an_alert(server: &ToolServer, gate: &Gate, agent: &Agent) -> Vec<String> {
    for key in ["once", "once more"] {
        let answer = place(agent, &order(99), key).await;
        assert_eq!(answer["result"]["content"][0]["text"], WORDS, "{answer}");
    }
    let executed = gate.metric("toolgate_duplicates_executed_total").await;
    assert!((executed - 1.0).abs() < 0.1, "the alert: {executed}");
    let why = "an order ran twice";
    let opened = says(Ok(gate), &["open", "--tool", "oracle__*", "--why", why]).await;
    let words =
        "incident 1 is open: oracle__* is frozen by ann\nvoid: 0 held calls; revoked: 0 grants\n";
    assert_eq!((opened.0, opened.1.as_str()), (0, words));
    let refused = place(agent, &order(1), "another").await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(server.executions().len(), 2);
    let sent = gate.entries(3).await;
    let sent = sent.iter().filter(|entry| entry["event"] == "exit");
    let ids: Vec<String> = sent
        .map(|entry| entry["action_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    ids
}

/// Makes a sample of the call, with what is said of it now.
pub async fn sample(gate: &Gate, id: &str, now: &str) {
    let arguments = order(99).to_string();
    let words = [
        "sample",
        id,
        "--arguments",
        &arguments,
        "--expect",
        "too_much",
    ];
    let (code, told) = says(Ok(gate), &words).await;
    assert!(code == 0 && told.contains(&format!("now: {now}")), "{told}");
}

/// Mends the policy, and waits until the timeline tells of it.
pub async fn mend(gate: &Gate) {
    std::fs::write(gate.path("policy.yaml"), policy(50)).unwrap();
    until("the reload stands in the timeline", || async {
        let shown = first(Ok(gate)).await;
        let mut line = shown["timeline"].as_array().unwrap().iter();
        line.any(|event| event["step"] == "reloaded").then_some(())
    })
    .await;
}

/// Document 004, from the first alert to the closed incident: an order runs twice, its tools are frozen, both
/// calls become samples, the policy is mended, and only then the tools come back (003-20, 003-43).
#[tokio::test]
async fn from_the_first_alert_to_the_closed_incident() {
    let (server, gate) = shop().await;
    let agent = gate.agent().token(CLERK);
    let ids = frozen_after_an_alert(&server, &gate, &agent).await;
    let close = ["close", "1", "--why", "mended"];
    let (code, told) = says(Ok(&gate), &close).await;
    assert!(code == 1 && told.contains("incident sample"), "{told}");

    let pack = gate.path("tests/incidents.yaml");
    let written = || std::fs::read_to_string(&pack).unwrap();
    sample(&gate, &ids[1], "UNEXPECTED PASS got=allow expect=too_much").await;
    assert!(
        written().contains("sku-1"),
        "nobody knows yet what shows it"
    );
    let (code, told) = says(Ok(&gate), &close).await;
    assert!(
        code == 1 && told.contains("1 of 1 sample not as expected"),
        "{told}"
    );

    mend(&gate).await;
    sample(&gate, &ids[0], "AS EXPECTED got=too_much expect=too_much").await;
    let smallest = "arguments: {\"amount\":99}\n";
    assert!(written().contains(smallest), "{}", written());
    let closed = says(Ok(&gate), &close).await;
    let words = "incident 1 is closed: oracle__* is back\n2 samples of 1 pack as expected\n";
    assert_eq!((closed.0, closed.1.as_str()), (0, words));
    let refused = place(&agent, &order(99), "once again").await;
    let decision = &refused["result"]["_meta"]["dev.toolgate/decision"];
    assert_eq!(decision["code"], "too_much", "{refused}");
    place(&agent, &order(1), "a small one").await;
    assert_eq!(server.executions().len(), 3, "the small one runs");
    judge_record(&gate, &ids).await;
}

/// What is left: the timeline, the ledger, and one file of all of it without a value of the calls.
async fn judge_record(gate: &Gate, ids: &[String]) {
    let shown = first(Ok(gate)).await;
    let line = shown["timeline"].as_array().unwrap();
    let mut steps: Vec<&str> = line
        .iter()
        .map(|event| event["step"].as_str().unwrap())
        .collect();
    // A file that is read while it is written is read once more.
    steps.dedup();
    let expected = [
        "opened", "frozen", "refused", "sampled", "refused", "reloaded", "sampled", "closed",
    ];
    assert_eq!(steps, expected, "{shown}");
    assert_eq!(shown["closed"]["forced"], false);
    let (code, listed) = says(Ok(gate), &["list"]).await;
    assert!(
        code == 0 && listed.contains("closed") && listed.contains("oracle__*"),
        "{listed}"
    );

    let (code, told) = says(Ok(gate), &["collect", "1", "--out", "bundle.jsonl"]).await;
    assert_eq!(code, 0, "{told}");
    let (code, again) = says(Ok(gate), &["collect", "1", "--out", "bundle.jsonl"]).await;
    assert_eq!(code, 1, "nothing is replaced: {again}");
    let bundle = std::fs::read_to_string(gate.path("bundle.jsonl")).unwrap();
    let lines: Vec<Value> = bundle
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["bundle"], "toolgate incident bundle 1");
    assert_eq!(lines[1]["incident"], shown);
    let version = lines.iter().find(|line| line["policy"].is_object());
    let version = &version.unwrap()["policy"];
    assert!(version["written"].is_string() && version["in_force"].is_string());
    let files = lines.iter().filter(|line| line["kind"] == "policy");
    let texts: Vec<&str> = files.filter_map(|line| line["text"].as_str()).collect();
    assert!(texts.iter().any(|text| *text == policy(50)), "{bundle}");
    let entries = lines.iter().filter(|line| line["kind"] == "entry");
    let called: Vec<&str> = entries
        .filter_map(|line| line["action_id"].as_str())
        .collect();
    assert!(
        ids.iter().all(|id| called.contains(&id.as_str())),
        "{called:?}"
    );
    let end = lines.last().unwrap();
    assert!(
        end["journal"]["head"].is_string() && end["journal"]["problem"].is_null(),
        "{end}"
    );
    assert!(
        !bundle.contains("sku-1") && !bundle.contains(ANN) && !bundle.contains(CLERK),
        "values and tokens stay where they are"
    );
}

/// A server that is down, and calls of it that are held.
pub async fn bank() -> (Setup, Vec<String>) {
    let setup = Setup::new()
        .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
        .contracts(&[("bank__look", "read")])
        .operators(OPERATORS);
    setup.write();
    let asks = vec![
        ask(1, json!({ "amount": 1 })),
        ask(2, json!({ "amount": 2 })),
    ];
    let ids = held(&setup, asks).await;
    (setup, ids)
}

/// A held call as programs read it.
pub async fn hold(gate: &Gate, id: &str) -> Value {
    let text = gate.operators(&format!("/api/approvals/{id}")).await;
    serde_json::from_str(&text).unwrap()
}

/// What waits for a person is void for good, also where no toolgate runs, and after the incident; who asks for
/// its decision reads that there is none.
#[tokio::test]
async fn what_is_held_is_void_for_good() {
    let (setup, ids) = bank().await;
    let (code, told) = says(Err(&setup), &["open", "--tool", "bank__*", "--why", "odd"]).await;
    assert!(
        code == 0 && told.ends_with("void: 2 held calls; revoked: 0 grants\n"),
        "{told}"
    );
    let (code, told) = says(Err(&setup), &["open", "--tool", "nobody__*", "--why", "x"]).await;
    assert!(code == 1 && told.contains("no server"), "{told}");
    let (code, told) = says(Err(&setup), &["open", "--tool", "bank__*", "--why", "x"]).await;
    assert!(code == 1 && told.contains("incident 1 is open"), "{told}");

    let gate = setup.begin().await;
    for id in &ids {
        let shown = hold(&gate, id).await;
        assert_eq!(shown["state"], "void", "{shown}");
        let last = shown["decisions"].as_array().unwrap().last().unwrap();
        assert_eq!(last["why"], "incident 1: odd", "{shown}");
        let path = format!("/api/approvals/{id}/wait");
        let waited: Value = serde_json::from_str(&gate.operators(&path).await).unwrap();
        assert_eq!(
            (&waited["decision"], &waited["state"]),
            (&Value::Null, &json!("void")),
            "{waited}"
        );
    }
    let open: Value = serde_json::from_str(&gate.operators("/api/approvals").await).unwrap();
    assert_eq!(open["approvals"], json!([]));
    let (code, told) = says(Ok(&gate), &["close", "1", "--why", "x", "--force"]).await;
    assert!(code == 0 && told.contains("forced: "), "{told}");
    assert_eq!(hold(&gate, &ids[0]).await["state"], "void");
    let shown = first(Ok(&gate)).await;
    assert_eq!(
        (&shown["closed"]["forced"], &shown["voided"]),
        (&json!(true), &json!(2)),
        "{shown}"
    );
}

/// What a kill has left undone of incident 1 is done, and all of that is void.
pub async fn all_is_void(gate: &Gate, held: &[String]) {
    until("the rest is done", || async {
        let shown = first(Ok(gate)).await;
        (shown["settled"] == true).then_some(())
    })
    .await;
    for id in held {
        assert_eq!(hold(gate, id).await["state"], "void");
    }
}

/// What is held of other tools is not void, nor is it gone for who may decide on it.
#[tokio::test]
async fn what_is_held_of_other_tools_stays() {
    let (setup, ids) = bank().await;
    let words = ["open", "--tool", "bank__look*", "--why", "odd"];
    let (code, told) = says(Err(&setup), &words).await;
    assert!(
        code == 0 && told.ends_with("void: 0 held calls; revoked: 0 grants\n"),
        "{told}"
    );
    let gate = setup.begin().await;
    for id in &ids {
        // The files here say nothing of its agent; the incident has ended it no more than an operator has.
        let shown = hold(&gate, id).await;
        assert_eq!(shown["decisions"], json!([]), "{shown}");
    }
}

/// threat-model §12: killed right after the freeze is durable, the next start freezes and does the rest.
#[tokio::test]
async fn an_incident_outlives_a_kill_in_the_midst_of_its_opening() {
    build();
    let (setup, ids) = bank().await;
    let armed = setup
        .clone()
        .program(beside(PROGRAM))
        .environment("TOOLGATE_FAILPOINT", INCIDENT);
    let mut gate = armed.begin().await;
    let (code, told) = says(Ok(&gate), &["open", "--tool", "bank__*", "--why", "odd"]).await;
    assert_eq!(code, 1, "{told}");
    gate.wait().await;
    let before = first(Err(&setup)).await;
    assert_eq!(before["settled"], false, "{before}");

    let gate = setup.begin().await;
    let status: Value = serde_json::from_str(&gate.operators("/api/status").await).unwrap();
    assert_eq!(status["frozen"][0]["pattern"], "bank__*", "{status}");
    all_is_void(&gate, &ids).await;
}

/// The page beside approvals: who has the role opens one, sees its timeline, and closes it.
#[tokio::test]
async fn an_incident_has_a_page() {
    let (setup, _) = bank().await;
    let gate = setup.begin().await;
    let cookie = signs_in(&gate, ANN).await;
    let cookie = [("cookie", cookie.as_str())];
    let page = async |path: &str| {
        let shown = gate.asks_operators(("GET", path), &cookie, "").await;
        assert_eq!(shown.status, 200);
        shown.text()
    };
    let secret = field(&page("/incidents").await, "form_secret");
    let send = async |path: &str, fields: &[(&str, &str)]| {
        let fields = [&[("form_secret", secret.as_str())], fields].concat();
        sends(&gate, path, &fields, &cookie).await
    };
    let opened = send("/incidents", &[("tool", "bank__*"), ("why", "<b>odd</b>")]).await;
    assert_eq!(
        (opened.status, opened.header("location")),
        (303, Some("/incidents/1"))
    );
    let shown = page("/incidents/1").await;
    assert!(
        shown.contains("bank__*") && shown.contains("2 held"),
        "{shown}"
    );
    assert!(!shown.contains("<b>odd"), "{shown}");
    let kept = send("/incidents/1", &[("act", "close"), ("why", "x")]).await;
    assert!(
        kept.status == 409 && kept.text().contains("it stays open"),
        "{kept:?}"
    );
    let closed = send("/incidents/1", &[("act", "force"), ("why", "x")]).await;
    assert!(
        closed.status == 200 && closed.text().contains("It is closed"),
        "{closed:?}"
    );
    let stranger = get(gate.operators, "/incidents").await.unwrap();
    assert_ne!(stranger.status, 200);
}

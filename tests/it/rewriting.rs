//! What a contract's own steps make of a call (001-27, 001-28, 002-23 … 002-25): what the tool
//! server sees, what is judged again, what stands in the ledger, and what `check` and `explain` say
//! of it.

mod stripping;
mod told;
mod variants;

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::table::rows;
use crate::harness::tool_server::script::digest;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::{Value, json};

const TOKEN: &str = "token-of-the-bot-of-tenant-one";

const CALLERS: &str =
    "  - { agent: bot, token: token-of-the-bot-of-tenant-one, tenant: t_001, roles: [teller] }\n";

/// A contract of the tool `pay` with these steps.
fn policy(rewrite: &str) -> String {
    format!(
        "contracts:
  oracle__undo: {{ purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, rollback: {{ manual: by hand }} }} }}
  oracle__pay:
    purpose: a test
    actions: [write]
    secrets: []
    side_effect: {{ writes: test, rollback: {{ tool: oracle__undo }} }}
    idempotency: {{ derive: arguments }}
    permission: {{ tenant: /tenant_id }}
    arguments:
      properties:
        tenant_id: {{ type: string }}
        amount: {{ type: integer, minimum: 1 }}
        note: {{ type: string }}
        total: {{ type: integer, maximum: 100000 }}
      required: [tenant_id, amount]
    rules:
      - {{ code: too_much, when: \"arguments.amount > 1000\" }}
{rewrite}"
    )
}

async fn stage(rewrite: &str, mode: &'static str) -> (ToolServer, Gate, Agent) {
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .policy(&policy(rewrite))
        .mode(mode);
    let gate = setup.start().await;
    let agent = gate.agent().token(TOKEN);
    (server, gate, agent)
}

fn given() -> Value {
    json!({ "tenant_id": "t_001", "amount": 500, "note": "" })
}

const STEPS: &str = "    rewrite:
      - { name: cap, clamp: { /amount: { max: 100 } } }
      - { name: cents, compute: { /total: arguments.amount * 100 } }
      - { name: source, set: { /source: { by: toolgate } } }
      - { name: usual, default: { /currency: EUR, /note: none } }
      - { name: quiet, remove: [/note] }
      - { name: idle, clamp: { /amount: { min: 1 } } }
";

/// 001-27, 001-28, 001-A7, 001-P5: the tool server sees what the chain made, each step on what the
/// one before left; the ledger has both digests and the names; the agent's own arguments are not
/// overwritten.
#[tokio::test]
async fn the_tool_server_sees_what_the_chain_made() {
    let (server, gate, agent) = stage(STEPS, "enforce").await;
    let answer = agent.modern_call("oracle__pay", given()).await;
    assert!(answer.is_done(), "{answer:?}");
    let made = json!({
        "tenant_id": "t_001", "amount": 100, "total": 10_000, "source": { "by": "toolgate" }, "currency": "EUR",
    });
    assert_eq!(server.executions()[0].arguments, made);
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(entry["params_hash"], digest(&made));
    assert_eq!(entry["original_params_hash"], digest(&given()));
    assert_eq!(
        entry["rewritten_by"],
        json!(["cap", "cents", "source", "usual", "quiet"])
    );
}

/// guarantees §2: everything after step 6 works on the final arguments: two calls that are made the
/// same are the same.
#[tokio::test]
async fn the_final_arguments_are_the_call() {
    let (server, gate, agent) = stage(
        "    rewrite: [ { name: cap, clamp: { /amount: { max: 100 } } } ]\n",
        "enforce",
    )
    .await;
    for (amount, replayed) in [(500, false), (700, true), (100, true), (99, false)] {
        let answer = agent
            .modern_call(
                "oracle__pay",
                json!({ "tenant_id": "t_001", "amount": amount }),
            )
            .await;
        assert!(answer.is_done(), "{answer:?}");
        let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
        assert_eq!(
            decision["replayed"] == true,
            replayed,
            "{amount}: {decision}"
        );
    }
    assert_eq!(server.executions().len(), 2);
    let entries = gate.entries(4).await;
    let originals: Vec<bool> = entries
        .iter()
        .map(|entry| entry.get("original_params_hash").is_some())
        .collect();
    assert_eq!(
        originals,
        [true, true, false, false],
        "only what was rewritten has an original"
    );
}

/// What a step does, the code of the refusal, and where it is refused.
const STEPS_MADE: &str = r#"
set: { /tenant_id: t_002 }                     | tenant_mismatch | permission
compute: { /tenant_id: "'t_' + '002'" }        | tenant_mismatch | permission
remove: [/tenant_id]                           | schema_invalid  | arguments
compute: { /amount: arguments.amount * 1000 }  | too_much        | rules
compute: { /amount: "'a lot'" }                | schema_invalid  | arguments
compute: { /total: arguments.amount * 1000 }   | schema_invalid  | arguments
compute: { /amount: arguments.missing }        | hook_blocked    | rewrite
compute: { /Amount: "1" }                      | hook_blocked    | rewrite
"#;

/// policy §1 decision 11, 001-A6: what a step made goes through schema, permission and rules once
/// more, with their codes.
#[tokio::test]
async fn what_a_step_makes_is_judged_again() {
    for [step, code, at] in rows(STEPS_MADE) {
        let (server, gate, agent) = stage(
            &format!("    rewrite: [ {{ name: step, {step} }} ]\n"),
            "enforce",
        )
        .await;
        let answer = agent.modern_call("oracle__pay", given()).await;
        assert_eq!(answer.refusal(), code, "{step}: {answer:?}");
        assert!(
            answer.words().contains("The tool did not run."),
            "{answer:?}"
        );
        assert_eq!(server.executions().len(), 0, "{step}");
        let entry = gate.entries(1).await.remove(0);
        assert_eq!(
            (&entry["stage"], &entry["aborted_reason"]),
            (&json!(at), &json!(code)),
            "{entry}"
        );
        if at == "rewrite" {
            assert_eq!(
                (&entry["params_hash"], &entry["decided_by"]),
                (&json!(digest(&given())), &json!("hook step"))
            );
        } else {
            assert_eq!(entry["original_params_hash"], digest(&given()), "{entry}");
            assert_ne!(entry["params_hash"], entry["original_params_hash"]);
            assert_eq!(entry["rewritten_by"], json!(["step"]));
        }
    }
}

/// threat-model §13 F3: a step that takes more than a serving thread gives is taken elsewhere, as
/// `explain` does; a rule or a step that takes more than anybody gives refuses the call, and the
/// ledger names the stage that it was spent in.
#[tokio::test]
async fn heavy_steps_and_rules_are_taken_elsewhere() {
    // What each part of an expression can take is estimated by all that it reads.
    let line = format!(
        "[{}].size() + arguments.v.size()",
        vec!["1"; 1_900].join(",")
    );
    let step = |lines: usize| {
        let computed: Vec<String> = (0..lines)
            .map(|nth| format!("/total{nth}: \"{line}\""))
            .collect();
        format!(
            "    rewrite: [ {{ name: count, compute: {{ {} }} }} ]\n",
            computed.join(", ")
        )
    };
    let rule =
        |lines: usize| format!("      - {{ code: never, when: \"{line} < 0\" }}\n").repeat(lines);
    for (policy, refusal, at) in [
        (step(1), None, "dispatch"),
        (step(4), Some("schema_invalid"), "rewrite"),
        (rule(1), None, "dispatch"),
        (rule(4), Some("schema_invalid"), "rules"),
    ] {
        let (server, gate, agent) = stage(&policy, "enforce").await;
        let arguments = json!({ "tenant_id": "t_001", "amount": 1, "v": vec![1; 7_000] });
        let answer = agent.modern_call("oracle__pay", arguments).await;
        let entry = gate.entries(1).await.remove(0);
        assert_eq!(
            entry["aborted_reason"].as_str(),
            refusal,
            "{at}: {answer:?}"
        );
        assert_eq!(answer.is_done(), refusal.is_none(), "{answer:?}");
        assert_eq!(entry["stage"], at, "{entry}");
        assert_eq!(server.executions().len(), usize::from(refusal.is_none()));
        let metrics = gate.operators("/metrics").await;
        let was_heavy = metrics.lines().any(|line| {
            line.starts_with("toolgate_heavy_total")
                && !line.ends_with(" 0")
                && !line.contains("full")
        });
        assert!(was_heavy, "{at}: taken where it was served");
    }
}

/// 002-11, 001-27: a tool that calls the argument of a step otherwise is neither listed nor called;
/// observe mode refuses nothing.
#[tokio::test]
async fn a_tool_without_the_argument_of_a_step_is_withheld() {
    let schema =
        |name: &str| json!({ "type": "object", "properties": { name: { "type": "integer" } } });
    let policy = "contracts: { \"oracle__get_*\": { purpose: a test, actions: [read], secrets: [],
        rewrite: [ { name: cap, clamp: { /limit: { max: 10 } } } ] } }\n";
    for (mode, withheld) in [("enforce", true), ("observe", false)] {
        let server = Script::new()
            .tool_with("get_one", &schema("limit"), Behaviour::Answers)
            .tool_with("get_other", &schema("maxResults"), Behaviour::Answers)
            .start()
            .await;
        let gate = Setup::new()
            .server("oracle", &server)
            .policy(policy)
            .mode(mode)
            .start()
            .await;
        let agent = gate.agent();
        assert!(
            agent
                .modern_call("oracle__get_one", json!({ "limit": 500 }))
                .await
                .is_done()
        );
        let limit = if withheld { 10 } else { 500 };
        assert_eq!(server.executions()[0].arguments, json!({ "limit": limit }));
        let refusal = if withheld { "tool_not_allowlisted" } else { "" };
        assert_eq!(
            agent
                .modern_call("oracle__get_other", json!({ "maxResults": 500 }))
                .await
                .refusal(),
            refusal
        );
        assert_eq!(server.executions().len(), if withheld { 1 } else { 2 });
        if withheld {
            let entry = gate.entries(2).await.remove(1);
            assert!(
                entry["decided_by"]
                    .as_str()
                    .unwrap()
                    .contains("`rewrite.0.clamp./limit`"),
                "{entry}"
            );
        }
    }
}

/// The first judgement comes first: no step makes good what an agent may not send.
#[tokio::test]
async fn no_step_makes_good_what_may_not_be_sent() {
    let repair = "    rewrite: [ { name: repair, set: { /tenant_id: t_001, /amount: 1 } } ]\n";
    let (server, _gate, agent) = stage(repair, "enforce").await;
    for (arguments, code) in [
        (
            json!({ "tenant_id": "t_002", "amount": 1 }),
            "tenant_mismatch",
        ),
        (json!({ "tenant_id": "t_001", "amount": 2000 }), "too_much"),
        (json!({ "tenant_id": "t_001" }), "schema_invalid"),
    ] {
        assert_eq!(
            agent.modern_call("oracle__pay", arguments).await.refusal(),
            code
        );
    }
    assert_eq!(server.executions().len(), 0);
}

/// Observe mode changes nothing, and says what enforce mode would have refused.
#[tokio::test]
async fn observe_mode_changes_nothing() {
    let wrong = "    rewrite: [ { name: wrong, set: { /tenant_id: t_002 } } ]\n    strip_empty_optionals: true\n";
    let (server, gate, agent) = stage(wrong, "observe").await;
    assert!(agent.modern_call("oracle__pay", given()).await.is_done());
    assert_eq!(server.executions()[0].arguments, given());
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(entry["would_refuse"], "tenant_mismatch", "{entry}");
    assert_eq!(
        (entry.get("original_params_hash"), entry.get("rewritten_by")),
        (None, None)
    );
}

/// protocol §1.2: headers that mirror arguments are made from the final call; what is not changed
/// stays as it was written.
#[tokio::test]
async fn headers_are_those_of_the_final_call() {
    let mut regional = tool("regional");
    regional["inputSchema"] = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    let scripted = ScriptedServer::with(vec![regional]).await;
    let policy = "contracts: { puppet__regional: { purpose: a test, actions: [read], secrets: [],
        rewrite: [ { name: home, set: { /region: eu } } ] } }\n";
    let members = format!("url: \"{}\"", scripted.url());
    let gate = Setup::new()
        .server_with("puppet", &members)
        .policy(policy)
        .start()
        .await;
    let agent = gate.agent();
    let mut message =
        crate::harness::agent::modern("tools/call", json!({ "name": "puppet__regional" }));
    message["params"]["arguments"] = json!({ "region": "us", "scale": 0 });
    let text = message.to_string().replace("\"scale\":0", "\"scale\":1.50");
    let mut headers = agent.mirrored(&message);
    headers.push(("Mcp-Param-Region".to_owned(), "us".to_owned()));
    let answer = agent.send(&headers, text.as_bytes()).await;
    assert!(answer.refusal().is_empty(), "{answer:?}");
    let seen = &scripted.seen()[0];
    assert_eq!(seen.header("mcp-param-region"), Some("eu"));
    assert_eq!(
        seen.body["params"]["arguments"],
        json!({ "region": "eu", "scale": 1.5 })
    );
}

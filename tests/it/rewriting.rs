//! What a contract's own steps make of a call (001-27, 001-28, 002-23 … 002-25): what the tool
//! server sees, what is judged again, what stands in the ledger, and what `check` and `explain` say
//! of it.

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::script::digest;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

const TOKEN: &str = "token-of-the-bot-of-tenant-one";

const CALLERS: &str =
    "  - { agent: bot, token: token-of-the-bot-of-tenant-one, tenant: t_001, roles: [teller] }\n";

/// A contract of the tool `pay` with these steps.
fn policy(rewrite: &str) -> String {
    format!(
        "contracts:
  oracle__undo: {{ purpose: Takes it back., actions: [write], secrets: [], side_effect: {{ writes: test, rollback: {{ tool: oracle__pay }} }} }}
  oracle__pay:
    purpose: a test
    actions: [write]
    secrets: []
    side_effect: {{ writes: test, rollback: {{ tool: oracle__undo }} }}
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

/// policy §1 decision 11, 001-A6: what a step made goes through schema, permission and rules once
/// more, with their codes.
#[tokio::test]
async fn what_a_step_makes_is_judged_again() {
    for (step, code, at) in [
        (
            "set: { /tenant_id: t_002 }",
            "tenant_mismatch",
            "permission",
        ),
        (
            "compute: { /tenant_id: \"'t_' + '002'\" }",
            "tenant_mismatch",
            "permission",
        ),
        ("remove: [/tenant_id]", "schema_invalid", "arguments"),
        (
            "compute: { /amount: arguments.amount * 1000 }",
            "too_much",
            "rules",
        ),
        (
            "compute: { /amount: \"'a lot'\" }",
            "schema_invalid",
            "arguments",
        ),
        (
            "compute: { /total: arguments.amount * 1000 }",
            "schema_invalid",
            "arguments",
        ),
        (
            "compute: { /amount: arguments.missing }",
            "hook_blocked",
            "rewrite",
        ),
        ("compute: { /Amount: \"1\" }", "hook_blocked", "rewrite"),
    ] {
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

/// A tool with two uses, of which the second one is not everybody's and changes something.
const VARIED: &str = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: oracle__file } } }
  oracle__file:
    purpose: a test
    actions: [read, write]
    secrets: []
    arguments: { properties: { action: { type: string }, id: {}, reason: { type: string } } }
    variants:
      by: /action
      cases:
        list: { actions: [read] }
        delete:
          actions: [write]
          side_effect: { writes: test, rollback: { tool: oracle__undo } }
          permission: { roles: [janitor] }
          arguments: { required: [id], properties: { id: { type: string } } }
          rules: [ { code: no_reason, when: \"!has(arguments.reason)\" } ]
";

const PEOPLE: &str =
    "  - { agent: bot, token: token-of-the-bot-of-tenant-one, tenant: t_001, roles: [teller] }
  - { agent: janitor, token: token-of-the-janitor-bot-one, tenant: t_001, roles: [janitor] }
";

/// 002-32, policy §1 decision 11: whether a step or a hook makes another use of the call, the final
/// arguments choose the variant: its permission, its schema, its rules, and whether the call is a
/// side effect that runs once.
#[tokio::test]
async fn the_final_arguments_choose_the_variant() {
    let steps = |set: &str| format!("{VARIED}    rewrite: [ {{ name: it, set: {set} }} ]\n");
    let hooks = HookServer::start().await;
    let lines = hooks.hooks(&[("it", "before", "oracle__file")], "");
    for (token, made, code, variant) in [
        (
            TOKEN,
            json!({ "action": "delete", "reason": "old" }),
            "rbac_denied",
            Some("delete"),
        ),
        (
            "token-of-the-janitor-bot-one",
            json!({ "action": "delete" }),
            "no_reason",
            Some("delete"),
        ),
        (
            "token-of-the-janitor-bot-one",
            json!({ "action": "delete", "id": 1 }),
            "schema_invalid",
            Some("delete"),
        ),
        (
            "token-of-the-janitor-bot-one",
            json!({ "action": "Delete", "reason": "old" }),
            "schema_invalid",
            None,
        ),
        (
            "token-of-the-janitor-bot-one",
            json!({ "action": "delete", "reason": "old" }),
            "",
            Some("delete"),
        ),
    ] {
        let pointers: serde_json::Map<_, _> = made
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (format!("/{name}"), value.clone()))
            .collect();
        let by_step = (steps(&Value::Object(pointers).to_string()), "");
        for (policy, more) in [by_step, (VARIED.to_owned(), lines.as_str())] {
            let says = made.clone();
            hooks.says(move |_| HookReply::Json(json!({ "arguments": says })));
            let server = Script::new().tool("file", Behaviour::Answers).start().await;
            let gate = Setup::new()
                .server("oracle", &server)
                .callers(PEOPLE)
                .policy(&policy)
                .more(more)
                .start()
                .await;
            let agent = gate.agent().token(token);
            let given = json!({ "action": "list", "id": "a" });
            for replayed in [false, true] {
                let answer = agent.modern_call("oracle__file", given.clone()).await;
                assert_eq!(answer.refusal(), code, "{made} {more}: {answer:?}");
                let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
                assert_eq!(
                    decision["replayed"] == true,
                    replayed && code.is_empty(),
                    "a side effect runs once: {decision}"
                );
            }
            assert_eq!(
                server.executions().len(),
                usize::from(code.is_empty()),
                "{made}"
            );
            let entry = gate.entries(2).await.remove(0);
            assert_eq!(entry["variant"].as_str(), variant, "{entry}");
            assert_eq!(entry["rewritten_by"], json!(["it"]), "{entry}");
        }
    }
}

/// guarantees §3, 004-24: what a call is known by is its agent's to say. A hook that gives it
/// another key, or one at all, blocks it; one that answers with the arguments it was told does not.
#[tokio::test]
async fn no_hook_gives_a_call_another_key() {
    let own = json!({ "type": "object", "properties": { "n": {}, "idempotency_key": { "type": "string" } } });
    let named =
        json!({ "type": "object", "properties": { "n": {}, "request": { "type": "string" } } });
    let hooks = HookServer::start().await;
    for (schema, section, holder) in [
        (&own, "derive: arguments", "idempotency_key"),
        (&named, "upstream: { argument: request }", "request"),
        (&named, "expose: true", "idempotency_key"),
    ] {
        let server = Script::new()
            .tool_with("pay", schema, Behaviour::Answers)
            .start()
            .await;
        let policy = format!(
            "contracts:\n{}\n  oracle__pay: {}\n",
            undo("oracle__pay"),
            contract(
                "oracle__pay",
                "write",
                &format!(", idempotency: {{ {section} }}")
            )
        );
        let lines = hooks.hooks(&[("it", "before", "*")], "");
        let gate = Setup::new()
            .server("oracle", &server)
            .policy(&policy)
            .more(&lines)
            .start()
            .await;
        let agent = gate.agent();
        for given in [json!({ "n": 1 }), json!({ "n": 1, holder: "mine" })] {
            hooks.says(move |_| HookReply::Json(json!({ "arguments": { holder: "another" } })));
            let answer = agent.modern_call("oracle__pay", given.clone()).await;
            assert_eq!(
                answer.refusal(),
                "hook_blocked",
                "{section} {given}: {answer:?}"
            );
            assert!(
                answer.words().contains("have another idempotency key"),
                "{answer:?}"
            );
            let entry = gate.entries(1).await.remove(0);
            assert_eq!(
                (&entry["stage"], &entry["decided_by"]),
                (&json!("rewrite"), &json!("hook it")),
                "{entry}"
            );
        }
        assert_eq!(server.executions().len(), 0, "{section}");
        hooks.says(|told| {
            let mut arguments = told.body["arguments"].clone();
            arguments["n"] = json!(2);
            HookReply::Json(json!({ "arguments": arguments }))
        });
        for replayed in [false, true] {
            let answer = agent
                .modern_call("oracle__pay", json!({ "n": 1, holder: "mine" }))
                .await;
            let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
            assert_eq!(
                decision["replayed"] == true,
                replayed,
                "{section}: {answer:?}"
            );
        }
        assert_eq!(server.executions().len(), 1, "{section}");
    }
}

/// guarantees §3, 002-32: the key that an agent gave counts for what the call has become, too.
#[tokio::test]
async fn the_key_counts_for_the_variant_that_a_call_becomes() {
    let schema = json!({ "type": "object", "properties": { "action": {}, "id": {}, "idempotency_key": {} } });
    let server = Script::new()
        .tool_with("file", &schema, Behaviour::Answers)
        .start()
        .await;
    let policy = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: oracle__file } } }
  oracle__file:
    purpose: a test
    actions: [read, write]
    secrets: []
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    variants:
      by: /action
      cases: { list: { actions: [read] }, delete: { actions: [write], idempotency: { derive: [/id] } } }
    rewrite: [ { name: it, set: { /action: delete } } ]
";
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(policy)
        .start()
        .await;
    let agent = gate.agent();
    for (key, runs) in [("one", 1), ("one", 1), ("two", 2)] {
        let given = json!({ "action": "list", "id": "a", "idempotency_key": key });
        assert!(agent.modern_call("oracle__file", given).await.is_done());
        assert_eq!(server.executions().len(), runs, "{key}");
    }
}

/// 002-32: a call that its agent may not make is not made another one first.
#[tokio::test]
async fn no_step_makes_a_variant_good() {
    let server = Script::new().tool("file", Behaviour::Answers).start().await;
    let policy = format!("{VARIED}    rewrite: [ {{ name: it, set: {{ /action: list }} }} ]\n");
    let gate = Setup::new()
        .server("oracle", &server)
        .callers(PEOPLE)
        .policy(&policy)
        .start()
        .await;
    let given = json!({ "action": "delete", "id": "a", "reason": "old" });
    assert_eq!(
        gate.agent()
            .token(TOKEN)
            .modern_call("oracle__file", given.clone())
            .await
            .refusal(),
        "rbac_denied"
    );
    assert_eq!(server.executions().len(), 0);
    let janitor = gate.agent().token("token-of-the-janitor-bot-one");
    for _ in 0..2 {
        assert!(
            janitor
                .modern_call("oracle__file", given.clone())
                .await
                .is_done()
        );
    }
    assert_eq!(server.executions().len(), 2, "what it has become is a read");
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

/// 002-23, 002-24, 002-25, 002-35: an empty optional text does not arrive, an empty required one
/// does, and the ledger calls it a rewrite.
#[tokio::test]
async fn empty_optionals_are_stripped_where_the_contract_says_so() {
    let schema = json!({ "type": "object", "properties": { "to": { "type": "string" }, "cc": { "type": "string", "minLength": 1 } },
        "required": ["to"] });
    for (line, refused) in [
        ("strip_empty_optionals: true", false),
        ("strip_empty_optionals: false", true),
    ] {
        let server = Script::new()
            .tool_with("send", &schema, Behaviour::Answers)
            .start()
            .await;
        let policy = format!(
            "contracts: {{ oracle__send: {{ purpose: a test, actions: [read], secrets: [], {line} }} }}\n"
        );
        let gate = Setup::new()
            .server("oracle", &server)
            .policy(&policy)
            .start()
            .await;
        let written = json!({ "to": "", "cc": "", "idempotency_key": "" });
        let answer = gate
            .agent()
            .modern_call("oracle__send", written.clone())
            .await;
        let entry = gate.entries(1).await.remove(0);
        if refused {
            assert_eq!(answer.refusal(), "schema_invalid", "{answer:?}");
            continue;
        }
        assert!(answer.is_done(), "{answer:?}");
        assert_eq!(server.executions()[0].arguments, json!({ "to": "" }));
        assert_eq!(entry["rewritten_by"], json!(["strip_empty_optionals"]));
        assert_eq!(entry["original_params_hash"], digest(&written));
        assert_eq!(entry["params_hash"], digest(&json!({ "to": "" })));
    }
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

/// 001-28, 004-14: what a call was before it was rewritten is on the disk before it is sent.
#[tokio::test]
async fn a_kill_forgets_no_original() {
    let server = Script::new().tool("pay", Behaviour::Held).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .policy(&policy(STEPS));
    let mut gate = setup.start().await;
    let agent = gate.agent().token(TOKEN);
    let calling = tokio::spawn(async move { agent.modern_call("oracle__pay", given()).await });
    until("the call is at its tool server", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    gate.kill().await;
    calling.abort();
    let gate = gate.setup.clone().start().await;
    let agent = gate.agent().token(TOKEN);
    assert_eq!(
        agent.modern_call("oracle__pay", given()).await.refusal(),
        "outcome_unknown"
    );
    assert_eq!(server.executions().len(), 1);
    let data = gate.setup.directory().join("data");
    let listed = gate
        .setup
        .run(&["ledger", "list", "--json", "--data", data.to_str().unwrap()])
        .await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    let killed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(killed["original_params_hash"], digest(&given()), "{killed}");
    assert_eq!(
        killed["params_hash"],
        digest(&server.executions()[0].arguments)
    );
}

/// A rewritten call is judged again as its agent sent it, through the steps as they are now.
#[tokio::test]
async fn a_rewritten_call_can_be_replayed() {
    let (_server, gate, agent) = stage(STEPS, "enforce").await;
    assert!(agent.modern_call("oracle__pay", given()).await.is_done());
    let id = gate.entries(1).await[0]["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (given, made) = (
        given().to_string(),
        json!({ "tenant_id": "t_001", "amount": 100 }).to_string(),
    );
    let replay = async |arguments: &str| {
        let command = [
            "ledger",
            "replay",
            "--config",
            "toolgate.yaml",
            id.as_str(),
            "--arguments",
            arguments,
        ];
        let output = gate.setup.run(&command).await;
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, text, err) = replay(&given).await;
    assert!(
        code == Some(0)
            && text.contains("=> the same verdict")
            && text.contains("rewrite     changed"),
        "{text}{err}"
    );
    let (code, _, err) = replay(&made).await;
    assert!(
        code != Some(0) && err.contains("these are not the call's arguments"),
        "{err}"
    );
    let wrong = policy("    rewrite: [ { name: cap, set: { /tenant_id: t_002 } } ]\n");
    std::fs::write(gate.setup.directory().join("policy.yaml"), wrong).unwrap();
    let (code, text, err) = replay(&given).await;
    assert!(
        code == Some(1) && text.contains("tenant_mismatch"),
        "{text}{err}"
    );
}

/// `check` says what cannot be meant, `explain` what the steps would change and what becomes of it,
/// and executes nothing.
#[tokio::test]
async fn check_and_explain_tell_of_the_steps() {
    let explained = async |steps: &str| {
        let setup = Setup::new()
            .server_with("oracle", "url: \"http://127.0.0.1:9/mcp\"")
            .callers(CALLERS);
        let setup = setup.policy(&policy(steps));
        setup.write();
        let arguments = given().to_string();
        let output = setup
            .run(&[
                "explain",
                "--config",
                "toolgate.yaml",
                "--agent",
                "bot",
                "--tool",
                "oracle__pay",
                "--arguments",
                &arguments,
            ])
            .await;
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, text) = explained(STEPS).await;
    assert_eq!(code, Some(0), "{text}");
    for line in [
        "rewrite     changed",
        "/amount: 500 → 100",
        "/note: \"\" → absent",
        "/currency: absent → \"EUR\"",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    let (code, text) =
        explained("    rewrite: [ { name: wrong, set: { /tenant_id: t_002 } } ]\n").await;
    assert!(
        code == Some(1) && text.contains("=> refused: tenant_mismatch"),
        "{text}"
    );
    let (code, text) = explained("    strip_empty_optionals: true\n").await;
    assert!(
        code == Some(0) && text.contains("=> the call would be sent"),
        "{text}"
    );
    let setup = Setup::new()
        .server_with("oracle", "url: \"http://127.0.0.1:9/mcp\"")
        .callers(CALLERS);
    let wrong = "    rewrite: [ { name: a, set: { /amount: 0 } }, { name: a, clamp: { /x: {} } }, { name: b },
      { name: c, set: { /idempotency_key: k } } ]\n";
    let setup = setup.policy(&policy(wrong));
    setup.write();
    let output = setup.run(&["check", "toolgate.yaml"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "the contract's own schema refuses this value",
        "`a` is the name of two steps",
        "bounds nothing",
        "a step does one thing",
        "this argument holds the call's idempotency key",
        "5 errors",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

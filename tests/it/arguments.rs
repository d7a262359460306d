//! What arguments have to be: of their type and in their place, by data alone; and who may call,
//! for whom, on what.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::until;
use serde_json::{Value, json};

const CALLERS: &str = "
  - { agent: ann, token: token-of-agent-ann, tenant: t_001 }
  - { agent: bob, token: token-of-agent-bob, tenant: t_002 }
";

async fn stage(tools: Vec<Value>, policy: &str) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(tools).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: policy.to_owned(),
        observe: false,
    };
    (scripted, Gate::start(settings).await)
}

/// The same agent on both wires.
async fn wires(agent: Agent) -> [Agent; 2] {
    [agent.clone(), agent.initialized().await]
}

fn pointer(answer: &Value) -> &str {
    answer["result"]["_meta"]["dev.toolgate/decision"]["pointer"]
        .as_str()
        .unwrap_or_default()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

/// A tool with an argument of every type; those that may be left out have defaults.
fn typed() -> Value {
    json!({ "name": "typed", "inputSchema": { "type": "object", "required": ["to"], "additionalProperties": false, "properties": {
        "count": { "type": "integer", "default": 7 },
        "price": { "type": "number", "default": 0.5 },
        "urgent": { "type": "boolean", "default": true },
        "note": { "type": "string", "default": "none" },
        "tags": { "type": "array", "items": { "type": "string" }, "default": [] },
        "to": { "type": "object", "required": ["zip"], "properties": { "zip": { "type": "string" } } },
    } } })
}

/// The least that `typed` takes, with one more argument.
fn with(key: &str, value: Value) -> Value {
    let mut arguments = json!({ "to": { "zip": "0815" } });
    arguments[key] = value;
    arguments
}

/// 002-06, 002-15: a value of another type is never read as the right one. The refusal names the
/// place, the type that was expected and the one that came, and no value; nothing is sent.
#[tokio::test]
async fn a_value_of_another_type_is_refused_with_its_place() {
    const CANARY: &str = "canary-51c0";
    let policy = "contracts:\n  oracle__typed: { purpose: test, actions: [read], secrets: [] }\n";
    let (scripted, gate) = stage(vec![typed()], policy).await;
    let cases = [
        (
            with("count", json!("7")),
            "/count",
            "an integer",
            "a string",
        ),
        (
            with("count", json!(7.5)),
            "/count",
            "an integer",
            "a number",
        ),
        (
            with("count", json!(true)),
            "/count",
            "an integer",
            "true or false",
        ),
        (with("count", json!(null)), "/count", "an integer", "null"),
        (
            with("price", json!("0.5")),
            "/price",
            "a number",
            "a string",
        ),
        (
            with("urgent", json!("true")),
            "/urgent",
            "true or false",
            "a string",
        ),
        (
            with("urgent", json!(1)),
            "/urgent",
            "true or false",
            "a number",
        ),
        (with("note", json!(815)), "/note", "a string", "a number"),
        (
            with("note", json!([CANARY])),
            "/note",
            "a string",
            "an array",
        ),
        (with("tags", json!(CANARY)), "/tags", "an array", "a string"),
        (
            with("tags", json!(["a", 1])),
            "/tags/1",
            "a string",
            "a number",
        ),
        (
            with("tags", json!({ "0": CANARY })),
            "/tags",
            "an array",
            "an object",
        ),
        (
            with("to", json!(format!("{{\"zip\":\"{CANARY}\"}}"))),
            "/to",
            "an object",
            "a string",
        ),
        (
            with("to", json!({ "zip": 815 })),
            "/to/zip",
            "a string",
            "a number",
        ),
    ];
    for agent in wires(gate.agent().token("token-of-agent-ann")).await {
        for (arguments, place, expected, got) in &cases {
            let answer = agent.call("oracle__typed", arguments.clone()).await;
            assert_eq!(
                code(&answer).as_deref(),
                Some("schema_invalid"),
                "{arguments}: {answer}"
            );
            assert_eq!(
                (&answer["result"]["isError"], pointer(&answer)),
                (&json!(true), *place),
                "{answer}"
            );
            let words = format!(
                "schema_invalid at {place}: expected {expected}, got {got}. The tool did not run."
            );
            assert!(text(&answer).starts_with(&words), "{words}: {answer}");
            assert!(!answer.to_string().contains(CANARY), "{answer}");
        }
    }
    assert_eq!(scripted.executions(), 0);
    assert!(!gate.log().contains(CANARY), "{}", gate.log());
}

/// 002-06: of two members with one name none is chosen, and what an agent leaves out is not filled
/// in: the tool server reads what was sent, and its defaults stay its own.
#[tokio::test]
async fn nothing_is_chosen_or_filled_in() {
    let policy = "contracts:\n  oracle__typed: { purpose: test, actions: [read], secrets: [] }\n";
    let (scripted, gate) = stage(vec![typed()], policy).await;
    for agent in wires(gate.agent().token("token-of-agent-ann")).await {
        scripted.forget();
        let params = json!({ "name": "oracle__typed", "arguments": with("count", json!(1)) });
        let message = agent.request("tools/call", params);
        for (once, twice) in [
            ("\"count\":1", "\"count\":1,\"count\":2"),
            ("\"count\":1", "\"count\":2,\"c\\u006funt\":1"),
            ("\"zip\":\"0815\"", "\"zip\":\"0815\",\"zip\":\"0815\""),
        ] {
            let raw = message.to_string();
            assert!(raw.contains(once), "{raw}");
            let answer = agent
                .raw(&message, raw.replace(once, twice))
                .await
                .whole()
                .await;
            assert_eq!(answer["error"]["code"], -32700, "{twice}: {answer}");
            assert!(
                answer["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("duplicate key"),
                "{answer}"
            );
        }
        assert_eq!(scripted.executions(), 0);
        for arguments in [
            with("note", json!("")),
            json!({ "to": { "zip": "" } }),
            json!({ "to": { "zip": "0815", "more": null }, "price": 1, "tags": [] }),
        ] {
            assert_eq!(
                code(&agent.call("oracle__typed", arguments.clone()).await),
                None
            );
            let sent = scripted
                .seen()
                .into_iter()
                .rfind(|seen| seen.method() == "tools/call")
                .unwrap();
            assert_eq!(sent.body["params"]["arguments"], arguments);
        }
    }
}

/// 003-15, 003-48: a contract limits the calls to what is the caller's own, what is its tenant's,
/// and what it names.
#[tokio::test]
async fn who_may_call_for_whom_and_on_what() {
    let policy = r#"
contracts:
  oracle__mail: { purpose: test, actions: [read], secrets: [], permission: { resource: { pointer: /box, allow: ["{agent}/*"] } } }
  oracle__bill: { purpose: test, actions: [read], secrets: [], permission: { tenant: /tenant_id } }
  oracle__file: { purpose: test, actions: [read], secrets: [], permission: { resource: { pointer: /path, allow: ["shared/*", "{tenant}/*"] } } }
"#;
    let (scripted, gate) = stage(["mail", "bill", "file"].map(tool).to_vec(), policy).await;
    let [ann, bob] = ["ann", "bob"].map(|who| gate.agent().token(&format!("token-of-agent-{who}")));
    let (mail, bill, file) = ("oracle__mail", "oracle__bill", "oracle__file");
    let mut sent = 0;
    for (agent, name, arguments, refused) in [
        // The caller's own.
        (&ann, mail, json!({ "box": "ann/inbox" }), None),
        (&bob, mail, json!({ "box": "bob/inbox" }), None),
        (
            &ann,
            mail,
            json!({ "box": "bob/inbox" }),
            Some(("resource_denied", "/box")),
        ),
        (
            &bob,
            mail,
            json!({ "box": "ann/inbox" }),
            Some(("resource_denied", "/box")),
        ),
        (&ann, mail, json!({}), Some(("resource_denied", "/box"))),
        // Its tenant's.
        (&ann, bill, json!({ "tenant_id": "t_001" }), None),
        (&bob, bill, json!({ "tenant_id": "t_002" }), None),
        (
            &ann,
            bill,
            json!({ "tenant_id": "t_002" }),
            Some(("tenant_mismatch", "/tenant_id")),
        ),
        (
            &bob,
            bill,
            json!({}),
            Some(("tenant_mismatch", "/tenant_id")),
        ),
        // What it names.
        (&ann, file, json!({ "path": "shared/a" }), None),
        (&bob, file, json!({ "path": ["shared/a", "t_002/b"] }), None),
        (
            &ann,
            file,
            json!({ "path": "t_002/b" }),
            Some(("resource_denied", "/path")),
        ),
        (
            &ann,
            file,
            json!({ "path": "shared/../t_002/b" }),
            Some(("resource_denied", "/path")),
        ),
        (
            &bob,
            file,
            json!({ "path": ["shared/a", "t_001/b"] }),
            Some(("resource_denied", "/path")),
        ),
    ] {
        let answer = agent.call(name, arguments.clone()).await;
        let found = code(&answer);
        assert_eq!(
            found.as_deref().map(|code| (code, pointer(&answer))),
            refused,
            "{name} {arguments}: {answer}"
        );
        sent += usize::from(refused.is_none());
        assert_eq!(scripted.executions(), sent, "{name} {arguments}");
    }
}

/// 003-14, 003-49: what has to be there, formats, lengths and lists of values are the contract's,
/// though its server takes everything.
#[tokio::test]
async fn what_a_contract_asks_of_arguments() {
    let policy = r#"
contracts:
  oracle__open:
    purpose: test
    actions: [read]
    secrets: []
    arguments:
      required: [name]
      properties:
        name: { type: string, minLength: 2, maxLength: 5 }
        day: { type: string, format: date }
        mail: { type: string, format: email }
        code: { type: string, pattern: "^[A-Z]{3}$" }
        currency: { enum: [CNY, USD] }
        tags: { type: array, maxItems: 2, items: { enum: [a, b] } }
"#;
    let (scripted, gate) = stage(vec![tool("open")], policy).await;
    let named = |key: &str, value: Value| {
        let mut arguments = json!({ "name": "ann" });
        arguments[key] = value;
        arguments
    };
    let mut sent = 0;
    for (arguments, refused) in [
        (named("name", json!("ab")), None),
        (named("name", json!("abcde")), None),
        (
            json!({ "day": "2026-11-21" }),
            Some(("", "the property `name` to be present")),
        ),
        (
            named("name", json!("a")),
            Some(("/name", "at least 2 characters")),
        ),
        (
            named("name", json!("abcdef")),
            Some(("/name", "at most 5 characters")),
        ),
        (named("day", json!("2026-11-21")), None),
        (
            named("day", json!("2026-11-31")),
            Some(("/day", "text in the format `date`")),
        ),
        (
            named("day", json!("tomorrow")),
            Some(("/day", "text in the format `date`")),
        ),
        (named("mail", json!("ann@example.com")), None),
        (
            named("mail", json!("ann")),
            Some(("/mail", "text in the format `email`")),
        ),
        (named("code", json!("ABC")), None),
        (
            named("code", json!("ABCD")),
            Some(("/code", "text that matches the pattern `^[A-Z]{3}$`")),
        ),
        (named("currency", json!("USD")), None),
        (
            named("currency", json!("EUR")),
            Some(("/currency", "one of \"CNY\", \"USD\"")),
        ),
        (named("tags", json!(["a", "b"])), None),
        (
            named("tags", json!(["a", "b", "a"])),
            Some(("/tags", "at most 2 items")),
        ),
        (
            named("tags", json!(["a", "c"])),
            Some(("/tags/1", "one of \"a\", \"b\"")),
        ),
        // What the contract does not name may not come at all.
        (
            named("other", json!(1)),
            Some((
                "/other",
                "only what the tool's schema or its contract names",
            )),
        ),
    ] {
        let answer = gate
            .agent()
            .token("token-of-agent-ann")
            .call("oracle__open", arguments.clone())
            .await;
        let found = code(&answer);
        assert_eq!(
            found.as_deref(),
            refused.map(|_| "schema_invalid"),
            "{arguments}: {answer}"
        );
        if let Some((place, expected)) = refused {
            assert_eq!(pointer(&answer), place, "{arguments}");
            assert!(
                text(&answer).contains(&format!("expected {expected}. The tool did not run.")),
                "{answer}"
            );
        }
        sent += usize::from(refused.is_none());
        assert_eq!(scripted.executions(), sent, "{arguments}");
    }
}

/// 002-10, 002-12: a tool that nobody has heard of while toolgate was built, or started, is judged
/// whole as soon as its server lists it and a file has its contract: its server's schema, the
/// contract's, permission, and rules with their own code and words. No line of code is written for
/// it.
#[tokio::test]
async fn a_new_tool_needs_a_contract_and_no_code() {
    let (scripted, gate) = stage(vec![tool("old")], "contracts: {}\n").await;
    let agent = gate.agent().token("token-of-agent-ann");
    assert_eq!(agent.tools().await, [""; 0]);
    // Made up now, so that it stands in no source.
    let made_up = |what: &str| format!("{what}_{:x}", std::process::id());
    let (name, amount, owner, rule) = (
        made_up("tool"),
        made_up("amount"),
        made_up("owner"),
        made_up("rule"),
    );
    let properties =
        json!({ amount.clone(): { "type": "integer" }, owner.clone(): { "type": "string" } });
    let schema = json!({ "type": "object", "required": [amount], "properties": properties });
    scripted
        .changes_tools(vec![
            tool("old"),
            json!({ "name": name, "inputSchema": schema }),
        ])
        .await;
    let policy = format!(
        r#"
contracts:
  oracle__{name}:
    purpose: Whatever it does.
    actions: [read]
    permission: {{ tenant: /{owner} }}
    arguments: {{ properties: {{ {amount}: {{ maximum: 100 }} }} }}
    rules: [ {{ code: {rule}, when: "arguments.{amount} == 13", expected: any number but that one }} ]
    secrets: []
"#
    );
    let file = gate.path("policy.yaml");
    std::fs::write(gate.path("policy.yaml.new"), policy).unwrap();
    std::fs::rename(gate.path("policy.yaml.new"), file).unwrap();
    let name = format!("oracle__{name}");
    until("the tool is offered", || async {
        (agent.tools().await == [name.clone()]).then_some(())
    })
    .await;
    let call = |count: Value, tenant: &str| json!({ amount.clone(): count, owner.clone(): tenant });
    for (arguments, refused, words) in [
        (
            json!({ owner.clone(): "t_001" }),
            Some("schema_invalid"),
            format!("expected the property `{amount}`"),
        ),
        (
            call(json!("1"), "t_001"),
            Some("schema_invalid"),
            format!("at /{amount}: expected an integer, got a string"),
        ),
        (
            call(json!(101), "t_001"),
            Some("schema_invalid"),
            format!("at /{amount}: expected at most 100"),
        ),
        (
            call(json!(1), "t_002"),
            Some("tenant_mismatch"),
            format!("at /{owner}: expected the caller's own tenant"),
        ),
        (
            call(json!(13), "t_001"),
            Some(rule.as_str()),
            format!("{rule}: any number but that one. The tool did not run."),
        ),
    ] {
        let answer = agent.call(&name, arguments.clone()).await;
        assert_eq!(code(&answer).as_deref(), refused, "{arguments}: {answer}");
        assert!(text(&answer).contains(&words), "{words}: {answer}");
        assert_eq!(scripted.executions(), 0, "{arguments}");
    }
    assert_eq!(
        code(&agent.call(&name, call(json!(12), "t_001")).await),
        None
    );
    assert_eq!(scripted.executions(), 1);
}

//! What arguments have to be: of their type and in their place, by data alone; and who may call,
//! for whom, on what.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::table::rows;
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

/// The argument, a value of another type, its place, the type that was expected, the one that came.
const OTHER_TYPES: &str = r#"
count  | "7"                     | /count  | an integer    | a string
count  | 7.5                     | /count  | an integer    | a number
count  | true                    | /count  | an integer    | true or false
count  | null                    | /count  | an integer    | null
price  | "0.5"                   | /price  | a number      | a string
urgent | "true"                  | /urgent | true or false | a string
urgent | 1                       | /urgent | true or false | a number
note   | 815                     | /note   | a string      | a number
note   | ["canary-51c0"]         | /note   | a string      | an array
tags   | "canary-51c0"           | /tags   | an array      | a string
tags   | ["a", 1]                | /tags/1 | a string      | a number
tags   | {"0": "canary-51c0"}    | /tags   | an array      | an object
to     | "{\"zip\":\"canary-51c0\"}" | /to   | an object   | a string
to     | {"zip": 815}            | /to/zip | a string      | a number
"#;

/// 002-06, 002-15: a value of another type is never read as the right one. The refusal names the
/// place, the type that was expected and the one that came, and no value; nothing is sent.
#[tokio::test]
async fn a_value_of_another_type_is_refused_with_its_place() {
    const CANARY: &str = "canary-51c0";
    let policy = "contracts:\n  oracle__typed: { purpose: test, actions: [read], secrets: [] }\n";
    let (scripted, gate) = stage(vec![typed()], policy).await;
    for agent in wires(gate.agent().token("token-of-agent-ann")).await {
        for [key, value, place, expected, got] in rows(OTHER_TYPES) {
            let arguments = &with(key, serde_json::from_str(value).unwrap());
            let answer = agent.call("oracle__typed", arguments.clone()).await;
            assert_eq!(
                code(&answer).as_deref(),
                Some("schema_invalid"),
                "{arguments}: {answer}"
            );
            assert_eq!(
                (&answer["result"]["isError"], pointer(&answer)),
                (&json!(true), place),
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

const ASKS: &str = r#"
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

/// Arguments, and where which of them is refused, if they are: the place, and what was expected.
const ASKED: &str = r#"
{"name":"ab"}                             |           |
{"name":"abcde"}                          |           |
{"day":"2026-11-21"}                      |           | the property `name` to be present
{"name":"a"}                              | /name     | at least 2 characters
{"name":"abcdef"}                         | /name     | at most 5 characters
{"name":"ann","day":"2026-11-21"}         |           |
{"name":"ann","day":"2026-11-31"}         | /day      | text in the format `date`
{"name":"ann","day":"tomorrow"}           | /day      | text in the format `date`
{"name":"ann","mail":"ann@example.com"}   |           |
{"name":"ann","mail":"ann"}               | /mail     | text in the format `email`
{"name":"ann","code":"ABC"}               |           |
{"name":"ann","code":"ABCD"}              | /code     | text that matches the pattern `^[A-Z]{3}$`
{"name":"ann","currency":"USD"}           |           |
{"name":"ann","currency":"EUR"}           | /currency | one of "CNY", "USD"
{"name":"ann","tags":["a","b"]}           |           |
{"name":"ann","tags":["a","b","a"]}       | /tags     | at most 2 items
{"name":"ann","tags":["a","c"]}           | /tags/1   | one of "a", "b"
{"name":"ann","other":1}                  | /other    | only what the tool's schema or its contract names
"#;

/// 003-14, 003-49: what has to be there, formats, lengths and lists of values are the contract's,
/// though its server takes everything.
#[tokio::test]
async fn what_a_contract_asks_of_arguments() {
    let (scripted, gate) = stage(vec![tool("open")], ASKS).await;
    let agent = gate.agent().token("token-of-agent-ann");
    let mut sent = 0;
    for [arguments, place, expected] in rows(ASKED) {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let answer = agent.call("oracle__open", arguments.clone()).await;
        let refused = code(&answer);
        if expected.is_empty() {
            assert_eq!(refused, None, "{arguments}: {answer}");
            sent += 1;
        } else {
            assert_eq!(refused.as_deref(), Some("schema_invalid"), "{arguments}");
            assert_eq!(pointer(&answer), place, "{arguments}");
            let words = format!("expected {expected}. The tool did not run.");
            assert!(text(&answer).contains(&words), "{answer}");
        }
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
    let made = json!({ "name": name, "inputSchema": schema });
    scripted.changes_tools(vec![tool("old"), made]).await;
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
    let new = gate.path("policy.yaml.new");
    std::fs::write(&new, policy).unwrap();
    std::fs::rename(new, gate.path("policy.yaml")).unwrap();
    let name = format!("oracle__{name}");
    until("the tool is offered", || async {
        (agent.tools().await == [name.clone()]).then_some(())
    })
    .await;
    let call = |count: Value, tenant: &str| json!({ amount.clone(): count, owner.clone(): tenant });
    let invalid = "schema_invalid";
    let property = format!("expected the property `{amount}`");
    let integer = format!("at /{amount}: expected an integer, got a string");
    let most = format!("at /{amount}: expected at most 100");
    let tenant = format!("at /{owner}: expected the caller's own tenant");
    let number = format!("{rule}: any number but that one. The tool did not run.");
    for (arguments, refused, words) in [
        (json!({ owner.clone(): "t_001" }), invalid, property),
        (call(json!("1"), "t_001"), invalid, integer),
        (call(json!(101), "t_001"), invalid, most),
        (call(json!(1), "t_002"), "tenant_mismatch", tenant),
        (call(json!(13), "t_001"), rule.as_str(), number),
    ] {
        let answer = agent.call(&name, arguments.clone()).await;
        assert_eq!(code(&answer).as_deref(), Some(refused), "{arguments}");
        assert!(text(&answer).contains(&words), "{words}: {answer}");
        assert_eq!(scripted.executions(), 0, "{arguments}");
    }
    assert_eq!(
        code(&agent.call(&name, call(json!(12), "t_001")).await),
        None
    );
    assert_eq!(scripted.executions(), 1);
}

//! The lane: every message through a side door, by every kind of layer, allowed, denied and not
//! named, on both wires, enforced and observed. What arrives at the server decides, and what the
//! agent reads.

use super::*;
use std::fmt::Write as _;

/// The kinds of layers that one agent of many can have; the caller's lines, and the layer's place
/// in the file.
const KINDS: &[(&str, &str, &str)] = &[
    (
        "profile",
        "profile: pNAME",
        "profile: { pNAME: { SECTIONS } }",
    ),
    (
        "modelprofile",
        "profile: pNAME, model: pNAME/one",
        "profile: { pNAME: { by_model_provider: { pNAME: { SECTIONS } } } }",
    ),
    ("group", "group: gNAME", "group: { gNAME: { SECTIONS } }"),
    ("agent", "", "agent: { NAME: { SECTIONS } }"),
    (
        "modelagent",
        "model: mNAME/one",
        "agent: { NAME: { by_model_provider: { mNAME/one: { SECTIONS } } } }",
    ),
    (
        "environment",
        "environment: eNAME",
        "environment: { eNAME: { SECTIONS } }",
    ),
    (
        "parent",
        "parent: upNAME",
        "agent: { upNAME: { SECTIONS } }",
    ),
];
/// What the layer says, and whether that lets something pass.
const SAYS: &[(&str, &str, bool)] = &[
    ("allows", "allow: [PATTERN]", true),
    ("denies", "allow: [PATTERN], deny: [PATTERN]", false),
    ("names-others", "allow: [OTHER]", false),
];
/// Sections with what is asked for below and with something else.
const DOORS: &[(&str, &str, &str)] = &[
    (
        "resources",
        "\"docs__file:///srv/*\"",
        "\"docs__file:///opt/*\"",
    ),
    ("prompts", "docs__greet", "docs__other"),
    (
        "completions",
        "docs__greet, \"docs__file:///srv/*\"",
        "docs__other",
    ),
    ("sampling", "docs", "other"),
    ("elicitation", "docs", "other"),
    ("roots", "docs", "other"),
    ("logging", "docs", "other"),
];

fn sections(says: &str) -> String {
    let each = DOORS.iter().map(|(door, pattern, other)| {
        format!(
            "{door}: {{ {} }}",
            says.replace("PATTERN", pattern).replace("OTHER", other)
        )
    });
    each.collect::<Vec<_>>().join(", ")
}

struct LayerCase {
    agent: String,
    passes: bool,
}

/// The callers, and the policy in one file a kind: files hold together.
fn cases(setup: &Setup) -> (Vec<LayerCase>, String) {
    let open = sections("allow: [PATTERN]");
    let (mut cases, mut callers) = (Vec::new(), String::new());
    for (kind, line, layer) in KINDS {
        for (says, section, passes) in SAYS {
            let name = format!("{kind}-{says}");
            let comma = if line.is_empty() { "" } else { ", " };
            writeln!(
                callers,
                "  - {{ agent: {name}, token: token-of-the-agent-{name}{comma}{} }}",
                line.replace("NAME", &name)
            )
            .unwrap();
            let mut layers = vec![
                layer
                    .replace("NAME", &name)
                    .replace("SECTIONS", &sections(section)),
            ];
            if *kind == "parent" {
                writeln!(
                    callers,
                    "  - {{ agent: up{name}, token: token-of-the-agent-up{name} }}"
                )
                .unwrap();
                layers.push(format!(
                    "delegation: {{ }}, agent: {{ {name}: {{ {open} }} }}"
                ));
            } else if *kind != "agent" && !passes {
                // Another layer allows it: that is not enough.
                layers.push(format!("agent: {{ {name}: {{ {open} }} }}"));
            }
            for (index, layers) in layers.iter().enumerate() {
                let file = setup
                    .directory()
                    .join("sides")
                    .join(format!("{name}-{index}.yaml"));
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, format!("layers: {{ {layers} }}\n")).unwrap();
            }
            cases.push(LayerCase {
                agent: name,
                passes: *passes,
            });
        }
    }
    writeln!(
        callers,
        "  - {{ agent: nobody, token: token-of-the-agent-nobody }}"
    )
    .unwrap();
    cases.push(LayerCase {
        agent: "nobody".to_owned(),
        passes: false,
    });
    (cases, callers)
}

async fn lane(mode: &'static str) -> usize {
    let scripted = docs().await;
    let setup = Setup::new();
    let (cases, callers) = cases(&setup);
    let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\n";
    let url = format!("url: \"{}\"", scripted.url());
    let setup = setup
        .server_with("docs", &url)
        .server_with("other", "url: \"http://127.0.0.1:9/mcp\"");
    let setup = setup
        .policy(policy)
        .more_policies(&["sides"])
        .callers(&callers)
        .mode(mode);
    let gate = setup.begin().await;
    until("the server is up", || async {
        (gate
            .agent()
            .token("token-of-the-agent-nobody")
            .at("/mcp/docs")
            .tools()
            .await
            .len()
            == 1)
            .then_some(())
    })
    .await;
    let mut count = 0;
    for LayerCase {
        agent: name,
        passes,
    } in &cases
    {
        let modern = gate
            .agent()
            .token(&format!("token-of-the-agent-{name}"))
            .at("/mcp/docs");
        for agent in [modern.clone(), modern.initialized().await] {
            let passes = *passes || mode == "observe";
            count += asks(&scripted, &agent, (name, passes)).await
                + is_asked(&scripted, &agent, (name, passes)).await;
        }
    }
    count
}

/// What agents ask.
async fn asks(scripted: &ScriptedServer, agent: &Agent, (name, passes): (&str, bool)) -> usize {
    scripted.answers(answer);
    let mut count = 0;
    for (method, params, legacy) in requests("file:///srv/docs/a.md", "greet") {
        if legacy && !agent.is_legacy() {
            continue;
        }
        scripted.forget();
        let answer = agent.ask(method, params).await;
        let arrived = scripted
            .seen()
            .iter()
            .filter(|seen| seen.method() == method)
            .count();
        let is_list = method.ends_with("/list");
        // Of a list with something else in it, the server is asked, and none of it is handed on.
        let shown =
            answer.to_string().contains("srv/docs/") || answer.to_string().contains("greet");
        if is_list {
            assert_eq!(shown, passes, "{name} {method}: {answer}");
        } else {
            assert_eq!(arrived, usize::from(passes), "{name} {method}: {answer}");
        }
        count += 1;
    }
    count
}

/// What servers ask of agents.
async fn is_asked(scripted: &ScriptedServer, agent: &Agent, (name, passes): (&str, bool)) -> usize {
    let mut count = 0;
    for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
        let legacy = agent.is_legacy();
        scripted.answers(move |seen| {
            let question = json!({ "method": method, "params": { "message": "?" } });
            if !legacy {
                return Reply::Result(json!({ "resultType": "input_required", "inputRequests": { "q": question } }));
            }
            let (sender, receiver) = mpsc::channel(2);
            let asked = json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": question["params"] });
            sender.try_send(event(&asked)).unwrap();
            let done = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": { "content": [] } });
            sender.try_send(event(&done)).unwrap();
            Reply::Stream(receiver)
        });
        let mut stream = agent
            .post(&agent.request("tools/call", json!({ "name": "read", "arguments": {} })))
            .await;
        let asked = if legacy && passes {
            stream.message().await
        } else {
            stream.whole().await
        };
        assert_eq!(
            asked.to_string().contains(method),
            passes,
            "{name} {method}: {asked}"
        );
        count += 1;
    }
    count
}

/// 22 callers × (7 or 10 requests + 3 questions) × 2 modes.
#[tokio::test]
async fn lane_of_methods_layers_verdicts_wires_and_modes() {
    let count = lane("enforce").await + lane("observe").await;
    assert_eq!(count, 22 * (7 + 3 + 10 + 3) * 2);
}

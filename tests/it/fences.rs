//! The fencing token of a call with side effects (guarantees §5): each outcome says under which it
//! ran.

use crate::harness::answer::code;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

/// 004-25: the entry of an outcome has the token that the call ran under; a later call has a higher
/// one, and one that was refused has none.
#[tokio::test]
async fn an_outcome_has_the_token_that_it_ran_under() {
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let gate = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__pay", "write")])
        .start()
        .await;
    let agent = gate.agent();
    for key in ["one", "two"] {
        agent
            .modern_call("oracle__pay", json!({ "key": key }))
            .await;
    }
    agent.modern_call("oracle__none", json!({})).await;
    let fences: Vec<Option<u64>> = gate
        .entries(3)
        .await
        .iter()
        .map(|entry| entry["fence"].as_u64())
        .collect();
    let [Some(first), Some(second), None] = fences[..] else {
        panic!("{fences:?}");
    };
    assert!(first < second, "{fences:?}");
}

/// Refuses what comes with a lower token than one that it has seen in the session: once by `_meta`, and
/// once by the header, which have to say the same.
fn guards(highest: &Mutex<HashMap<String, u64>>, seen: &Seen) -> Reply {
    let fence = &seen.body["params"]["_meta"]["dev.toolgate/fence"];
    let (session, token) = (fence["session"].as_str().unwrap(), fence["token"].as_u64());
    let item = format!("{};session=\"{session}\"", token.unwrap());
    assert_eq!(seen.header("x-fence"), Some(&*item));
    let mut highest = highest.lock().unwrap();
    let highest = highest.entry(session.to_owned()).or_default();
    let is_stale = token < Some(*highest);
    *highest = token.unwrap().max(*highest);
    let text = if is_stale { "stale" } else { "done" };
    Reply::Result(json!({
        "content": [{ "type": "text", "text": text }], "isError": is_stale, "resultType": "complete",
    }))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let to = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &to);
        } else {
            std::fs::copy(&entry, &to).unwrap();
        }
    }
}

/// 004-42, 004-34: the token goes to the tool server in `_meta` and in the header that is configured for
/// it, and the agent reads it; a server that looks at it refuses a toolgate which was put back to an
/// older copy of its data. An agent's own header of that name stays here.
#[tokio::test]
async fn a_server_refuses_a_stale_token() {
    let server = ScriptedServer::with(["pay", "read"].map(tool).to_vec()).await;
    let highest = Mutex::default();
    server.answers(move |seen| {
        if seen.body["params"]["name"] == "read" {
            assert_eq!(seen.header("x-fence"), None);
            return Reply::Result(json!({ "content": [], "resultType": "complete" }));
        }
        guards(&highest, seen)
    });
    let setup = Setup::new()
        .server_with(
            "oracle",
            &format!("url: \"{}\", fence_header: X-Fence", server.url()),
        )
        .contracts(&[("oracle__pay", "write"), ("oracle__read", "read")]);
    let pay = async |agent: &crate::harness::agent::Agent, n: u64| {
        let answer = agent.call("oracle__pay", json!({ "n": n })).await;
        assert_eq!(code(&answer), None, "{answer}");
        let text = answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned();
        let decision = answer["result"]["_meta"]["dev.toolgate/decision"].clone();
        (text, decision)
    };
    let token = |decision: &Value| decision["fence"].as_u64().unwrap();
    let gate = setup.start().await;
    let (text, first) = pay(&gate.agent(), 1).await;
    assert_eq!(text, "done");
    assert!(first["latency_ms"].as_f64().unwrap() > 0.0, "{first}");
    assert_eq!(first["key_hash"].as_str().unwrap().len(), 16, "{first}");
    let forging = gate.agent().header("X-Fence", "999;session=\"s\"");
    assert_eq!(code(&forging.call("oracle__read", json!({})).await), None);
    let setup = gate.stop().await;
    let (data, older) = (
        setup.directory().join("data"),
        setup.directory().join("older"),
    );
    copy(&data, &older);
    let gate = setup.start().await;
    let mut newest = token(&first);
    for n in 2..10 {
        let (text, decision) = pay(&gate.agent(), n).await;
        assert!(text == "done" && token(&decision) > newest, "{decision}");
        newest = token(&decision);
    }
    let setup = gate.stop().await;
    std::fs::remove_dir_all(&data).unwrap();
    copy(&older, &data);
    let gate = setup.start().await;
    let (text, decision) = pay(&gate.agent(), 11).await;
    assert!(token(&decision) < newest, "{decision}");
    assert_eq!(text, "stale");
}

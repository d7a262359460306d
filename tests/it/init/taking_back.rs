//! `init --undo` after the operator has gone on working.

use super::{files, placed};
use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Issue 17 D14: where the configuration was changed since, what it needs stays with it, and the agent
/// is back at its servers all the same.
#[tokio::test]
async fn what_a_changed_configuration_needs_stays_with_it() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let servers = json!({ "mcpServers": { "one": { "url": scripted.url() } } }).to_string();
    let place = setup.directory().join(".mcp.json");
    fs::write(&place, &servers).unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    // As examples/adopt tells it.
    let replace = |path: &Path, from: &str, to: &str| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    replace(
        &place,
        "/mcp\"",
        "/mcp\", \"headers\": { \"Authorization\": \"Bearer ${AGENT_TOKEN}\" }",
    );
    let configuration = setup.directory().join("toolgate.yaml");
    replace(&configuration, "mode: observe", "mode: enforce");
    let (exit, said, _) = run(&setup, &["adopt", "--undo"]).await;
    assert_eq!(exit, 1, "{said}");
    for line in [
        "         `toolgate` was changed since, and is gone with what was added\n",
        "kept     toolgate.yaml: it was changed since\n",
        "kept     toolgate.pins.yaml: toolgate.yaml needs it\n",
        "4 files are kept: go on with what is there, or `toolgate init --undo --force` takes them back",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let now: Value = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    assert_eq!(now, serde_json::from_str::<Value>(&servers).unwrap());
    assert_eq!(
        run(&setup, &["check"]).await.0,
        0,
        "it needs nothing that is gone"
    );
    let (exit, said, _) = run(&setup, &["adopt", "--undo", "--force"]).await;
    assert!(
        exit == 0 && said.contains("everything that init did is undone"),
        "{said}"
    );
    assert_eq!(files(setup.directory()).len(), 1, "{said}");
}

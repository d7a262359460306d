//! Incidents as a careless operator, one who is elsewhere, and a kill at a bad time find them: nothing is closed by
//! a proof of something else, and nothing is frozen or given back without a record (003-20, 003-43).

use crate::harness::gate::{Gate, run, runs};
use crate::harness::setup::{Setup, beside};
use crate::harness::until;
use crate::incidents::{
    ANN, CALLERS, CLERK, all_is_void, bank, first, frozen_after_an_alert, mend, order, policy,
    sample, says, shop,
};
use crate::kills::{INCIDENT_NOTED, PROGRAM, build};
use serde_json::{Value, json};
use std::path::PathBuf;
use toolgate::model::digest::sha256;

const CLOSE: [&str; 4] = ["close", "1", "--why", "mended"];

/// A directory with the configuration of the policies alone, as a checkout has it, and no data: an operator's, who
/// is elsewhere.
fn checkout(most: u32) -> Setup {
    let setup = Setup::new()
        .server_with("oracle", "url: \"http://127.0.0.1:9/mcp\"")
        .callers(CALLERS)
        .policy(&policy(most))
        .environment("OPERATOR_TOKEN", ANN);
    setup.write();
    setup
}

/// Runs `toolgate incident …` there, at the door of `gate`.
async fn says_from(there: &Setup, gate: &Gate, words: &[&str]) -> (i32, String) {
    let door = gate.operators.to_string();
    let more = ["--config", "toolgate.yaml", "--admin", &door];
    let all = [&["incident"], words, &more].concat();
    let (code, out, err) = run(there, &all).await;
    (code, out + &err)
}

/// The steps of incidents that the ledger has.
async fn steps(setup: &Setup) -> Vec<String> {
    let (code, out, err) = runs(setup, "ledger events --json --data data").await;
    assert_eq!(code, 0, "{err}");
    let lines = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let notes = lines.filter(|line| line["event"] == "incident");
    notes
        .map(|note| note["step"].as_str().unwrap().to_owned())
        .collect()
}

/// An operator on another machine does all of it through the door: what the bundle has is the toolgate's, and as
/// little in the open as at home; the sample is written to the packs that are here.
#[tokio::test]
async fn an_operator_elsewhere_does_all_of_it() {
    let (server, gate) = shop().await;
    let agent = gate.agent().token(CLERK);
    let ids = frozen_after_an_alert(&server, &gate, &agent).await;
    let open = gate.metric("toolgate_incidents_open").await;
    assert!((open - 1.0).abs() < 0.1, "{open}");
    let there = checkout(50);
    let (code, listed) = says_from(&there, &gate, &["list"]).await;
    assert!(code == 0 && listed.contains("oracle__*"), "{listed}");

    let collect = ["collect", "1", "--out", "bundle.jsonl"];
    let (code, told) = says_from(&there, &gate, &collect).await;
    assert_eq!(code, 0, "{told}");
    let bundle = std::fs::read_to_string(there.directory().join("bundle.jsonl")).unwrap();
    let lines: Vec<Value> = bundle
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let texts = lines.iter().filter(|line| line["kind"] == "policy");
    let texts: Vec<&str> = texts.filter_map(|line| line["text"].as_str()).collect();
    assert!(texts.iter().any(|text| *text == policy(100)), "{texts:?}");
    for id in &ids {
        let is_it = |line: &&Value| line["kind"] == "entry" && line["action_id"] == id.as_str();
        assert!(lines.iter().any(|line| is_it(&line)), "{id}");
    }
    let end = lines.last().unwrap();
    assert!(end["journal"]["problem"].is_null() && end["journal"]["head"].is_string());
    assert!(end["rows"].as_u64().unwrap() > 2, "{end}");
    let is_secret = |text: &str| bundle.contains(text);
    assert!(!["sku-1", ANN, CLERK].into_iter().any(is_secret));
    let (code, told) = says_from(&there, &gate, &["collect", "7"]).await;
    assert!(code == 1 && told.contains("no incident 7"), "{told}");
    assert!(!there.directory().join("incident-7.jsonl").exists());

    let arguments = order(99).to_string();
    let words = [
        "sample",
        &ids[0],
        "--arguments",
        &arguments,
        "--expect",
        "too_much",
    ];
    let (code, told) = says_from(&there, &gate, &words).await;
    assert!(code == 0 && told.contains("now: AS EXPECTED"), "{told}");
    let (code, told) = says_from(&there, &gate, &CLOSE).await;
    assert!(code == 1 && told.contains("it stays open"), "{told}");
    std::fs::create_dir_all(gate.path("tests")).unwrap();
    let pack = there.directory().join("tests/incidents.yaml");
    std::fs::copy(pack, gate.path("tests/incidents.yaml")).unwrap();
    mend(&gate).await;
    let (code, told) = says_from(&there, &gate, &CLOSE).await;
    assert_eq!(code, 0, "{told}");
    let open = gate.metric("toolgate_incidents_open").await;
    assert!(open.abs() < 0.1, "{open}");
}

/// The bundle names the files by which it is judged, so that who has a copy can compare: policies and pins whole,
/// of the configuration, where secrets may stand, the hash alone; and which policy was in force.
#[tokio::test]
async fn a_bundle_says_by_which_files_it_was() {
    let (server, _gate) = shop().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .policy(&policy(100))
        .more("pins: { file: pins.yaml, require: false }\n");
    let pins = "complete: [oracle]\npins: {}\n";
    std::fs::write(setup.directory().join("pins.yaml"), pins).unwrap();
    let setup = setup.start().await.stop().await;
    let open = ["open", "--tool", "oracle__*", "--why", "odd"];
    let (code, told) = says(Err(&setup), &open).await;
    assert_eq!(code, 0, "{told}");
    let collect = ["collect", "1", "--out", "bundle.jsonl"];
    let (code, told) = says(Err(&setup), &collect).await;
    assert_eq!(code, 0, "{told}");
    let read = |name: &str| std::fs::read_to_string(setup.directory().join(name)).unwrap();
    let bundle = read("bundle.jsonl");
    assert!(!bundle.contains(CLERK), "a token of the configuration");
    let lines = bundle.lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (kind, name, is_whole) in [
        ("configuration", "toolgate.yaml", false),
        ("policy", "policy.yaml", true),
        ("pins", "pins.yaml", true),
    ] {
        let of_kind = lines.iter().filter(|line| line["kind"] == kind);
        let is_it = |line: &&Value| line["file"].as_str().unwrap().ends_with(name);
        let found: Vec<&Value> = of_kind.filter(is_it).collect();
        assert_eq!(found.len(), 1, "{kind}: {lines:?}");
        let text = read(name);
        assert_eq!(found[0]["sha256"], sha256(text.as_bytes()), "{kind}");
        let whole = is_whole.then_some(text);
        assert_eq!(found[0]["text"].as_str(), whole.as_deref(), "{kind}");
    }
    let version = lines.iter().find(|line| line["policy"].is_object());
    let version = &version.unwrap()["policy"];
    assert!(version["written"].is_string() && version["in_force"].is_string());
    assert_ne!(version["written"], version["in_force"], "tools are frozen");
}

/// The pack of incidents of a running toolgate.
fn pack(gate: &Gate) -> PathBuf {
    gate.path("tests/incidents.yaml")
}

/// A pack whose sample came to expect what went wrong passes, and shows nothing.
#[tokio::test]
async fn a_sample_that_was_turned_closes_nothing() {
    let (server, gate) = shop().await;
    let agent = gate.agent().token(CLERK);
    let ids = frozen_after_an_alert(&server, &gate, &agent).await;
    sample(&gate, &ids[0], "UNEXPECTED PASS got=allow expect=too_much").await;
    let written = std::fs::read_to_string(pack(&gate)).unwrap();
    std::fs::write(pack(&gate), written.replace("too_much", "allow")).unwrap();
    let (code, told) = says(Ok(&gate), &CLOSE).await;
    let words = format!("has a sample of {} that is to be too_much", ids[0]);
    assert!(code == 1 && told.contains(&words), "{told}");
    assert_eq!(first(Ok(&gate)).await["state"], "open");
}

/// Files that pass are no reason to give tools back while another policy is in force: here while a rollback is half
/// done. Once it is not, the same files come in force by themselves, and the incident can be closed.
#[tokio::test]
async fn files_that_are_not_in_force_close_nothing() {
    let (server, gate) = shop().await;
    let agent = gate.agent().token(CLERK);
    let ids = frozen_after_an_alert(&server, &gate, &agent).await;
    sample(&gate, &ids[0], "UNEXPECTED PASS got=allow expect=too_much").await;
    let (to, copy) = ("ab".repeat(32), "cd".repeat(32));
    let note = json!({
        "to": to, "copy": copy, "at": "2026-11-28T00:00:00Z", "by": "ann", "why": null, "forced": false,
    });
    let begun = gate.path("data/policies/rolling-back.json");
    std::fs::write(&begun, note.to_string()).unwrap();
    std::fs::write(gate.path("policy.yaml"), policy(50)).unwrap();
    until("the reload is refused", || async {
        let said = gate.readiness().await.to_string();
        said.contains("has begun and not ended").then_some(())
    })
    .await;
    let (code, told) = says(Ok(&gate), &CLOSE).await;
    assert!(code == 1 && told.contains("not what is in force"), "{told}");
    std::fs::remove_file(begun).unwrap();
    until("the files are in force", || async {
        let readiness = gate.readiness().await;
        (readiness["policy"]["stale"] == false).then_some(())
    })
    .await;
    let (code, told) = says(Ok(&gate), &CLOSE).await;
    assert_eq!(code, 0, "{told}");
}

/// A toolgate that is killed the `nth` time that something of an incident is on record and not in its file yet.
async fn killed_when_noted(setup: &Setup, nth: u32) -> Gate {
    let point = format!("{INCIDENT_NOTED}:{nth}");
    let armed = setup.clone().program(beside(PROGRAM));
    armed
        .environment("TOOLGATE_FAILPOINT", &point)
        .begin()
        .await
}

/// threat-model §12: killed when what it took back is on record, the next start freezes, and takes back what is
/// left.
#[tokio::test]
async fn a_kill_when_the_freeze_is_noted_leaves_all_frozen() {
    build();
    let (setup, ids) = bank().await;
    let mut gate = killed_when_noted(&setup, 1).await;
    let (code, told) = says(Ok(&gate), &["open", "--tool", "bank__*", "--why", "odd"]).await;
    assert_eq!(code, 1, "{told}");
    gate.wait().await;
    assert_eq!(steps(&setup).await, ["opened", "frozen"]);
    assert_eq!(first(Err(&setup)).await["settled"], false);
    let gate = setup.begin().await;
    all_is_void(&gate, &ids).await;
}

/// threat-model §12: killed when its end is on record and before its tools are back, they stay frozen, and it can be
/// closed again: never back without a record.
#[tokio::test]
async fn a_kill_when_the_end_is_noted_leaves_it_open() {
    build();
    let (setup, _) = bank().await;
    // The first is that of the freeze.
    let mut gate = killed_when_noted(&setup, 2).await;
    let (code, told) = says(Ok(&gate), &["open", "--tool", "bank__*", "--why", "odd"]).await;
    assert_eq!(code, 0, "{told}");
    let force = [&CLOSE[..], &["--force"]].concat();
    let (code, told) = says(Ok(&gate), &force).await;
    assert_eq!(code, 1, "{told}");
    gate.wait().await;
    assert_eq!(steps(&setup).await, ["opened", "frozen", "closed"]);
    let gate = setup.begin().await;
    let status: Value = serde_json::from_str(&gate.operators("/api/status").await).unwrap();
    assert_eq!(status["frozen"][0]["pattern"], "bank__*", "{status}");
    let (code, told) = says(Ok(&gate), &force).await;
    assert_eq!(code, 0, "{told}");
    let status: Value = serde_json::from_str(&gate.operators("/api/status").await).unwrap();
    assert!(status["frozen"].is_null(), "{status}");
    let known = steps(&gate.setup).await;
    assert_eq!(known, ["opened", "frozen", "closed", "closed"]);
}

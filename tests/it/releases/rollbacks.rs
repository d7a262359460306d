//! The way back to a policy that was in force.

use super::{
    AMOUNT, LOOSE, STRICT, becomes, done, hash, is_strict, json_of, kept, last_life, loosened,
    pack, policy, read, write,
};
use crate::harness::answer::code;
use crate::harness::gate::{run, runs};
use crate::harness::until;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// 003-42: rolled back while calls are in flight, each call is judged by one of the two policies,
/// whole, and none is lost; the hash of before is in force again, and what was there is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_under_load_swaps_whole() {
    let (_scripted, gate, [strict, loose]) = loosened("").await;
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (agent, stop) = (gate.agent(), stop.clone());
            tokio::spawn(async move {
                let mut seen = BTreeSet::new();
                while !stop.load(Ordering::Relaxed) {
                    let arguments = json!({ "amount": AMOUNT });
                    seen.insert(code(&agent.call_anew("oracle__read", arguments).await));
                }
                seen
            })
        })
        .collect();
    let (code, out, _) = runs(&gate.setup, &format!("policy rollback {strict} --dry-run")).await;
    assert!(code == 0 && out.contains("nothing was"), "{out}");
    assert_eq!(read(&gate.setup, "policy.yaml"), policy(LOOSE));
    let why = ["policy", "rollback", &strict[..8], "--why", "too loose"];
    let out = done(&gate.setup, &why).await;
    assert!(out.contains(&format!("kept as {}", &loose[..12])), "{out}");
    becomes(&gate, true).await;
    stop.store(true, Ordering::Relaxed);
    let known = BTreeSet::from([None, Some("too_much".to_owned())]);
    for load in load {
        let seen = load.await.unwrap();
        assert!(seen.is_subset(&known), "{seen:?}");
    }
    assert_eq!(read(&gate.setup, "policy.yaml"), policy(STRICT));
    assert_eq!(read(&gate.setup, "tests/amounts.yaml"), pack("too_much"));
    let all = kept(&gate.setup).await;
    assert_eq!(hash(all.last().unwrap()), strict, "{all:?}");
    let life = last_life(all.last().unwrap());
    assert_eq!(
        (&life["from"], &life["why"]),
        (&json!("rollback"), &json!("too loose"))
    );
    let entries = gate.stop().await;
    let (_, listed, _) = runs(&entries, "ledger list --json --data data").await;
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in listed.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let version = entry["policy"].as_str().unwrap().to_owned();
        let outcome = entry["outcome"].to_string();
        versions.entry(version).or_default().insert(outcome);
    }
    assert_eq!(versions.len(), 2, "{versions:?}");
    assert!(versions.values().all(|one| one.len() == 1), "{versions:?}");
}

/// 003-42: pins come back too, files that were added go, and files that were removed are there again.
#[tokio::test]
async fn all_files_come_back() {
    let (_scripted, setup) = super::setup("").await;
    std::fs::create_dir(setup.directory().join("more")).unwrap();
    let layers = "layers: { global: { deny: [\"*__drop_*\"] } }\n";
    write(&setup, "more/layers.yaml", layers);
    write(&setup, "pins.yaml", "pins: {}\n");
    let setup = setup
        .more_policies(&["more"])
        .more("pins: { file: pins.yaml, require: false }");
    let gate = setup.start().await;
    let first = hash(&kept(&gate.setup).await[0]);
    std::fs::remove_file(gate.path("more/layers.yaml")).unwrap();
    write(&gate.setup, "more/added.yaml", "budgets: {}\n");
    write(&gate.setup, "pins.yaml", "complete: [oracle]\npins: {}\n");
    let setup = gate.stop().await;
    let gate = setup.start().await;
    let (code, shown) = json_of(&gate.setup, &format!("policy rollback {first}")).await;
    assert_eq!(code, 0, "{shown}");
    let changes: BTreeMap<String, &str> = shown["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            let name = file["name"].as_str().unwrap().rsplit('/').next().unwrap();
            (name.to_owned(), file["change"].as_str().unwrap())
        })
        .collect();
    let expected = [
        ("added.yaml", "removed"),
        ("layers.yaml", "added"),
        ("pins.yaml", "changed"),
    ];
    let expected = expected.map(|(name, change)| (name.to_owned(), change));
    assert_eq!(changes, BTreeMap::from(expected));
    assert_eq!(read(&gate.setup, "more/layers.yaml"), layers);
    assert_eq!(read(&gate.setup, "pins.yaml"), "pins: {}\n");
    assert!(!gate.path("more/added.yaml").exists());
    let (code, out, _) = runs(&gate.setup, &format!("policy rollback {first}")).await;
    assert!(code == 0 && out.contains("nothing to do"), "{out}");
    let copy = shown["copy"].as_str().unwrap();
    done(&gate.setup, &["policy", "rollback", copy]).await;
    assert!(gate.path("more/added.yaml").exists());
    assert!(!gate.path("more/layers.yaml").exists());
}

/// issue 19: a rollback whose packs fail is refused, with the case named; by force, and with a reason, it
/// is in force even where packs are required.
#[tokio::test]
async fn a_rollback_with_broken_packs_needs_force_and_a_reason() {
    let (_scripted, gate, [strict, _]) = loosened("").await;
    // The pack of the strict policy is not what it was.
    write(&gate.setup, "tests/amounts.yaml", &pack("allow"));
    write(&gate.setup, "policy.yaml", &policy(STRICT));
    becomes(&gate, true).await;
    let broken = hash(kept(&gate.setup).await.last().unwrap());
    assert_ne!(broken, strict);
    let setup = gate.stop().await;
    let setup = setup.policy(&policy(LOOSE)).more("packs: require");
    let gate = setup.start().await;
    becomes(&gate, false).await;
    let refused = ["policy", "rollback", &broken, "--keep-config"];
    let (code, out, err) = run(&gate.setup, &refused).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        err.contains("case `large reads`: UNEXPECTED REJECT")
            && out.contains("nothing was written"),
        "{out}{err}"
    );
    assert_eq!(read(&gate.setup, "policy.yaml"), policy(LOOSE));
    let (code, _, _) = run(&gate.setup, &[&refused[..], &["--force"]].concat()).await;
    assert_eq!(code, 2, "no reason is given");
    let forced = ["--force", "--why", "the loose one pays twice"];
    done(&gate.setup, &[&refused[..], &forced].concat()).await;
    becomes(&gate, true).await;
    let log = gate.log();
    assert!(log.contains("by force: the loose one pays twice"), "{log}");
    // Any other files are held to their packs.
    write(&gate.setup, "tests/amounts.yaml", &pack("too_much"));
    write(&gate.setup, "policy.yaml", &policy(LOOSE));
    until("the reload is refused", || async {
        let said = gate.readiness().await.to_string();
        said.contains("case `large reads`: UNEXPECTED PASS")
            .then_some(())
    })
    .await;
    assert!(is_strict(&gate).await);
}

/// 003-42: of a rollback that was killed halfway nothing comes in force, neither by a reload nor at a
/// start, until it is done again.
#[tokio::test]
async fn half_a_rollback_is_no_policy() {
    let (_scripted, gate, [strict, loose]) = loosened("").await;
    let note = json!({
        "to": strict, "copy": loose, "at": "2026-11-28T00:00:00Z", "by": "ann", "why": null, "forced": false,
    });
    let begun = gate.path("data/policies/rolling-back.json");
    std::fs::write(&begun, note.to_string()).unwrap();
    write(&gate.setup, "policy.yaml", &policy(STRICT));
    until("the reload is refused", || async {
        let readiness = gate.readiness().await;
        readiness
            .to_string()
            .contains("has begun and not ended")
            .then_some(())
    })
    .await;
    assert!(!is_strict(&gate).await);
    let setup = gate.stop().await;
    let (code, _, err) = run(&setup, &["serve"]).await;
    assert!(
        code == 2 && err.contains("has begun and not ended"),
        "{code}: {err}"
    );
    done(&setup, &["policy", "rollback", &strict]).await;
    assert!(!begun.exists());
    assert_eq!(read(&setup, "tests/amounts.yaml"), pack("too_much"));
    let gate = setup.policy(&policy(STRICT)).start().await;
    assert!(is_strict(&gate).await);
}

/// Rollbacks at once take turns: each finds the files that it tries, and what the last of them wrote is whole.
#[tokio::test]
async fn rollbacks_at_once_take_turns() {
    let (_scripted, gate, [strict, loose]) = loosened("").await;
    let rollbacks = (0..8).map(|number| {
        let to = if number % 2 == 0 { &strict } else { &loose };
        let mut words = vec!["policy", "rollback", to];
        words.extend((number < 4).then_some("--dry-run"));
        let setup = &gate.setup;
        async move { done(setup, &words).await }
    });
    join_all(rollbacks).await;
    let is_whole = [(STRICT, "too_much"), (LOOSE, "allow")].map(|(most, expect)| {
        (policy(most), pack(expect))
            == (
                read(&gate.setup, "policy.yaml"),
                read(&gate.setup, "tests/amounts.yaml"),
            )
    });
    assert_ne!(is_whole[0], is_whole[1], "one of the two, whole");
    let left = std::fs::read_dir(gate.path("data/policies")).unwrap();
    let mut left = left.map(|entry| entry.unwrap().file_name());
    assert!(!left.any(|name| name.to_string_lossy().starts_with("staged-")));
}

/// What cannot be used now is not written, whatever is forced.
#[tokio::test]
async fn a_policy_that_cannot_be_used_is_not_written() {
    let (_scripted, gate, [strict, _]) = loosened("").await;
    let config = read(&gate.setup, "toolgate.yaml");
    write(
        &gate.setup,
        "toolgate.yaml",
        &config.replace("  oracle:", "  other:"),
    );
    let forced = ["policy", "rollback", &strict, "--force", "--why", "a test"];
    let (code, out, err) = run(&gate.setup, &forced).await;
    assert!(
        code == 1 && out.contains("its policy cannot be used now") && err.contains("policy.yaml"),
        "{code}: {out}{err}"
    );
    assert_eq!(read(&gate.setup, "policy.yaml"), policy(LOOSE));
}

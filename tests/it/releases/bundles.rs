//! What is kept of the policies that were in force.

use super::{
    AMOUNT, LOOSE, STRICT, becomes, done, hash, json_of, kept, last_life, loosened, pack, policy,
    setup, write,
};
use crate::harness::gate::{run, runs};
use crate::harness::setup::beside;
use crate::kills::{PROGRAM, build};
use serde_json::json;

/// 003-42: each policy that comes in force is kept; what the ledger says of a call leads to the files
/// by which it was judged, and what is kept says which is in force.
#[tokio::test]
async fn the_ledger_leads_to_the_files() {
    let (_scripted, gate, [strict, loose]) = loosened("").await;
    let entries = gate.entries(2).await;
    let judged = |index: usize| entries[index]["policy"].as_str().unwrap().to_owned();
    let first = done(&gate.setup, &["policy", "show", &judged(0), "policy.yaml"]).await;
    assert_eq!(first, policy(STRICT));
    let last = judged(entries.len() - 1);
    assert_eq!(
        done(&gate.setup, &["policy", "show", &last, "policy.yaml"]).await,
        policy(LOOSE)
    );
    let all = kept(&gate.setup).await;
    assert_eq!(
        [hash(&all[0]), hash(&all[1])],
        [strict.clone(), loose.clone()]
    );
    for (one, from, now) in [(&all[0], "start", false), (&all[1], "reload", true)] {
        assert_eq!(last_life(one)["from"], from, "{one}");
        assert_eq!(one["in_force"], now, "{one}");
    }
    let (code, out, _) = runs(&gate.setup, &format!("policy show {}", &loose[..8])).await;
    assert!(
        code == 0
            && out.contains("policy   policy.yaml")
            && out.contains("pack     tests/amounts.yaml"),
        "{out}"
    );
    let (code, diff) = json_of(&gate.setup, &format!("policy diff {strict} {loose}")).await;
    assert_eq!(code, 1, "{diff}");
    let names: Vec<&str> = diff["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["policy.yaml", "tests/amounts.yaml"]);
    let (code, out, _) = runs(&gate.setup, &format!("policy diff {loose}")).await;
    assert!(
        code == 0 && out.contains("nothing differs"),
        "{code}: {out}"
    );
}

/// 003-117: `report --compare` takes the hash of a bundle for the version that it was.
#[tokio::test]
async fn a_report_compares_by_hash() {
    let (_scripted, gate, [strict, loose]) = loosened("").await;
    let entries = gate.entries(2).await;
    let (_, report) = json_of(
        &gate.setup,
        &format!("report --compare {} {loose}", &strict[..10]),
    )
    .await;
    let old = entries[0]["policy"].as_str().unwrap();
    assert!(report.to_string().contains(old), "{report}");
    let (code, _, err) = runs(&gate.setup, "report --compare ffffffffff").await;
    assert!(code == 1 && err.contains("begins with ffffffffff"), "{err}");
}

/// What only reads needs no policy that is valid, no secret and no configuration.
#[tokio::test]
async fn what_is_kept_is_read_whatever_is_broken() {
    let (_scripted, gate, [strict, _]) = loosened("").await;
    let setup = gate.stop().await;
    write(&setup, "policy.yaml", "contracts: { oracle__read: {} }\n");
    let (code, out, _) = runs(&setup, &format!("policy diff {strict}")).await;
    assert!(code == 1 && out.contains("-contracts:\n"), "{code}: {out}");
    write(&setup, "toolgate.yaml", "servers: [\n");
    for line in [
        "policy list --data data",
        &format!("policy show {strict} --data data"),
    ] {
        let (code, out, err) = runs(&setup, line).await;
        assert!(
            code == 0 && out.contains(&strict[..12]),
            "{line}: {out}{err}"
        );
    }
}

/// 003-42: no bundle holds a secret, and a rollback leaves the one that is there, and shows none.
#[tokio::test]
async fn no_bundle_holds_a_secret() {
    let (_scripted, setup) = setup("secrets: {}").await;
    let callers = |roles: &str| {
        format!(
            "  - {{ agent: bot, token: written-out-for-bot, roles: [{roles}] }}\n  - {{ agent: cat, token: \"${{CAT_TOKEN}}\" }}"
        )
    };
    let setup = setup
        .environment("CAT_TOKEN", "from-the-environment")
        .callers(&callers("one"));
    let by_bot = pack("too_much").replace("anonymous", "bot");
    write(&setup, "tests/amounts.yaml", &by_bot);
    let gate = setup.start().await;
    let first = hash(&kept(&gate.setup).await[0]);
    let again = gate.stop().await.callers(&callers("two"));
    let gate = again.start().await;
    assert_eq!(kept(&gate.setup).await.len(), 2);
    let out = done(&gate.setup, &["policy", "show", &first, "toolgate.yaml"]).await;
    assert!(
        out.contains("(kept out)") && out.contains("${CAT_TOKEN}"),
        "{out}"
    );
    for form in ["--dry-run", "--dry-run --json"] {
        let (code, out, err) = runs(&gate.setup, &format!("policy rollback {first} {form}")).await;
        assert!(code == 0 && out.contains("(kept out)"), "{out}{err}");
        assert!(!out.contains("written-out-for-bot"), "{out}");
    }
    done(&gate.setup, &["policy", "rollback", &first]).await;
    let config = super::read(&gate.setup, "toolgate.yaml");
    assert!(
        config.contains("written-out-for-bot") && config.contains("[\"one\"]"),
        "{config}"
    );
    for entry in std::fs::read_dir(gate.path("data/policies/bundles")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(
            !text.contains("written-out-for-bot") && !text.contains("from-the-environment"),
            "{text}"
        );
    }
}

/// 003-42: a bundle that was changed is refused, by its hash, and nothing is written.
#[tokio::test]
async fn a_tampered_bundle_is_refused() {
    let (_scripted, gate, [strict, _]) = loosened("").await;
    let path = gate.path(&format!("data/policies/bundles/{strict}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    let rule = format!("arguments.amount > {STRICT}");
    assert!(text.contains(&rule), "{text}");
    std::fs::write(&path, text.replace(&rule, "false")).unwrap();
    for line in ["policy show", "policy diff", "policy rollback"] {
        let (code, _, err) = runs(&gate.setup, &format!("{line} {strict}")).await;
        assert!(
            code == 1 && err.contains("is not what was kept under that name"),
            "{line}: {code}: {err}"
        );
    }
    assert_eq!(super::read(&gate.setup, "policy.yaml"), policy(LOOSE));
    let (code, _, err) = run(&gate.setup, &["policy", "show", "zz"]).await;
    assert!(code == 1 && err.contains("begins with zz"), "{err}");
}

/// 003-42: killed between keeping a policy and putting it in force, toolgate starts with it; what was in
/// force before is kept as well, and both are whole.
#[tokio::test]
async fn a_kill_between_keeping_and_going_live_loses_nothing() {
    build();
    let (_scripted, setup) = setup("").await;
    let armed = setup
        .clone()
        .program(beside(PROGRAM))
        .environment("TOOLGATE_FAILPOINT", "reload");
    let mut gate = armed.start().await;
    becomes(&gate, true).await;
    write(&gate.setup, "policy.yaml", &policy(LOOSE));
    gate.wait().await;
    drop(gate);
    let all = kept(&setup).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|one| one["in_force"] == false), "{all:?}");
    std::fs::write(setup.directory().join("policy.yaml"), policy(LOOSE)).unwrap();
    // As it is written again at a start.
    let gate = setup.policy(&policy(LOOSE)).start().await;
    let answer = gate
        .agent()
        .call("oracle__read", json!({ "amount": AMOUNT }))
        .await;
    assert_eq!(crate::harness::answer::code(&answer), None, "{answer}");
    let all = kept(&gate.setup).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(last_life(&all[1])["from"], "start");
    for (one, most) in [(&all[0], STRICT), (&all[1], LOOSE)] {
        let text = done(&gate.setup, &["policy", "show", &hash(one), "policy.yaml"]).await;
        assert_eq!(text, policy(most));
    }
}

/// A version in which operators have disabled a tool leads to its files, too.
#[tokio::test]
async fn a_version_without_a_tool_leads_to_its_files() {
    let (_scripted, gate, [_, loose]) = loosened("").await;
    let setup = gate.stop().await;
    done(&setup, &["disable", "oracle__read", "--why", "a test"]).await;
    let before = kept(&setup).await;
    let gate = setup.policy(&policy(LOOSE)).start().await;
    let answer = gate
        .agent()
        .call("oracle__read", json!({ "amount": 1 }))
        .await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let all = kept(&gate.setup).await;
    assert_eq!(all.len(), before.len(), "{all:?}");
    let life = last_life(all.last().unwrap());
    assert_eq!(life["from"], "switch", "{all:?}");
    let version = life["policy"].as_str().unwrap();
    let calls = gate.entries(1).await;
    assert_eq!(calls.last().unwrap()["policy"], version);
    let (_, shown) = json_of(&gate.setup, &format!("policy show {version}")).await;
    assert_eq!(shown["bundle"], loose.as_str(), "{shown}");
}

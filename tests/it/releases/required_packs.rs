//! `packs: require`.

use super::{LOOSE, STRICT, becomes, is_strict, json_of, pack, policy, setup, write};
use crate::harness::gate::run;
use crate::harness::until;

const REQUIRED: &str = "packs: require";

/// issue 19: a start with a pack that fails names the case and ends with 2; nothing was served and nothing
/// is kept. One that passes is served.
#[tokio::test]
async fn a_start_with_a_broken_pack_is_refused() {
    let (_scripted, setup) = setup(REQUIRED).await;
    write(&setup, "tests/amounts.yaml", &pack("allow"));
    setup.write();
    let (code, out, err) = run(&setup, &["serve"]).await;
    assert_eq!(code, 2, "{out}{err}");
    for part in [
        "tests/amounts.yaml:3",
        "pack `amounts`, case `large reads`: UNEXPECTED REJECT got=too_much expect=allow",
        "does not come in force: 1 problem",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(!out.contains("agents:"), "{out}");
    assert!(!setup.directory().join("data/policies").exists());
    write(&setup, "tests/amounts.yaml", &pack("too_much"));
    let gate = setup.start().await;
    assert!(is_strict(&gate).await);
}

/// A pack that is required and not there proves nothing, and neither does one that cannot be read.
#[tokio::test]
async fn packs_that_are_not_there_do_not_pass() {
    let (_scripted, setup) = setup(REQUIRED).await;
    setup.write();
    write(&setup, "tests/amounts.yaml", "pack: [\n");
    let (code, _, err) = run(&setup, &["serve"]).await;
    assert!(
        code == 2 && err.contains("tests/amounts.yaml"),
        "{code}: {err}"
    );
    std::fs::remove_file(setup.directory().join("tests/amounts.yaml")).unwrap();
    let (code, _, err) = run(&setup, &["serve"]).await;
    assert!(
        code == 2 && err.contains("there is no pack"),
        "{code}: {err}"
    );
}

/// Where nothing is said, packs are run by `toolgate test` alone.
#[tokio::test]
async fn packs_that_are_not_required_keep_nothing_back() {
    let (_scripted, setup) = setup("").await;
    write(&setup, "tests/amounts.yaml", &pack("allow"));
    let gate = setup.start().await;
    assert!(is_strict(&gate).await);
}

/// issue 19: a reload whose packs fail leaves the last good policy in force, for every call; the log, a
/// metric, `/readyz` and `status` say so. Once the pack is mended, though the policy is as it was, it
/// comes in force.
#[tokio::test]
async fn a_reload_with_a_broken_pack_keeps_the_last_good_policy() {
    let (_scripted, setup) = setup(REQUIRED).await;
    let gate = setup.start().await;
    assert!(is_strict(&gate).await);
    write(&gate.setup, "policy.yaml", &policy(LOOSE));
    until("the reload is refused", || async {
        let kept = gate
            .metric("toolgate_reloads_total{outcome=\"kept\"}")
            .await;
        (kept >= 1.0).then_some(())
    })
    .await;
    assert!(is_strict(&gate).await);
    let words = "case `large reads`: UNEXPECTED PASS got=allow expect=too_much";
    let readiness = gate.readiness().await;
    assert_eq!(readiness["policy"]["stale"], true, "{readiness}");
    assert!(readiness.to_string().contains(words), "{readiness}");
    assert!(gate.metric("toolgate_policy_stale").await > 0.0);
    let log = gate.log();
    assert!(
        log.contains(words) && log.contains("the last good policy stays in force"),
        "{log}"
    );
    let admin = gate.operators.to_string();
    let (_, status) = json_of(&gate.setup, &format!("status --admin {admin}")).await;
    assert!(status.to_string().contains(words), "{status}");
    write(&gate.setup, "tests/amounts.yaml", &pack("allow"));
    becomes(&gate, false).await;
    assert_eq!(gate.readiness().await["policy"]["stale"], false);
    write(&gate.setup, "tests/amounts.yaml", &pack("too_much"));
    write(&gate.setup, "policy.yaml", &policy(STRICT));
    becomes(&gate, true).await;
}

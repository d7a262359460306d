//! The way back to a release whose pins do not go with the configuration as it stands.

use super::{LOOSE, done, hash, json_of, kept, policy, read, write};
use crate::harness::gate::{run, runs};
use serde_json::json;

/// A release of before has its pins in one file, and the configuration of now names another: with that configuration
/// kept, the two contradict each other. It is refused, by force too, it says which file, and nothing is changed; with
/// the configuration of then, it is done.
#[tokio::test]
async fn a_rollback_with_pins_that_conflict_changes_nothing() {
    let (_scripted, setup) = super::setup("").await;
    write(&setup, "then.yaml", "pins: {}\n");
    write(&setup, "now.yaml", "complete: [oracle]\npins: {}\n");
    let setup = setup.more("pins: { file: then.yaml, require: false }");
    let gate = setup.start().await;
    let first = hash(&kept(&gate.setup).await[0]);
    let setup = gate.stop().await;
    let setup = setup.instead("file: then.yaml", "file: now.yaml");
    let gate = setup.policy(&policy(LOOSE)).start().await;
    let all = [
        "toolgate.yaml",
        "policy.yaml",
        "now.yaml",
        "then.yaml",
        "tests/amounts.yaml",
    ];
    let before = all.map(|name| read(&gate.setup, name));
    let shelf = kept(&gate.setup).await;
    let keeping = ["policy", "rollback", &first, "--keep-config"];
    let plain: &[&str] = &[];
    for more in [plain, &["--force", "--why", "a test"]] {
        let (code, out, err) = run(&gate.setup, &[&keeping[..], more].concat()).await;
        assert!(
            code == 1 && out.contains("nothing was written") && err.contains("now.yaml"),
            "{code}: {out}{err}"
        );
        assert_eq!(all.map(|name| read(&gate.setup, name)), before);
    }
    assert_eq!(kept(&gate.setup).await, shelf);
    let line = format!("policy rollback {first} --keep-config");
    let (code, shown) = json_of(&gate.setup, &line).await;
    assert_eq!((code, &shown["written"]), (1, &json!(false)), "{shown}");
    done(&gate.setup, &["policy", "rollback", &first]).await;
    assert!(read(&gate.setup, "toolgate.yaml").contains("then.yaml"));
    let (code, said, _) = runs(&gate.setup, &format!("policy rollback {first}")).await;
    assert!(code == 0 && said.contains("nothing to do"), "{said}");
}

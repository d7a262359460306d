//! Keys that seal: bad ones, missing ones, and one after another.

use super::{KEY, pay, setup, stopped, tools, verify, write_key};
use crate::harness::gate::{run, runs};
use crate::harness::setup::Setup;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Every file below `path`, with what is in it.
fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// What doctor finds is `said`, and nothing of the data directory is another then.
async fn doctor_only_reads(setup: &Setup, said: &str) {
    let (data, own) = (
        setup.directory().join("data"),
        setup.directory().join("own"),
    );
    std::fs::create_dir_all(&own).unwrap();
    let before = contents(&data);
    let setup = setup.clone().environment("TMPDIR", own.to_str().unwrap());
    let (code, out, err) = run(&setup, &["doctor", "--config", "toolgate.yaml"]).await;
    assert!(code == 0 && out.contains(said), "{out}{err}");
    assert!(out.contains("the ledger is as it was written"), "{out}");
    assert!(contents(&data) == before, "doctor wrote");
    assert_eq!(contents(&own), [], "what doctor made is gone");
}

/// Keys that are missing, too short, everybody's or another's: said where they stand, and nothing
/// is written unsealed.
#[tokio::test]
async fn keys_that_cannot_seal_are_refused() {
    let server = tools().await;
    let setup = setup(&server, KEY);
    setup.write();
    let path = write_key(&setup, "seal.key", "short\n");
    let (code, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
    assert!(
        code == 1 && out.contains("a key of the ledger has 32 bytes at least"),
        "{out}{err}"
    );
    write_key(&setup, "seal.key", &"5e".repeat(32));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
    assert!(
        code == 0 && out.contains("everybody on this machine may read this file"),
        "{out}{err}"
    );
    std::fs::remove_file(&path).unwrap();
    let (code, _, err) = run(&setup, &["serve", "--config", "toolgate.yaml"]).await;
    assert!(
        code == 1 && err.contains("the ledger cannot be sealed"),
        "{err}"
    );
    assert!(
        !setup.directory().join("data/journal").exists(),
        "nothing was written"
    );
}

const DISABLE: &str = "disable oracle__pay --why x --config toolgate.yaml";

/// A verb that would open the ledger for writing names the places where the key was looked for.
async fn says_where_it_looked(setup: &Setup) {
    let (code, out, err) = runs(setup, "calls list --config toolgate.yaml").await;
    let places = ["no configuration that was read names a key", "(the file"];
    let looked = places.iter().filter(|place| err.contains(**place)).count();
    assert_eq!((code, looked), (2, 1), "{out}{err}");
    assert!(
        err.contains("`toolgate ledger` reads without a key"),
        "{err}"
    );
}

/// Nobody can seal without the key that sealed before, nor leave it off.
#[tokio::test]
async fn a_key_goes_on_from_the_one_before() {
    let server = tools().await;
    let setup = setup(&server, KEY);
    setup.write();
    write_key(&setup, "seal.key", &"5e".repeat(32));
    let gate = setup.start().await;
    pay(&gate, 1).await;
    let setup = stopped(gate).await;
    write_key(&setup, "other.key", &"6f".repeat(32));
    for ledger in ["", "ledger: { seal: { key: { file: other.key } } }\n"] {
        with(&setup, ledger);
        let (code, _, err) = run(&setup, &["serve", "--config", "toolgate.yaml"]).await;
        assert!(
            code == 1 && err.contains("is sealed with the key") && err.contains("previous"),
            "{err}"
        );
        let (code, _, err) = runs(&setup, DISABLE).await;
        assert!(code == 2 && err.contains("is sealed with the key"), "{err}");
        says_where_it_looked(&setup).await;
    }
    with(
        &setup,
        "ledger: { seal: { key: { file: other.key }, previous: [{ file: seal.key }] } }\n",
    );
    let (code, said) = verify(&setup, &[]).await;
    assert!(
        code == 1 && said.contains("toolgate has not run with that one"),
        "{said}"
    );
    assert!(
        said.contains("check with the one before (`--key FILE`)"),
        "{said}"
    );
    assert_eq!(verify(&setup, &["--key", "seal.key"]).await.0, 0);
    doctor_only_reads(&setup, "seals the ledger from the next start on").await;
    let (code, said, err) = runs(&setup, DISABLE).await;
    assert_eq!(code, 0, "{said}{err}");
    let (code, said) = verify(&setup, &[]).await;
    assert!(
        code == 0 && said.matches("nobody without it has changed them").count() == 2,
        "{said}"
    );
    let (_, exported, _) = run(&setup, &["ledger", "export", "--config", "toolgate.yaml"]).await;
    let rekeyed: Vec<Value> = exported
        .lines()
        .filter(|line| line.contains("\"rekeyed\""))
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(rekeyed.len(), 2, "the first key and the second: {exported}");
    // No secret in any of it.
    let log = std::fs::read_to_string(setup.directory().join("log")).unwrap();
    for text in [said, exported, err, log] {
        assert!(
            !text.contains("5e5e5e5e") && !text.contains("6f6f6f6f"),
            "{text}"
        );
    }
}

/// Another `ledger` line in the configuration.
fn with(setup: &Setup, ledger: &str) {
    let path = setup.directory().join("toolgate.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.split_inclusive('\n');
    let rest: String = lines.filter(|line| !line.starts_with("ledger:")).collect();
    std::fs::write(path, format!("{ledger}{rest}")).unwrap();
}

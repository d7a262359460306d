//! What `toolgate stdio` hands on to the tool server that it wraps, and where it keeps ledgers without a
//! configuration (issue 17).

use crate::harness::DEADLINE;
use crate::harness::gate::{run, runs};
use crate::harness::setup::Setup;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

/// A tool server is given toolgate's own variables, and not the token with which it could decide as the
/// operator; one that is not UTF-8 ends nothing.
#[tokio::test]
async fn a_tool_server_gets_no_operators_token() {
    let setup = Setup::new().environment("OPERATOR_TOKEN", "token-of-the-operator-ann");
    let setup = setup.environment("KEPT", "yes");
    let wrap = ["stdio", "--data", "data", "--", "sh", "-c", "env > seen"];
    let mut command = setup.command(&wrap);
    command.env("ODD", OsStr::from_bytes(b"\xff"));
    let done = tokio::time::timeout(DEADLINE, command.output()).await;
    let log = String::from_utf8(done.unwrap().unwrap().stderr).unwrap();
    let seen = fs::read_to_string(setup.directory().join("seen"));
    let seen = seen.unwrap_or_else(|error| panic!("{error}: {log}"));
    assert!(seen.lines().any(|line| line == "KEPT=yes"), "{seen}");
    assert!(
        !seen.contains("OPERATOR_TOKEN") && !seen.contains("ODD"),
        "{seen}"
    );
    assert!(
        log.contains("the variable ODD, which is not UTF-8"),
        "{log}"
    );
}

/// A state directory that is no absolute path is none, as the XDG specification has it: no ledger is left
/// where an agent happens to work, and `ledger --stdio` finds what was kept.
#[tokio::test]
async fn a_ledger_is_not_kept_where_the_agent_works() {
    for state in ["", "state"] {
        let setup = Setup::new();
        let home = setup.directory().join("home");
        fs::create_dir(&home).unwrap();
        let setup = setup.environment("HOME", home.to_str().unwrap());
        let setup = setup.environment("XDG_STATE_HOME", state);
        let (_, _, log) = runs(&setup, "stdio --server bank -- true").await;
        let kept = home.join(".local/state/toolgate/stdio/bank");
        assert!(kept.join("journal").is_dir(), "{state:?}: {log}");
        let here = fs::read_dir(setup.directory()).unwrap();
        let here: Vec<_> = here.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(here, ["home"], "{state:?}: {log}");
        let (code, out, err) = run(&setup, &["ledger", "--stdio", "events"]).await;
        let named = format!("bank: {}", kept.display());
        assert!(
            code == 0 && out.contains("stopped"),
            "{state:?}: {out}{err}"
        );
        assert!(err.contains(&named), "{state:?}: {err}");
    }
}

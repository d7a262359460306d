//! Of a directory where no toolgate has run, nothing is said: least of all that there is nothing.

use crate::harness::gate::run;
use crate::harness::setup::Setup;

/// Verbs that look at a record, each at an empty directory, and at one that is not there: with a typo, an operator
/// would read that no tool is disabled, and that no policy was in force.
#[tokio::test]
async fn of_another_directory_nothing_is_said() {
    let setup = Setup::new();
    std::fs::create_dir(setup.directory().join("other")).unwrap();
    for line in [
        "ledger list",
        "ledger export",
        "ledger events",
        "ledger tail",
        "ledger verify",
        "ledger show ffffffff",
        "ledger replay ffffffff",
        "calls list",
        "calls ask ffffffff",
        "tasks list",
        "tasks show ffffffff",
        "incident list",
        "incident show 1",
        "undo ffffffff --dry-run",
        "disable",
        "disable --json",
        "policy list",
        "policy list --json",
        "policy show ffff",
        "policy diff ffff",
        "report",
    ] {
        for place in ["other", "absent"] {
            let mut words: Vec<_> = line.split(' ').collect();
            words.extend(["--data", place]);
            let (code, out, err) = run(&setup, &words).await;
            assert_eq!((code, &*out), (1, ""), "{line} {place}: {err}");
            assert!(
                err.contains("there is no journal in"),
                "{line} {place}: {err}"
            );
        }
    }
    // Of a file it is said, once, that it is none.
    std::fs::write(setup.directory().join("file"), "text").unwrap();
    for line in ["ledger list", "calls list", "incident list", "report"] {
        let mut words: Vec<_> = line.split(' ').collect();
        words.extend(["--data", "file"]);
        let (code, out, err) = run(&setup, &words).await;
        assert_eq!((code, &*out), (1, ""), "{line}: {err}");
        assert_eq!(err.matches("Not a directory").count(), 1, "{line}: {err}");
    }
    // Nothing was made there by looking.
    let made = std::fs::read_dir(setup.directory().join("other")).unwrap();
    assert_eq!(made.count(), 0);
    assert!(!setup.directory().join("absent").exists());
}

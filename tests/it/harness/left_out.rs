//! Scenarios that need what not every machine has: one that is left out says so, and fails where
//! what it needs has to be there.

use std::io::Write as _;

/// Says that a scenario, or a part of it, is left out for want of `need`, and what to do about it. It
/// fails where `TOOLGATE_NEEDS` names that, as in CI: `promtool,root`.
pub fn left_out(need: &str, advice: &str) {
    let needed = std::env::var("TOOLGATE_NEEDS").unwrap_or_default();
    let line = format!("SKIPPED: {}\n", words(need, advice, &needed));
    // Past what the runner keeps of tests that pass.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// What is said; where `needed` has `need`, that is what it fails with.
fn words(need: &str, advice: &str, needed: &str) -> String {
    let said = format!("no {need} here; {advice}");
    let is_needed = needed.split(',').any(|one| one.trim() == need);
    assert!(!is_needed, "{said} (TOOLGATE_NEEDS={needed})");
    said
}

#[test]
fn what_is_needed_is_not_left_out() {
    let words = |needed: &'static str| {
        std::panic::catch_unwind(move || words("promtool", "install it", needed)).ok()
    };
    let said = Some("no promtool here; install it".to_owned());
    assert_eq!((words(""), words("root,tool")), (said.clone(), said));
    assert_eq!((words("promtool"), words("root, promtool")), (None, None));
}

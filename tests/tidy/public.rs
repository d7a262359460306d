//! What a stranger to the repository meets: its CI runs `tests/run`, asks for nothing, and takes
//! pinned actions; README leads to how one takes part.

use super::{read, report};
use regex::Regex;

const CI: &str = ".github/workflows/ci.yml";

/// Issue 20 "a workflow file for a public CI".
#[test]
fn public_ci_asks_for_nothing() {
    let workflow = read(CI);
    let rust = Regex::new(r#"(?m)^rust-version = "([^"]+)""#).unwrap();
    let manifest = read("Cargo.toml");
    let version = &rust.captures(&manifest).unwrap()[1];
    assert!(
        workflow.contains(&format!("RUST: \"{version}\"")),
        "{CI} takes the Rust of Cargo.toml, {version}"
    );
    for needed in [
        "- run: tests/run quick",
        "- run: .ci/run",
        "permissions:\n  contents: read\n",
        "persist-credentials: false",
    ] {
        assert!(workflow.contains(needed), "{CI} has no `{needed}`");
    }
    let mut broken = Vec::new();
    let taken = Regex::new(r"uses: (\S+)").unwrap();
    // A tag can be moved; a commit is what it is.
    let pinned = Regex::new(r"^actions/[a-z-]+@[0-9a-f]{40}$").unwrap();
    let mut actions = 0;
    for found in taken.captures_iter(&workflow) {
        actions += 1;
        if !pinned.is_match(&found[1]) {
            broken.push(format!("{CI}: {} is not pinned", &found[1]));
        }
    }
    assert!(actions > 1, "the actions were not found");
    for word in ["secrets.", "pull_request_target", ": write"] {
        if workflow.contains(word) {
            broken.push(format!("{CI}: {word}"));
        }
    }
    report(
        "the public CI needs no secret and may write nothing",
        broken,
    );
}

#[test]
fn readme_leads_to_how_to_take_part() {
    let readme = read("README.md");
    let missing = [
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        "CHANGELOG.md",
        "LICENSE",
        "docs/licences.md",
    ]
    .into_iter()
    .filter(|document| !readme.contains(&format!("({document})")));
    report(
        "README links to it",
        missing.map(ToOwned::to_owned).collect(),
    );
    let security = read("SECURITY.md");
    let conduct = read("CODE_OF_CONDUCT.md");
    for page in [&security, &conduct] {
        assert!(
            page.contains("*Report a vulnerability*"),
            "both name the one place that is not public"
        );
    }
}

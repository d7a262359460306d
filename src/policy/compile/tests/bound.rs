//! What a person's word on a held call is bound to.

use super::*;
use crate::model::digest::Digest;
use serde_json::json;

/// What is bound under this configuration, where `edit` was made in the policy file.
fn bound(mode: Mode, configuration: Value, edit: [&str; 2]) -> Digest {
    let [from, to] = edit;
    let directory = tempfile::tempdir().unwrap();
    let text = GOOD_POLICY.replace(from, to);
    fs::write(directory.path().join("good.yaml"), text).unwrap();
    let input = CompileInput {
        written: configuration,
        ..basis(directory.path(), mode)
    };
    let policy = compile(input, Vec::new()).policy.unwrap();
    policy.bound_to(&ToolName::new("billing__create_invoice"))
}

/// guarantees §7: what was allowed is allowed under one contract, one configuration and one mode; what is
/// said of other tools changes nothing.
#[test]
fn a_word_is_bound_to_contract_configuration_and_mode() {
    let one = || json!({ "servers": [{ "name": "billing", "url": "http://a/" }] });
    let other = json!({ "servers": [{ "name": "billing", "url": "http://b/" }] });
    let as_it_is = ["Show one.", "Show one."];
    let asked = bound(Mode::Enforce, one(), as_it_is);
    assert_eq!(bound(Mode::Enforce, one(), as_it_is), asked);
    let other_tool = ["Show one.", "Show an invoice."];
    assert_eq!(bound(Mode::Enforce, one(), other_tool), asked);

    let contract = bound(
        Mode::Enforce,
        one(),
        ["Create a draft invoice", "Create an invoice"],
    );
    assert_ne!(contract, asked, "another contract");
    let configuration = bound(Mode::Enforce, other, as_it_is);
    assert_ne!(configuration, asked, "another configuration");
    let mode = bound(Mode::Observe, one(), as_it_is);
    assert_ne!(mode, asked, "another mode");
}

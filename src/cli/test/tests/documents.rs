//! The documents' example, code by code.

use super::{PACK_HEAD, sample, stage, test};

/// A name, the caller, what is changed in the call and in the task, and what is expected; `-gone`
/// takes an argument away.
type DocumentRow = (
    &'static str,
    &'static str,
    (&'static str, &'static str),
    &'static str,
);

const LONGEST_CUSTOMER_ID: &str =
    "customer_id: cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
const TOO_LONG_CUSTOMER_ID: &str =
    "customer_id: ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

const DOCUMENT_ROWS: [DocumentRow; 17] = [
    ("003-31 legal", "clerk", ("", ""), "allow"),
    ("003-22 003-57 role", "reader", ("", ""), "rbac_denied"),
    (
        "003-23 003-32 003-56 tenant",
        "clerk",
        ("tenant_id: t_999", ""),
        "tenant_mismatch",
    ),
    (
        "003-23 no tenant",
        "clerk",
        ("-gone tenant_id", ""),
        "tenant_mismatch",
    ),
    (
        "003-24 0",
        "clerk",
        ("amount: 0", ""),
        "amount_out_of_range",
    ),
    ("003-24 003-59 1", "clerk", ("amount: 1", ""), "allow"),
    (
        "003-24 003-59 most",
        "clerk",
        ("amount: 5000000", ""),
        "allow",
    ),
    (
        "003-24 more",
        "clerk",
        ("amount: 5000001", ""),
        "amount_out_of_range",
    ),
    (
        "003-24 none",
        "clerk",
        ("-gone amount", ""),
        "amount_out_of_range",
    ),
    (
        "003-24 text",
        "clerk",
        ("amount: \"1200\"", ""),
        "amount_out_of_range",
    ),
    (
        "003-25 003-58 EUR",
        "clerk",
        ("currency: EUR", ""),
        "currency_not_allowed",
    ),
    ("003-25 USD", "clerk", ("currency: USD", ""), "allow"),
    (
        "003-26 empty",
        "clerk",
        ("customer_id: \"\"", ""),
        "customer_id_invalid",
    ),
    (
        "003-26 003-60 64",
        "clerk",
        (LONGEST_CUSTOMER_ID, ""),
        "allow",
    ),
    (
        "003-26 003-60 65",
        "clerk",
        (TOO_LONG_CUSTOMER_ID, ""),
        "customer_id_invalid",
    ),
    ("003-39 memo", "clerk", ("memo: 7", ""), "schema_invalid"),
    (
        "003-27 003-33 003-61 used",
        "clerk",
        ("", "calls_used: 1"),
        "budget_calls_exceeded",
    ),
];

/// 003-21 … 003-34, 003-39, 003-54 … 003-61: the documents' example, code by code; all of it is as
/// expected, and says so with exit code 0.
#[test]
fn the_example_of_the_documents_is_as_expected() {
    let samples: String = DOCUMENT_ROWS
        .iter()
        .map(|(name, caller, (more, state), expect)| {
            let gone = more.strip_prefix("-gone ");
            let text = sample(
                name,
                caller,
                (gone.map_or(*more, |_| "gone"), state),
                expect,
            );
            gone.map_or(text.clone(), |key| without(&text, key))
        })
        .collect();
    let unknown = "  - { name: 003-21 no contract, caller: clerk, tool: billing__drop, expect: tool_not_allowlisted }\n";
    let directory = stage(&format!("{PACK_HEAD}{samples}{unknown}"));
    let (out, code) = test(directory.path(), &["--coverage"]);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("coverage of invoice: 9 of 11 answers"),
        "{out}"
    );
    let missing = |line: &&str| line.contains("no sample reaches");
    assert!(
        out.lines()
            .filter(missing)
            .all(|line| line.contains(" billing__undo ")),
        "{out}"
    );
    assert!(
        out.ends_with("ok: 1 pack, 18 samples, all as expected\n"),
        "{out}"
    );
}

/// The sample without the argument `key`.
fn without(text: &str, key: &str) -> String {
    let line = |line: &str| {
        let Some((before, rest)) = line.split_once(&format!("{key}: ")) else {
            return line.replace(", gone", "");
        };
        let after = rest.split_once(", ").map_or(" }", |(_, after)| after);
        format!("{before}{after}").replace(", gone", "")
    };
    text.lines().map(|one| if one.contains("arguments:") { line(one) } else { one.to_owned() } + "\n").collect()
}

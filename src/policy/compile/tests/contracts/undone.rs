//! Of what changes something: who may call it, and how it is undone.

use super::*;
use crate::guards::rollback::Undo;

/// 003-15, 003-47: what changes something says who may call it; nobody is let in by a line that was
/// left out or left empty.
#[test]
fn who_may_change_something_is_said() {
    for (action, permission, message) in [
        ("write", "", "missing `permission`"),
        ("notify", "", "missing `permission`"),
        ("delete", "", "missing `permission`"),
        ("pay", "", "missing `permission`"),
        ("grant", "", "missing `permission`"),
        ("write", "permission: {}", "missing `permission`"),
        ("write", "permission: { roles: [] }", "missing `permission`"),
        ("write", "owner_only: false", "missing `permission`"),
        (
            "write",
            "permission: anybody",
            "`anybody` does not say who may call",
        ),
        ("write", "permission: anyone", ""),
        ("write", "permission: { tenant: /tenant }", ""),
        ("write", "owner_only: true", ""),
        ("read", "", ""),
        ("read", "permission: anyone", ""),
    ] {
        let effect = if action == "read" {
            ""
        } else {
            "irreversible: true,"
        };
        let section = if permission.is_empty() {
            String::new()
        } else {
            format!("{permission},")
        };
        let shown = said(&format!(
            "  fs__a: {{ purpose: p, actions: [{action}], {section} {effect} secrets: [] }}"
        ));
        assert_eq!(
            shown.matches("error:").count(),
            usize::from(!message.is_empty()),
            "{action} {permission}: {shown}"
        );
        assert!(shown.contains(message), "{action} {permission}: {shown}");
        if !message.is_empty() {
            assert!(
                shown.contains("`anyone`") || shown.contains("permission: anyone"),
                "{shown}"
            );
        }
    }
    // A case has it from its contract, or says it itself.
    let with = |whole: &str, case: &str| {
        said(&format!(
            "  fs__a: {{ purpose: p, actions: [read, write], irreversible: true, {whole} secrets: [], \
             variants: {{ by: /do, cases: {{ list: {{ actions: [read] }}, put: {{ actions: [write] {case} }} }} }} }}"
        ))
    };
    assert_eq!(with("permission: anyone,", ""), "");
    assert_eq!(with("", ", permission: { roles: [writer] }"), "");
    let shown = with("", "");
    assert!(
        shown.contains("error: missing `permission`") && shown.matches("error:").count() == 1,
        "{shown}"
    );
}

/// 003-19, 003-52, 003-64, 003-98: a way back is a call of the same server that can be made, or
/// there is none.
#[test]
fn a_way_back_that_leads_nowhere_does_not_load() {
    let effect = |effect: &str| {
        format!(
            "fs__a: {{ purpose: p, actions: [write], permission: anyone, secrets: [], side_effect: {{ {effect} }} }}"
        )
    };
    let back = |tool: &str| effect(&format!("writes: x, rollback: {{ tool: {tool} }}"));
    let with = |id: &str| {
        effect(&format!(
            "writes: x, rollback: {{ tool: fs__b, arguments: {{ id: {id} }} }}"
        ))
    };
    let both = format!(
        "fs__a: {{ {WRITE_CONTRACT}, side_effect: {{ writes: x, rollback: {{ tool: fs__b }} }} }}"
    );
    do_not_load(&[
        (
            both,
            "says otherwise than `side_effect.rollback` how the effect is undone",
            "keep the one that is true",
        ),
        (
            effect("writes: x"),
            "missing one of `side_effect.rollback`",
            "rollback",
        ),
        (
            back("fs__no"),
            "`fs__no` has no contract",
            "write its contract",
        ),
        (back("fs__look"), "`fs__look` changes nothing", ""),
        (back("billing__b"), "a tool of another server", ""),
        (
            with("result#id"),
            "`result#` is followed by no JSON pointer",
            "action#",
        ),
        (with("action#/id"), "`action#` is followed by no", ""),
        (
            with("[reslt#/id]"),
            "warning: `reslt#` stands for nothing",
            "",
        ),
    ]);
    assert_eq!(
        said(&format!(
            "  {}\n  fs__b: {{ {WRITE_CONTRACT} }}",
            with("[result#/id, arguments#/a/b, action#, c#]")
        )),
        ""
    );
}

/// The section of each word for undoing, and the word as run.
const WORDS: [(&str, &str, &str); 4] = [
    (
        "side_effect.rollback",
        "side_effect: { writes: x, rollback: { tool: fs__b } }",
        "call fs__b",
    ),
    (
        "side_effect.rollback",
        "side_effect: { writes: x, rollback: { manual: restore it from version control } }",
        "by hand: restore it from version control",
    ),
    ("additive", "additive: true", "not needed: nothing is lost"),
    ("irreversible", "irreversible: true", "impossible"),
];

fn undone(actions: &str, sections: &str) -> String {
    format!(
        "  fs__a: {{ purpose: p, actions: [{actions}], permission: anyone, secrets: [], {sections} }}\n  fs__b: {{ {WRITE_CONTRACT} }}"
    )
}

/// 003-19, 003-52, 003-98: one word says how a write is undone, and a person is asked only where
/// nothing undoes it.
#[test]
fn a_write_is_undone_in_one_of_four_words() {
    for (_, section, words) in WORDS {
        let policy = policy(&undone("write", section));
        let rules = policy
            .allowlist
            .contract_of(&ToolName::new("fs__a"))
            .unwrap();
        assert_eq!(rules.undo.words().as_deref(), Some(words), "{section}");
        assert_eq!(
            rules.approval.is_some(),
            rules.undo.is_irreversible(),
            "{section}"
        );
    }
}

/// 003-19: two words are one too many, whichever they are; the last of them is told.
#[test]
fn two_words_for_undoing_do_not_load() {
    for (index, (one, section, _)) in WORDS.iter().enumerate().skip(1) {
        for (other, more, _) in WORDS[..index].iter().filter(|(other, ..)| other != one) {
            let shown = said(&undone("write", &format!("{section}, {more}")));
            assert!(
                shown.contains("says otherwise than"),
                "{one} {other}: {shown}"
            );
            assert_eq!(shown.matches("error:").count(), 1, "{one} {other}: {shown}");
        }
    }
}

/// 003-19, 003-64: a word that says nothing, or nothing that can be true.
#[test]
fn a_word_for_undoing_that_says_nothing_does_not_load() {
    let rollback =
        |rollback: &str| format!("side_effect: {{ writes: x, rollback: {{ {rollback} }} }}");
    for (actions, section, message) in [
        (
            "write",
            rollback(""),
            "names nothing that takes the effect back",
        ),
        ("write", rollback("manual: \" \""), "is blank"),
        (
            "write",
            rollback(&format!("manual: {}", "x".repeat(201))),
            "longer than 200 characters",
        ),
        (
            "write",
            rollback("tool: fs__b, manual: by hand"),
            "has a `tool`, and `manual` as well",
        ),
        (
            "write",
            rollback("manual: by hand, arguments: { id: 1 }"),
            "belong to a call, and there is no `tool`",
        ),
        ("write", "additive: false".to_owned(), "missing one of"),
        (
            "delete",
            "additive: true".to_owned(),
            "yet `delete` takes something away",
        ),
        (
            "pay",
            "additive: true".to_owned(),
            "yet `pay` takes something away",
        ),
        (
            "read",
            "additive: true".to_owned(),
            "only `read`, yet the contract tells of an effect",
        ),
    ] {
        let shown = said(&undone(actions, &section));
        assert!(shown.contains(message), "{section}: {shown}");
        assert_eq!(shown.matches("error:").count(), 1, "{section}: {shown}");
    }
}

/// 002-32, 003-19: a case has the contract's word, or its own in its place.
#[test]
fn a_case_has_one_word_for_undoing() {
    let with = |whole: &str, case: &str| {
        format!(
            "  fs__a: {{ purpose: p, actions: [write, delete], permission: anyone, {whole} secrets: [], variants: {{ by: /do, cases: {{ \
             add: {{ actions: [write] }}, drop: {{ actions: [delete] {case} }} }} }} }}\n  fs__b: {{ {WRITE_CONTRACT} }}"
        )
    };
    let undo = |whole: &str, case: &str| {
        let policy = policy(&with(whole, case));
        let rules = policy
            .allowlist
            .contract_of(&ToolName::new("fs__a"))
            .cloned();
        let rules = rules.unwrap();
        let cases = rules.variants.as_ref().unwrap().cases();
        cases
            .map(|(_, rules)| rules.undo.clone())
            .collect::<Vec<_>>()
    };
    let manual = ", side_effect: { writes: x, rollback: { manual: from the bin } }";
    assert_eq!(
        undo("additive: true,", manual),
        [Undo::Additive, Undo::Manual("from the bin".to_owned())]
    );
    assert_eq!(
        undo("irreversible: true,", ""),
        [Undo::Irreversible, Undo::Irreversible]
    );
    let shown = said(&with("additive: true,", ""));
    assert!(
        shown.contains("yet `delete` takes something away"),
        "{shown}"
    );
}

/// 003-64, 003-P4a: a rollback that its tool's contract would refuse is none; what is known of the
/// server's own schema is tried in `tests/it/contracts/undo.rs`.
#[test]
fn a_rollback_that_the_contract_of_its_tool_refuses_does_not_load() {
    let with = |arguments: &str, section: &str| {
        said(&format!(
            "  fs__a: {{ purpose: p, actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: x, rollback: {{ tool: fs__c, \
             arguments: {{ {arguments} }} }} }} }}\n  fs__c: {{ {WRITE_CONTRACT}, {section} }}"
        ))
    };
    let closed =
        "arguments: { required: [id], properties: { id: {} }, additionalProperties: false }";
    for (arguments, section, message) in [
        ("id: result#/id", closed, ""),
        ("", closed, "`fs__c` requires `id`, which it leaves unset"),
        ("id: 1, idd: 2", closed, "`fs__c` has no argument `idd`"),
        ("id: 1, idd: 2", "arguments: { properties: { id: {} } }", ""),
        (
            "",
            "arguments: { required: [ref] }, idempotency: { upstream: { argument: ref } }",
            "",
        ),
    ] {
        let shown = with(arguments, section);
        assert_eq!(
            shown.contains("error: the rollback can't be called: "),
            !message.is_empty(),
            "{arguments}: {shown}"
        );
        assert!(shown.contains(message), "{arguments}: {shown}");
    }
}

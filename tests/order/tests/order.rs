//! Each step of the gate's order taken out, and each pair of neighbours swapped: none of it
//! compiles, and the compiler's reason is that the next step is given a state which the step before
//! it has not left.

#![expect(
    clippy::unwrap_used,
    reason = "what cannot be read or written is a failure"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// The steps of `run`, as the file has them.
const STEPS: [&str; 14] = [
    "visible", "judge", "rewrite", "place", "watch", "key", "look", "confirm", "fund", "approve",
    "fence", "begin", "seal", "send",
];
/// Those of `judged`.
const JUDGED: [&str; 3] = ["arguments", "permission", "rules"];

/// A step's call in the text: from its receiver to the question mark, or to the end of the line.
struct Call<'t> {
    text: &'t str,
    step: &'t str,
    /// What it is given.
    state: &'t str,
}

fn source() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/gate/pipeline.rs");
    fs::read_to_string(path).unwrap()
}

/// The text of a function, from its name to its closing brace.
fn body<'t>(source: &'t str, name: &str) -> &'t str {
    let start = source.find(&format!("fn {name}<")).unwrap();
    let end = start + source[start..].find("\n}\n").unwrap();
    &source[start..end]
}

fn call<'t>(body: &'t str, receiver: &str, step: &'t str) -> Call<'t> {
    let dot = body.find(&format!(".{step}(")).unwrap();
    let start = if body[..dot].ends_with(receiver) {
        dot - receiver.len()
    } else {
        body[..dot].rfind(&format!("{receiver}.")).unwrap()
    };
    let open = dot + step.len() + 2;
    let close = open + body[open..].find(')').unwrap();
    let rest = &body[close + 1..];
    let end = close + 1 + rest.find(['?', ';', '\n']).unwrap_or(rest.len());
    let end = end + usize::from(body[end..].starts_with('?'));
    Call {
        text: &body[start..end],
        step,
        state: &body[open..close],
    }
}

/// The file with the step taken out: its state goes to the next one as it is.
fn without(source: &str, body: &str, call: &Call<'_>) -> String {
    let state = call.state;
    let passed = match call.step {
        "approve" | "begin" => format!("Turn::<_, W::Keyed>::On({state})"),
        "send" | "rules" => format!("Ok({state})"),
        _ => state.to_owned(),
    };
    source.replacen(body, &body.replacen(call.text, &passed, 1), 1)
}

/// The file with two steps swapped; each is given what the other was.
fn swapped(source: &str, body: &str, one: &str, other: &str) -> String {
    let named = |step: &str| format!(".{step}(");
    let changed = body
        .replacen(&named(one), ".swapped_step(", 1)
        .replacen(&named(other), &named(one), 1)
        .replacen(".swapped_step(", &named(other), 1);
    source.replacen(body, &changed, 1)
}

fn mutants(source: &str) -> Vec<(String, String)> {
    let mut mutants = Vec::new();
    for (function, receiver, steps) in [
        ("run", "world", &STEPS[..]),
        ("judged", "judge", &JUDGED[..]),
    ] {
        let body = body(source, function);
        for step in steps {
            let text = without(source, body, &call(body, receiver, step));
            mutants.push((format!("{function}_without_{step}"), text));
        }
        for pair in steps.windows(2) {
            let text = swapped(source, body, pair[0], pair[1]);
            mutants.push((format!("{function}_{}_after_{}", pair[0], pair[1]), text));
        }
    }
    mutants
}

/// Every step of the file is among those that are taken out.
#[test]
fn every_step_is_known() {
    let source = source();
    let of_trait = |name: &str| {
        let start = source.find(&format!("pub trait {name}")).unwrap();
        let end = start + source[start..].find("\n}\n").unwrap();
        source[start..end].matches("    fn ").count()
    };
    // `at` says which step begins, and is none.
    assert_eq!(of_trait("World"), STEPS.len() + 1);
    assert_eq!(of_trait("Judge"), JUDGED.len());
}

/// guarantees §2: an order with a step less, or with two in each other's place, is no
/// program.
#[test]
fn no_other_order_compiles() {
    let source = source();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("order");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(format!("{name}.rs"));
        fs::write(
            &path,
            format!("#![allow(dead_code)]\n{text}\nfn main() {{}}\n"),
        )
        .unwrap();
        path
    };
    let plain = source.replace("//! ", "// ").replace("//!\n", "//\n");
    let cases = trybuild::TestCases::new();
    cases.pass(file("the_order_itself", &plain));
    let mutants = mutants(&plain);
    assert_eq!(mutants.len(), 14 + 13 + 3 + 2);
    for (name, text) in &mutants {
        assert_ne!(*text, plain, "{name}");
        cases.compile_fail(file(name, text));
    }
    drop(cases);
    for (name, _) in &mutants {
        let said = fs::read_to_string(folder.join(format!("{name}.stderr"))).unwrap();
        assert!(
            said.contains("E0308"),
            "{name} fails for another reason:\n{said}"
        );
    }
}

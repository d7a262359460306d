//! Each step of the gate's order taken out, and each pair of neighbours swapped: none of it
//! compiles, and the compiler's reason is that the next step is given a state which the step before
//! it has not left.

#![expect(
    clippy::unwrap_used,
    reason = "what cannot be read or written is a failure"
)]

use std::fs;
use std::path::{Path, PathBuf};

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

/// The steps that a trait names, in their order. `at` says which step begins, and is none.
fn steps<'t>(source: &'t str, name: &str) -> Vec<&'t str> {
    let start = source.find(&format!("pub trait {name}")).unwrap();
    let end = start + source[start..].find("\n}\n").unwrap();
    source[start..end]
        .split("    fn ")
        .skip(1)
        .map(|rest| rest.split('(').next().unwrap())
        .filter(|step| *step != "at")
        .collect()
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
    for (function, receiver, named) in [("run", "world", "World"), ("judged", "judge", "Judge")] {
        let (body, steps) = (body(source, function), steps(source, named));
        for step in &steps {
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

/// The steps are called in the order in which the traits name them, each once.
#[test]
fn every_step_is_taken_in_its_order() {
    let source = source();
    for (function, receiver, named, least) in [
        ("run", "world", "World", 14),
        ("judged", "judge", "Judge", 3),
    ] {
        let (body, steps) = (body(&source, function), steps(&source, named));
        assert!(steps.len() >= least, "{named} has lost a step: {steps:?}");
        let places: Vec<usize> = steps
            .iter()
            .map(|step| {
                let call = call(body, receiver, step);
                assert_eq!(body.matches(&format!(".{step}(")).count(), 1, "{step}");
                body.find(call.text).unwrap()
            })
            .collect();
        assert!(places.is_sorted(), "{named}: {steps:?} stand at {places:?}");
    }
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
    let (run, judged) = (steps(&plain, "World").len(), steps(&plain, "Judge").len());
    assert_eq!(mutants.len(), run + (run - 1) + judged + (judged - 1));
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

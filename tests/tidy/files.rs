//! Files: what each is for, how long it may be, and which lints it may leave out.

use super::{every, report, sources};

const LINES_AT_MOST: usize = 400;
const LINES_MEDIAN: usize = 140;
const LINES_NINE_OF_TEN: usize = 320;

#[test]
fn exceptions_to_lints_give_a_reason() {
    let mut broken = Vec::new();
    for source in every(["src", "tests/it", "examples/servers/src"]) {
        let lines = source.text.lines().enumerate();
        let found =
            lines.filter(|(_, line)| line.contains("#[allow(") || line.contains("#![allow("));
        broken.extend(found.map(|(index, _)| format!("{}:{}", source.path, index + 1)));
    }
    report("a lint is expected with a reason, not allowed", broken);
}

#[test]
fn files_say_what_they_are_for() {
    let all = every(["src", "tests", "examples/servers"]);
    let silent = all.iter().filter(|source| !source.text.starts_with("//! "));
    report(
        "a file begins with `//!` and what it is for",
        silent.map(|source| source.path.clone()).collect(),
    );
}

#[test]
fn files_are_short() {
    let all = every([
        "src",
        "tests",
        "bench",
        "examples/servers",
        "fuzz/src",
        "fuzz/fuzz_targets",
    ]);
    let sizes = all.iter().map(|source| (source.code().count(), source));
    let long = sizes.filter(|(lines, _)| *lines > LINES_AT_MOST);
    report(
        &format!("a file has at most {LINES_AT_MOST} lines of code without the tests in it"),
        long.map(|(lines, source)| format!("{}: {lines}", source.path))
            .collect(),
    );
    let sources = sources("src");
    let mut sizes: Vec<usize> = sources.iter().map(|source| source.code().count()).collect();
    sizes.sort_unstable();
    let (median, tenth) = (sizes[sizes.len() / 2], sizes[sizes.len() * 9 / 10]);
    assert!(
        median <= LINES_MEDIAN,
        "half of the files are longer than {median} lines"
    );
    assert!(
        tenth <= LINES_NINE_OF_TEN,
        "one file of ten is longer than {tenth} lines"
    );
}

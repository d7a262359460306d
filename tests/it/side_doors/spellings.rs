//! One letter, many ways to write it (threat-model §3C C3): a `deny` holds against all of them, and
//! an `allow` lets in what it names and nothing else.

use super::*;
use std::fmt::Write as _;

/// What stands before the letter: a path of files, a path of something else, a query.
const PLACES: &[&str] = &["file:///srv/docs/", "repo://o/r/", "repo://o/r?q="];
/// Letters that Unicode spells in two ways: composed, and not.
const SPELT: &[(&str, &str)] = &[
    ("\u{e9}", "e\u{301}"),
    ("\u{c5}", "\u{212b}"),
    ("K", "\u{212a}"),
    ("\u{ac00}", "\u{1100}\u{1161}"),
];

/// `letter` with each byte encoded, in small or capital digits, after `percent`.
fn encoded(letter: &str, percent: &str, small: bool) -> String {
    letter.bytes().fold(String::new(), |mut text, byte| {
        if small {
            write!(text, "{percent}{byte:02x}")
        } else {
            write!(text, "{percent}{byte:02X}")
        }
        .unwrap();
        text
    })
}

/// One letter at one place.
struct SpellingCase {
    place: &'static str,
    /// How patterns write it; none if no URI can hold it.
    patterns: Vec<String>,
    /// How a URI writes it, and which of `patterns` that is; none for what has more than one
    /// reading.
    ways: Vec<(String, Option<usize>)>,
    /// Makes the name that it stands in this letter's own.
    number: usize,
}

impl SpellingCase {
    fn ascii(place: &'static str, letter: char, number: usize) -> Self {
        let (text, in_path, of_file) = (
            letter.to_string(),
            !place.contains('?'),
            place.starts_with("file"),
        );
        let (small, large) = (encoded(&text, "%", true), encoded(&text, "%", false));
        let plain_only = letter.is_ascii_alphanumeric()
            || "-._~!$'(),:@".contains(letter)
            || (in_path && "&+;=".contains(letter));
        let both = "/&+;=".contains(letter) || ("?#".contains(letter) && !of_file);
        let patterns = match letter {
            '\0'..='\u{1f}' | '\u{7f}' | '\\' => Vec::new(),
            _ if plain_only => vec![text.clone()],
            _ if both => vec![text.clone(), large.clone()],
            _ => vec![large.clone()],
        };
        let last = patterns.len().checked_sub(1);
        let plain = match letter {
            '*' => Some(0),
            _ if plain_only || both => Some(0),
            _ => None,
        };
        let mut ways = vec![(text.clone(), plain), (small, last), (large, last)];
        ways.extend([true, false].map(|small| (encoded(&text, "%25", small), None)));
        Self {
            place,
            patterns,
            ways,
            number,
        }
    }

    fn spelt(place: &'static str, (one, other): (&str, &str), number: usize) -> Self {
        let ways = [one, other].into_iter().flat_map(|text| {
            [
                text.to_owned(),
                encoded(text, "%", true),
                encoded(text, "%", false),
            ]
            .map(|way| (way, Some(0)))
        });
        let twice = [one, other].map(|text| (encoded(text, "%25", false), None));
        Self {
            place,
            patterns: vec![one.to_owned()],
            ways: ways.chain(twice).collect(),
            number,
        }
    }

    /// The URI, in the family of names that one pattern is of.
    fn uri(&self, family: &str, letter: &str) -> String {
        format!("{}{family}{}n{letter}.txt", self.place, self.number)
    }
}

/// The letters between the letters and digits of ASCII, some of these, and those that are spelt in
/// two ways.
fn cases() -> Vec<SpellingCase> {
    let letters = (0..0x80_u8).map(char::from);
    let letters: Vec<char> = letters
        .filter(|letter| !letter.is_ascii_alphanumeric() || "aZ7".contains(*letter))
        .collect();
    let ascii = PLACES.iter().flat_map(|place| {
        letters
            .iter()
            .enumerate()
            .map(|(at, one)| SpellingCase::ascii(place, *one, at))
    });
    let spelt = PLACES.iter().flat_map(|place| {
        SPELT
            .iter()
            .enumerate()
            .map(|(at, both)| SpellingCase::spelt(place, *both, 200 + at))
    });
    ascii.chain(spelt).collect()
}

/// Alice may read all but what is named, carol what is named only. The family tells which of the
/// patterns of a letter it is.
fn policy(cases: &[SpellingCase]) -> String {
    let named = cases.iter().flat_map(|case| {
        case.patterns
            .iter()
            .enumerate()
            .map(|(at, letter)| format!("docs__{}", case.uri(&format!("f{at}"), letter)))
    });
    let named = serde_json::to_string(&named.collect::<Vec<_>>()).unwrap();
    format!(
        "contracts: {{ docs__read: {{ purpose: t, actions: [read], secrets: [] }} }}\n\
         layers: {{ agent: {{ alice: {{ resources: {{ allow: [\"docs__*\"], deny: {named} }} }}, \
         carol: {{ resources: {{ allow: {named} }} }} }} }}\n"
    )
}

/// threat-model §13 F3, §3C C3: 69 letters of ASCII and 4 others at 3 places, plain and encoded in
/// small and capital digits, once and twice: no way to write what `deny` names arrives at the
/// server, what it does not name does, and `allow` opens every way to write what it names.
#[tokio::test]
async fn lane_of_letters_ways_to_write_them_and_verdicts() {
    let scripted = docs().await;
    let cases = cases();
    let gate = started(&scripted, &policy(&cases)).await;
    let [alice, carol] = [ALICE, CAROL].map(|token| gate.agent().token(token).at("/mcp/docs"));
    let (mut count, mut passed, mut wrong) = (0, 0, Vec::new());
    for case in &cases {
        for (way, read) in &case.ways {
            // Besides the two patterns there is a name that no pattern is of.
            for (family, named) in [("f0", Some(0)), ("f1", Some(1)), ("other", None)] {
                let named = named.filter(|at| *at < case.patterns.len());
                let uri = case.uri(family, way);
                // What is written with `%2F` must also be allowed with `/`.
                let is_slash = way.eq_ignore_ascii_case("%2f");
                let opens = [
                    (&alice, read.is_some() && named.is_none()),
                    (&carol, read.is_some() && *read == named && !is_slash),
                ];
                for (agent, passes) in opens {
                    scripted.forget();
                    agent
                        .post(&agent.request("resources/read", json!({ "uri": uri })))
                        .await
                        .whole()
                        .await;
                    let arrived = scripted.seen().len();
                    if arrived != usize::from(passes) {
                        let who = if std::ptr::eq(agent, &raw const alice) {
                            "denied"
                        } else {
                            "allowed"
                        };
                        wrong.push(format!("{who} {family}: {uri:?} should pass: {passes}"));
                    }
                    (count, passed) = (count + 1, passed + usize::from(passes));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    assert_eq!(
        (count, passed),
        (6_786, 1_008),
        "cases, and those that pass"
    );
}

/// threat-model §13 F3: `explain` decides as the gate does, and `check` says how a pattern is
/// written.
#[tokio::test]
async fn explain_and_check_read_letters_as_the_gate_does() {
    let scripted = docs().await;
    let gate = started(&scripted, &policy(&cases())).await;
    let denied = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\nlayers: { agent: { alice: { \
                  resources: { allow: [\"docs__*\"], deny: [\"docs__file:///srv/docs/f(1).txt\", \"docs__file:///srv/caf\u{e9}\"] } } } }\n";
    std::fs::write(gate.path("policy.yaml"), denied).unwrap();
    for uri in [
        "file:///srv/docs/f%281%29.txt",
        "file:///srv/docs/f(1%29.txt",
        "file:///srv/cafe\u{301}",
        "file:///srv/caf%C3%A9",
    ] {
        let named = format!("docs__{uri}");
        let args = ["explain", "--agent", "alice", "--resource", &named];
        let (code, said, _) = crate::harness::gate::run(&gate.setup, &args).await;
        assert!(
            code != 0 && said.contains("denied by `docs__file:///srv/"),
            "{uri}: {code} {said}"
        );
    }
    for (pattern, form) in [
        ("f%281%29.txt", "f(1).txt"),
        ("cafe\u{301}", "caf\u{e9}"),
        ("a%2ab", "a%2Ab"),
        ("a%2Bb*", "a+b*"),
    ] {
        std::fs::write(
            gate.path("policy.yaml"),
            denied.replace("f(1).txt", pattern),
        )
        .unwrap();
        let (code, said, wrong) = crate::harness::gate::run(&gate.setup, &["check"]).await;
        let said = said + &wrong;
        assert!(
            code == 1 && said.contains(&format!("write `docs__file:///srv/docs/{form}`")),
            "{pattern}: {code} {said}"
        );
    }
}

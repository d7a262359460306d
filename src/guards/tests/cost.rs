//! The cost lane: what hostile schemas, arguments, results and expressions take of a thread that
//! serves calls (threat-model §13 F3, §1: no message takes more than 100 ms of CPU).
//!
//! Each case is judged with a quarter of `work::INLINE_WORK_UNITS`, and the thread's CPU clock is
//! read around it: what a unit stands for may not take more than ten times its 10 ns, so that all
//! of `work::INLINE_WORK_UNITS` takes less than 100 ms. A debug build is many times slower than
//! what is served; how many times is measured first, with work whose time in a release build is
//! known.

#![expect(clippy::print_stdout, reason = "the lane says how many cases it ran")]

use super::super::Section as _;
use super::super::results::{self, Rule as Results};
use crate::expression::{ExpressionSetBuilder, LazyCaller};
use crate::guards::Mode;
use crate::mcp::json::{AGENT_JSON_LIMITS, SERVER_JSON_LIMITS, Text};
use crate::mcp::message::Message;
use crate::model::clock::Clock;
use crate::model::diagnostic::Problems;
use crate::model::reads::Profile;
use crate::model::scrub::Scrubber;
use crate::model::secret::Secret;
use crate::model::work::{self, WorkExceeded};
use crate::schema::normalize::normalize;
use crate::schema::{Quarantine, Schema};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

mod hostile;

use hostile::{HostileRng, arguments, schemas};

/// What a case may spend, and the CPU that this may take in a release build.
const CASE_WORK_UNITS: u64 = work::INLINE_WORK_UNITS / 4;
const CASE_CPU_MAX: Duration = Duration::from_millis(25);
/// The same for what is not counted: to compile a schema, to fit it to a profile.
const UNCOUNTED_CPU_MAX: Duration = Duration::from_millis(100);

fn cpu<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let before = Clock.of_thread();
    let done = work();
    (Clock.of_thread().saturating_sub(before), done)
}

/// How many times slower this build is than what is served, at least 1: by 100 values under 8 191
/// subschemas, which take 3.4 ms there.
fn slowness() -> f64 {
    let schema = hostile::ladder("allOf", 12, &json!({ "type": "integer" }));
    let plain = jsonschema::options().build(&schema).unwrap();
    let values = json!({ "v": vec![7; 100] });
    let took = (0..3)
        .map(|_| cpu(|| plain.is_valid(&values)).0)
        .min()
        .unwrap();
    (took.as_secs_f64() / 0.003_4).max(1.0)
}

/// threat-model §13 F3: no schema with any arguments takes more than its share; what takes more is
/// broken off, and what one value alone can take too long for is quarantined. 1 000 and more cases.
#[test]
fn hostile_schemas_and_arguments() {
    let (slow, mut dice) = (slowness(), HostileRng(0x2026_1122));
    let (mut cases, mut spent, mut quarantined, mut worst) = (0, 0, 0, (0.0, String::new()));
    for (name, schema) in schemas(&mut dice) {
        let (took, compiled) = cpu(|| Schema::compile(&schema));
        assert!(
            took < UNCOUNTED_CPU_MAX.mul_f64(5.0 * slow),
            "{name} is compiled in {took:?}"
        );
        let schema = match compiled {
            Ok(schema) => schema,
            Err(Quarantine::TooCostly | Quarantine::TooManyExpansions) => {
                quarantined += 1;
                continue;
            }
            Err(reason) => panic!("{name} is not what it should be: {reason}"),
        };
        // The first call compiles it, where calls are served.
        let (took, _) =
            cpu(|| work::within(CASE_WORK_UNITS, || schema.accepts(&json!({ "v": 1 }))));
        assert!(
            took < (UNCOUNTED_CPU_MAX + CASE_CPU_MAX).mul_f64(slow),
            "{name} is compiled for its first call in {took:?}"
        );
        for (of, arguments) in arguments(&mut dice) {
            let (took, ended) =
                cpu(|| work::within(CASE_WORK_UNITS, || schema.accepts(&arguments)));
            let share = took.as_secs_f64() / (CASE_CPU_MAX.as_secs_f64() * slow);
            assert!(
                share < 1.0,
                "{name} on {of}: {took:?} at {slow:.1} × slower, {ended:?}"
            );
            worst = if share > worst.0 {
                (share, format!("{name} on {of}: {ended:?}"))
            } else {
                worst
            };
            spent += usize::from(ended == Err(WorkExceeded));
            cases += 1;
        }
    }
    println!(
        "{cases} cases, {spent} broken off, {quarantined} schemas quarantined; {slow:.1} × slower, worst {worst:?}"
    );
    assert!(
        cases >= 1_000 && spent >= 100 && quarantined >= 5,
        "{cases} {spent} {quarantined}"
    );
}

/// threat-model §13 F3: fitting a schema to a profile and back takes no more, for every profile.
#[test]
fn hostile_schemas_in_profiles() {
    let (slow, mut dice, mut cases) = (slowness(), HostileRng(7), 0);
    let profiles = [
        Profile::Portable,
        Profile::OpenaiStrict,
        Profile::Gemini,
        Profile::Anthropic,
    ];
    for (name, schema) in schemas(&mut dice).into_iter().step_by(4) {
        for profile in profiles {
            let (took, normal) = cpu(|| normalize(&schema, profile));
            assert!(
                took < UNCOUNTED_CPU_MAX.mul_f64(slow),
                "{name} for {profile}: {took:?}"
            );
            cases += 1;
            let Ok(normal) = normal else { continue };
            for (of, arguments) in arguments(&mut dice).into_iter().step_by(7) {
                let (took, ()) = cpu(|| drop(normal.back.read(&arguments)));
                assert!(
                    took < UNCOUNTED_CPU_MAX.mul_f64(slow),
                    "{name} for {profile} back from {of}: {took:?}"
                );
                cases += 1;
            }
        }
    }
    println!("{cases} cases");
    assert!(cases >= 100, "{cases}");
}

/// threat-model §13 F3: neither do results that are checked by the tool's own schema and redacted.
#[test]
fn hostile_results() {
    let (slow, mut dice, mut cases) = (slowness(), HostileRng(99), 0);
    let redactions = json!({ "redact": [
        { "pattern": "1[01]{400}[^01]" }, { "pattern": r"(?i)[\w.]+@[\w.]+" }, { "pointer": "/v/*" }, { "pointer": "/v/*/a" },
    ] });
    let mut problems = Problems::default();
    let settings: results::Settings = serde_json::from_value(redactions).unwrap();
    let rule: Results = settings.compile(&mut problems);
    assert_eq!(problems.into_found().len(), 0);
    let outputs: Vec<_> = schemas(&mut dice).into_iter().step_by(5).collect();
    for (name, schema) in outputs {
        let output = Some(Schema::compile(&schema));
        for (of, structured) in arguments(&mut dice) {
            let said = structured["v"].to_string();
            let texts: Vec<_> = (0..50)
                .map(|n| json!({ "type": "text", "text": format!("{n} {}", &said[..said.len().min(2_000)]) }))
                .collect();
            let body = Text::of(&json!({ "structuredContent": structured, "content": texts }));
            let answer = Message::response(
                None,
                Text::read(body.bytes(), &SERVER_JSON_LIMITS).unwrap(),
                false,
            );
            let (took, _) = cpu(|| {
                work::within(CASE_WORK_UNITS, || {
                    rule.shape(answer, Mode::Enforce, output.as_ref())
                })
            });
            assert!(
                took < (CASE_CPU_MAX + UNCOUNTED_CPU_MAX).mul_f64(slow),
                "{name}, {of}: {took:?} at {slow:.1} × slower"
            );
            cases += 1;
        }
    }
    println!("{cases} cases");
    assert!(cases >= 200, "{cases}");
}

const EXPRESSIONS: &[&str] = &[
    "arguments.v.all(x, x >= 0)",
    "arguments.v.map(x, x).size() > 3",
    "arguments.v.filter(x, x in [1, 2, 3]).size() > 3",
    "arguments.v.map(x, arguments.v).size() > 1",
    "arguments.v.map(x, [arguments.v, arguments.w]).size() > 1",
    "arguments.v.all(x, arguments.v == arguments.w)",
    "arguments.v.map(x, arguments).size() > 1",
    "arguments.v + arguments.v + arguments.w == arguments.v",
    "arguments.v.exists(x, re(x, '1[01]{400}[^01]'))",
    "arguments.t.matches('(a|b|ab)*c')",
    "arguments.t.contains(arguments.u)",
    "arguments.t + arguments.t + arguments.u != ''",
    "arguments.v.exists_one(x, string(x) == arguments.u)",
];

/// Lists and texts that expressions look through, each in several sizes.
fn looked_through() -> Vec<Value> {
    let lists = |value: Value, many: usize| json!({ "v": vec![value.clone(); many], "w": vec![value; many] });
    let texts = |many: usize| json!({ "v": vec!["10"; many / 64], "t": "ab".repeat(many), "u": "b".repeat(many / 2) });
    let all = [1, 100, 3_500].map(|many| {
        [
            lists(json!(1), many),
            lists(json!([1]), many / 2),
            lists(json!("110"), many),
        ]
    });
    all.into_iter()
        .flatten()
        .chain([10, 1_000, 20_000].map(texts))
        .collect()
}

/// threat-model §13 F3: neither do expressions, whatever they look through; what everyday arguments
/// need is not broken off.
#[test]
fn hostile_expressions() {
    let (slow, mut cases) = (slowness(), 0);
    let all = looked_through();
    let caller = crate::model::caller::Caller::named("bot");
    let mut broken = 0;
    for source in EXPRESSIONS {
        let (mut gathering, mut problems) = (ExpressionSetBuilder::default(), Problems::default());
        let Some((_, compiled)) = gathering.read(source, &mut problems) else {
            continue;
        };
        let (reading, _) = gathering.finish();
        for arguments in &all {
            let seen = LazyCaller::new(&caller);
            let judge = || {
                reading
                    .sight(&seen, arguments)
                    .map(|sight| sight.verdict(&compiled))
            };
            let (took, ended) = cpu(|| work::within(CASE_WORK_UNITS, judge));
            let length = arguments.to_string().len();
            assert!(
                took < CASE_CPU_MAX.mul_f64(slow),
                "{source} on {length} bytes: {took:?} at {slow:.1} × slower"
            );
            assert!(
                length > 4_000 || work::within(work::INLINE_WORK_UNITS, judge).is_ok(),
                "{source} on {length} bytes is everyday's"
            );
            broken += usize::from(ended == Err(WorkExceeded));
            cases += 1;
        }
    }
    println!("{cases} cases, {broken} broken off");
    assert!(cases >= 100 && broken >= 5, "{cases} {broken}");
}

/// threat-model §13 F3: neither does reading what is long, an eighth of the longest here.
#[test]
fn long_messages() {
    const LENGTH_DIVISOR: usize = 8;
    let (slow, mut cases, whole) = (slowness(), 0, UNCOUNTED_CPU_MAX / 8);
    let filled = |one: &str, longest: usize| {
        format!("[{}]", vec![one; (longest - 2) / (one.len() + 1)].join(","))
    };
    let shapes = [
        "1",
        "[]",
        r#"{"a":1}"#,
        r#""\u00e9""#,
        r#""%25%25""#,
        "1.25e-7",
        r#""a\\\\nb""#,
        r#"{"Ab":1,"\u00c9b":2}"#,
    ];
    let secret = Secret::new("a-secret-of-24-characters".to_owned());
    let scrubber = Scrubber::new([("s", &secret)]);
    for one in shapes {
        for limits in [AGENT_JSON_LIMITS, SERVER_JSON_LIMITS] {
            let text = filled(
                one,
                limits.bytes.min(limits.nodes / 3 * (one.len() + 1)) / LENGTH_DIVISOR,
            );
            let bytes = Bytes::from(text);
            let (took, read) = cpu(|| Text::read(bytes.clone(), &limits).unwrap());
            let (value_took, _) = cpu(|| read.value());
            let (scrub_took, _) = cpu(|| scrubber.find(&[&bytes]));
            println!(
                "{one}, {} bytes: read {took:?}, value {value_took:?}, scrubbed {scrub_took:?}; {slow:.1} ×",
                bytes.len()
            );
            assert!(
                took < whole.mul_f64(slow) && value_took < (whole * 2).mul_f64(slow),
                "{one}: {took:?} {value_took:?}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 16);
}

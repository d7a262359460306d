//! Scenarios of `toolgate test`: what the screens say, and what makes it fail.

use super::{Args, run_into};
use clap::Parser as _;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

mod documents;
mod hostile_names;
mod rollbacks;
mod secrets;

#[derive(Debug, clap::Parser)]
struct TestCli {
    #[command(flatten)]
    args: Args,
}

/// The documents' example (003-21 … 003-31), with the script's values (003-30, 003-54 … 003-61).
const POLICY: &str = r#"
contracts:
  billing__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: invoices, rollback: { manual: by hand } } }
  billing__create_invoice:
    purpose: Create a draft invoice for the caller's tenant.
    actions: [write]
    permission: { roles: [billing_admin], tenant: /tenant_id }
    arguments: { properties: { memo: { type: string, maxLength: 20 } } }
    rules:
      - { code: amount_out_of_range, when: "!has(arguments.amount) || type(arguments.amount) != int || arguments.amount < 1 || arguments.amount > 5000000" }
      - { code: currency_not_allowed, when: "!has(arguments.currency) || !(arguments.currency in ['CNY', 'USD'])" }
      - { code: customer_id_invalid, when: "!has(arguments.customer_id) || size(arguments.customer_id) < 1 || size(arguments.customer_id) > 64" }
    idempotency: { derive: [/tenant_id, /customer_id, /amount], ttl: 1h }
    budget: { max_calls_per_task: 1, timeout_ms: 3000, cost: 1 }
    side_effect: { writes: "invoices(draft)", rollback: { tool: billing__undo } }
    secrets: []
"#;

const PACK_HEAD: &str = "pack: invoice
policies: [../policy.yaml]
callers:
  clerk: { agent: support-bot, tenant: t_001, roles: [billing_admin] }
  reader: { agent: support-bot, tenant: t_001, roles: [viewer] }
samples:
";

/// The legal call (003-31) by a caller, with something else at its end, and what is expected.
fn sample(name: &str, caller: &str, (more, state): (&str, &str), expect: &str) -> String {
    let legal = "tenant_id: t_001, currency: CNY, amount: 1200, customer_id: c_123";
    let kept: Vec<&str> = legal
        .split(", ")
        .filter(|part| !more.contains(part.split(':').next().unwrap()))
        .collect();
    let arguments = [kept.join(", "), more.trim_start_matches('-').to_owned()]
        .into_iter()
        .filter(|part| !part.is_empty());
    let arguments = arguments
        .collect::<Vec<_>>()
        .join(", ")
        .replace(", gone", "");
    let state = if state.is_empty() {
        String::new()
    } else {
        format!("    state: {{ {state} }}\n")
    };
    format!(
        "  - name: {name}\n    caller: {caller}\n    tool: billing__create_invoice\n    arguments: {{ {arguments} }}\n{state}    \
         expect: {expect}\n"
    )
}

/// What every pack has to hold (003-38).
fn least() -> [String; 3] {
    [
        sample(
            "foreign",
            "clerk",
            ("tenant_id: t_999", ""),
            "tenant_mismatch",
        ),
        sample("memo", "clerk", ("memo: 7", ""), "schema_invalid"),
        sample(
            "second",
            "clerk",
            ("", "calls_used: 1"),
            "budget_calls_exceeded",
        ),
    ]
}

/// A directory with the example and this pack.
fn stage(pack: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("tests")).unwrap();
    fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
    fs::write(directory.path().join("tests/invoice.yaml"), pack).unwrap();
    directory
}

/// What is printed, without the directory and the policy's version, and the exit code.
fn test(directory: &Path, more: &[&str]) -> (String, u8) {
    let words = [&["test", directory.to_str().unwrap()], more].concat();
    let mut out = String::new();
    let code = run_into(&TestCli::parse_from(words).args, &mut out).unwrap();
    let version = regex::Regex::new(r#"(policy |"policy": ")[0-9a-f]{12}"#).unwrap();
    let out = out.replace(&format!("{}/", directory.display()), "");
    (version.replace_all(&out, "${1}VERSION").into_owned(), code)
}

fn wrong() -> String {
    let [foreign, memo, second] = least();
    [
        PACK_HEAD.to_owned(),
        foreign.replace("t_999", "t_001"),
        memo.replace(
            "expect: schema_invalid",
            "expect: rbac_denied\n    because: \"who may not write <memos> has no role & no say\"",
        ),
        second.replace("budget_calls_exceeded", "allow"),
        sample("legal", "clerk", ("", ""), "allow"),
    ]
    .concat()
}

/// 003-06, 003-35: a pack that is wrong on purpose gets each of the three verdicts, and exit code
/// 1.
#[test]
fn a_wrong_pack_gets_each_verdict() {
    let directory = stage(&wrong());
    let (out, code) = test(directory.path(), &["--coverage"]);
    assert_eq!(code, 1, "{out}");
    insta::assert_snapshot!(out);
    let (quiet, code) = test(directory.path(), &["--quiet"]);
    assert!(
        code == 1 && !quiet.contains("  ok ") && quiet.contains("UNEXPECTED PASS"),
        "{quiet}"
    );
}

/// What CI systems read says the same, whatever stands in the names.
#[test]
fn programs_read_the_same_verdicts() {
    let directory = stage(&wrong());
    let junit = directory.path().join("junit.xml");
    let (json, code) = test(
        directory.path(),
        &["--json", "--junit", junit.to_str().unwrap()],
    );
    assert_eq!(code, 1);
    insta::assert_snapshot!("json", json);
    let xml = fs::read_to_string(junit)
        .unwrap()
        .replace(&format!("{}/", directory.path().display()), "");
    insta::assert_snapshot!("junit", xml);
}

/// 003-38, 003-40, 003-116: packs that lack a sample of what has to be refused block the release; a
/// budget by count counts as a budget, and what the policy cannot refuse is not asked for.
#[test]
fn a_pack_without_the_least_samples_fails() {
    let of = |samples: &[&String]| {
        format!(
            "{PACK_HEAD}{}",
            samples.iter().map(|text| text.as_str()).collect::<String>()
        )
    };
    let [foreign, memo, second] = least();
    let (out, code) = test(stage(&of(&[&foreign, &memo, &second])).path(), &[]);
    assert_eq!(code, 0, "{out}");
    for (kept, lacks) in [
        ([&memo, &second], "`tenant_mismatch`"),
        ([&foreign, &second], "`schema_invalid`"),
        ([&foreign, &memo], "`budget_calls_exceeded`"),
    ] {
        let (out, code) = test(stage(&of(&kept)).path(), &[]);
        let words =
            format!("MISSING  no sample of invoice shows a call that is refused with {lacks}\n");
        assert!(
            code == 1 && out.contains(&words) && out.ends_with("2 samples: 1 MISSING\n"),
            "{out}"
        );
    }
    // What is expected in vain shows nothing.
    let (out, _) = test(
        stage(&of(&[&foreign.replace("t_999", "t_001"), &memo, &second])).path(),
        &[],
    );
    assert!(out.contains("1 UNEXPECTED PASS, 1 MISSING"), "{out}");
    let unlimited = POLICY
        .replace("max_calls_per_task: 1, ", "")
        .replace(", tenant: /tenant_id", "");
    let directory = stage(&of(&[&memo]));
    fs::write(directory.path().join("policy.yaml"), unlimited).unwrap();
    let (out, code) = test(directory.path(), &[]);
    assert_eq!(code, 0, "{out}");
}

/// A checkout below some `tests` has its packs where every other has them, and a folder of packs
/// can be named itself.
#[test]
fn where_a_checkout_lies_makes_no_packs_of_policies() {
    let around = tempfile::tempdir().unwrap();
    let checkout = around.path().join("tests/checkout");
    fs::create_dir_all(checkout.join("tests/deeper")).unwrap();
    fs::write(checkout.join("policy.yaml"), POLICY).unwrap();
    let pack = format!("{PACK_HEAD}{}", least().concat());
    fs::write(checkout.join("tests/invoice.yaml"), &pack).unwrap();
    fs::write(
        checkout.join("tests/deeper/more.yaml"),
        pack.replace("../policy", "../../policy"),
    )
    .unwrap();
    for (named, packs) in [
        ("", 2),
        ("tests", 2),
        ("tests/deeper", 1),
        ("tests/invoice.yaml", 1),
    ] {
        let (out, code) = test(&checkout.join(named), &[]);
        let many = if packs == 1 {
            "1 pack,".to_owned()
        } else {
            format!("{packs} packs,")
        };
        assert!(
            code == 0 && out.contains(&format!("ok: {many}")),
            "{named}: {out}"
        );
    }
}

/// Several packs of one policy need the samples together.
#[test]
fn packs_of_one_policy_count_together() {
    let [foreign, memo, second] = least();
    let directory = stage(&format!("{PACK_HEAD}{foreign}"));
    let other = format!("{PACK_HEAD}{memo}{second}").replace("pack: invoice", "pack: more");
    fs::write(directory.path().join("tests/more.yaml"), other).unwrap();
    let (out, code) = test(directory.path(), &["--quiet"]);
    assert_eq!(
        (out.as_str(), code),
        ("ok: 2 packs, 3 samples, all as expected\n", 0)
    );
}

/// All problems of a pack at once, each with its place; nothing of it is run.
#[test]
fn a_pack_that_cannot_be_used_says_why() {
    let broken = "pack: ''
policies: [../policy.yaml, ../absent.yaml]
servers: { billing: { tools: [ { name: create_invoice, inputSchema: { type: objet } }, { name: a, inputSchema: {} }, { name: a, inputSchema: {} } ] } }
callers:
  clerk: { agent: ' ', roles: [''], token: a-token-of-16-bytes }
  other: { agnet: bot }
samples:
  - { name: one, caller: clerk, tool: billing__create_invoice, expect: allow, state: { repeated: 40, cost_used: -1 } }
  - { name: one, caller: clerk, tool: billing__create_invoice, expect: allow, user: ' ada', state: { elapsed: soon } }
  - { name: two, caller: clerk, tool: billing__create_invoice, arguments: [] }
";
    let (out, code) = test(stage(broken).path(), &[]);
    assert_eq!(code, 1, "{out}");
    insta::assert_snapshot!("broken", out);
    let before = "pack: one\npolicies: [../policy.yaml]\ncallers: { clerk: { agent: bot, previous: [ { token: a-token-of-16-bytes } ] } }\nsamples: [ { name: a, caller: clerk, tool: billing__create_invoice, expect: allow } ]\n";
    let (out, code) = test(stage(before).path(), &[]);
    assert!(code == 1 && out.contains("proves who calls"), "{out}");
    let misplaced = "pack: one\nsecrets: [Bad]\nsamples: [ { name: a, caller: b, tool: c__d, expect: allow } ]\n";
    let (out, code) = test(stage(misplaced).path(), &[]);
    assert_eq!(code, 1, "{out}");
    insta::assert_snapshot!("misplaced", out);
    let unknown = "  - { name: a, caller: nobody, tool: billing__create_invoice, expect: allow }
  - { name: b, caller: clerk, tool: billing__create_invoice, expect: tenant_missmatch }
  - { name: c, caller: clerk, tool: billing__create_invoice, expect: outcome_unknown }
  - { name: d, caller: clerk, tool: billing__create_invoice, arguments: { memo: 7 }, expect: schema_invalid, repro: r-17 }
";
    let (out, code) = test(stage(&format!("{PACK_HEAD}{unknown}")).path(), &[]);
    assert_eq!(code, 1, "{out}");
    insta::assert_snapshot!("unknown", out);
}

/// Each part of a task's state has its limit, in the order of the gate (003-33, 003-40, 003-115).
#[test]
fn the_state_of_the_task_counts() {
    let policy = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  s__pay: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: s__undo } }, secrets: [], idempotency: { require: true }, budget: { max_calls_per_task: 3, cost: 2, rate: { calls: 2, per: 1m } } }
budgets: { global: { max_steps: 9, max_tool_calls: 8, max_cost: 10, max_duration: 5m, max_failures: 4, max_failures_in_a_row: 2, max_tool_failures: 3 } }
repetition: { warn: 2, stop: 3, refusals: 5 }
";
    let rows = [
        ("", "allow"),
        ("repeated: 2", "allow"),
        ("repeated: 3", "loop_detected"),
        ("refused: 5", "allow"),
        ("calls_used: 2", "allow"),
        ("calls_used: 3", "budget_calls_exceeded"),
        ("calls_now: 1", "allow"),
        ("calls_now: 2", "budget_exceeded"),
        ("steps_used: 9", "budget_exceeded"),
        ("tool_calls: 8", "budget_exceeded"),
        ("cost_used: 8", "allow"),
        ("cost_used: 8.5", "budget_exceeded"),
        ("elapsed: 299s", "allow"),
        ("elapsed: 5m", "budget_exceeded"),
        ("failures: 3", "allow"),
        ("failures: 4", "budget_exceeded"),
        ("failures_in_a_row: 2", "budget_exceeded"),
        ("tool_failures: 2", "allow"),
        ("tool_failures: 3", "budget_exceeded"),
    ];
    let mut pack =
        "pack: state\npolicies: [../policy.yaml]\ncallers: { bot: { agent: bot } }\nsamples:\n"
            .to_owned();
    for (state, expect) in rows {
        writeln!(
            pack,
            "  - {{ name: \"{state}.\", caller: bot, tool: s__pay, key: k, state: {{ {state} }}, expect: {expect} }}"
        )
        .unwrap();
    }
    pack += "  - { name: no key, caller: bot, tool: s__pay, expect: idempotency_key_required }\n";
    for (refused, expect) in [
        (4, "idempotency_key_required"),
        (5, "idempotency_key_required"),
    ] {
        writeln!(pack, "  - {{ name: no key again {refused}, caller: bot, tool: s__pay, state: {{ refused: {refused} }}, expect: {expect} }}")
            .unwrap();
    }
    pack += "  - { name: no object, caller: bot, tool: s__pay, key: k, arguments: { a: null }, expect: allow }\n";
    let directory = stage(&pack);
    fs::write(directory.path().join("policy.yaml"), policy).unwrap();
    let (out, _) = test(directory.path(), &[]);
    assert!(!out.contains("FAIL "), "{out}");
}

/// 003-30 … 003-35, 003-38: the pack that ships with the quickstart passes and reaches every answer
/// of its policy.
#[test]
fn the_quickstart_ships_a_whole_pack() {
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let (out, code) = test(&quickstart, &["--coverage"]);
    assert_eq!(code, 0, "{out}");
    assert!(!out.contains("no sample reaches"), "{out}");
}

/// A directory without packs is told where they are looked for.
#[test]
fn packs_that_are_not_there_are_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let args = TestCli::parse_from(["test", directory.path().to_str().unwrap()]).args;
    let error = run_into(&args, &mut String::new()).unwrap_err().to_string();
    assert!(
        error.starts_with("no test packs in ") && error.contains("in a directory `tests`"),
        "{error}"
    );
}

/// Issue 17: what is broken is said, and not that there are no packs; only a configuration that can be
/// read and has none is told to get some.
#[test]
fn a_configuration_that_cannot_be_read_hides_no_packs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolgate.yaml");
    let whole = "servers: { s: { command: x } }\nmode: observe\n";
    let tested = |text: &str| {
        fs::write(&path, text).unwrap();
        let args = TestCli::parse_from(["test", "--config", path.to_str().unwrap()]).args;
        let mut out = String::new();
        (run_into(&args, &mut out), out)
    };
    for broken in ["mode: [observe", &whole.replace("observe", "absent")] {
        let (code, out) = tested(broken);
        assert_eq!(code.unwrap(), 2, "{out}");
        assert!(
            out.contains("toolgate.yaml:") && out.contains(": error: "),
            "{out}"
        );
        assert!(!out.contains("no test packs"), "{out}");
    }
    let (code, out) = tested(whole);
    let error = code.unwrap_err().to_string();
    assert!(error.starts_with("no test packs beside "), "{error}{out}");
}

/// 003-30 … 003-35, 003-38, 003-54 … 003-61, 003-99, 003-100, 003-103, 003-116, 003-D1, 003-D3,
/// 002-32: each contract of the library has a pack of good samples, and of overreach, injection,
/// budget and failure recovery, all of which it meets.
#[test]
fn the_library_ships_whole_packs() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/library");
    let (out, code) = test(&library, &["--quiet"]);
    assert_eq!(
        (out.as_str(), code),
        ("ok: 6 packs, 91 samples, all as expected\n", 0)
    );
    let report: serde_json::Value = serde_json::from_str(&test(&library, &["--json"]).0).unwrap();
    let mut packs = Vec::new();
    for pack in report["packs"].as_array().unwrap() {
        let name = pack["pack"].as_str().unwrap();
        packs.push(name);
        let text = fs::read_to_string(library.join(format!("tests/{name}.yaml"))).unwrap();
        assert!(
            text.contains(&format!("policies: [../{name}.yaml]")),
            "{name} tests the file of its name"
        );
        let samples = pack["samples"].as_array().unwrap();
        let any = |fits: &dyn Fn(&serde_json::Value) -> bool| samples.iter().any(fits);
        for kind in ["overreach:", "injection:", "budget:", "recovery:"] {
            assert!(
                any(&|sample| sample["name"].as_str().unwrap().starts_with(kind)),
                "{name}: no sample of {kind}"
            );
        }
        for code in [
            "allow",
            "schema_invalid",
            "rbac_denied",
            "tenant_mismatch",
            "budget_calls_exceeded",
            "budget_exceeded",
        ] {
            assert!(
                any(&|sample| sample["got"] == code),
                "{name}: no sample of {code}"
            );
        }
        for sample in samples {
            assert_eq!(
                (&sample["verdict"], &sample["got"]),
                (&"AS EXPECTED".into(), &sample["expect"]),
                "{sample}"
            );
        }
    }
    assert_eq!(
        packs,
        ["grant", "invoice", "notify", "order", "record", "transfer"]
    );
}

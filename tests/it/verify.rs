//! `toolgate verify`: what is promised is tried with a configuration, dry, and what does not hold is said (issue 20).

use crate::harness::gate::{Gate, run};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use regex::Regex;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }\n  - { agent: clerk, token: token-of-the-agent-clerk }";
const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-ann-who-decides, roles: [approver, switch] } ]";
/// What a payment may be.
const AMOUNTS: &str = ", arguments: { properties: { amount: { type: integer, minimum: 1, maximum: 100 }, to: { enum: [ann, bob] } } }";
const VERIFY: [&str; 3] = ["verify", "--config", "toolgate.yaml"];

/// A setup whose directories for a while come below `tmp`, which is given, too.
fn stage(policy: &str) -> (Setup, PathBuf) {
    let setup = Setup::new()
        .server_with("shop", "url: \"http://127.0.0.1:9/mcp\"")
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(policy);
    with_tmp(setup)
}

fn with_tmp(setup: Setup) -> (Setup, PathBuf) {
    setup.write();
    let tmp = setup.directory().join("tmp");
    fs::create_dir(&tmp).unwrap();
    (setup.environment("TMPDIR", tmp.to_str().unwrap()), tmp)
}

/// A policy of the shop with these contracts, and `more` beside them.
fn policy(contracts: &[(&str, &str, &str)], more: &str) -> String {
    let lines = contracts
        .iter()
        .map(|(tool, action, rest)| format!("  {tool}: {}\n", contract(tool, action, rest)));
    let lines: String = lines.collect();
    format!("contracts:\n{lines}{}\n{more}\n", undo("shop__pay"))
}

/// The exit code, and what a program reads.
async fn report(setup: &Setup, more: &[&str]) -> (i32, Value) {
    let words = [&VERIFY[..], &["--json"], more].concat();
    let (code, out, err) = run(setup, &words).await;
    let report = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    (code, report)
}

/// The state and the words of a guarantee of a tool under a caller; of a limit where one is named behind a colon.
fn of<'r>(report: &'r Value, guarantee: &str, tool: &str, caller: &str) -> (&'r str, &'r str) {
    let (guarantee, limit) = guarantee.split_once(':').unwrap_or((guarantee, ""));
    let text = |row: &'r Value, name: &str| row[name].as_str().unwrap_or_default();
    let rows = report["rows"].as_array().unwrap();
    let mut rows = rows.iter().filter(|row| {
        let is_of = text(row, "tool") == tool && text(row, "caller") == caller;
        is_of && text(row, "guarantee") == guarantee && text(row, "limit") == limit
    });
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("{guarantee} {tool} {caller}: {report}"));
    (text(row, "state"), text(row, "words"))
}

fn inside(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// The first example as it stands: what people read of it, whole. Its server is not started, nothing is written where its
/// ledger would be, and nothing is left.
#[tokio::test]
async fn the_quickstart_holds() {
    let setup = Setup::new();
    let tmp = setup.directory().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let setup = setup.environment("TMPDIR", tmp.to_str().unwrap());
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let files = [
        "toolgate.yaml",
        "toolgate.pins.yaml",
        "policies/billing.yaml",
        "policies/tests/billing.yaml",
    ];
    fs::create_dir_all(setup.directory().join("policies/tests")).unwrap();
    for file in files {
        fs::write(
            setup.directory().join(file),
            fs::read_to_string(from.join(file)).unwrap(),
        )
        .unwrap();
    }
    let words = [&VERIFY[..], &["--data", "nowhere"]].concat();
    let (code, out, err) = run(&setup, &words).await;
    assert_eq!(code, 0, "{out}{err}");
    let version = Regex::new(r"policy [0-9a-f]+").unwrap();
    let records = Regex::new(r"\d+ records").unwrap();
    let text = version.replace(&out, "policy [VERSION]");
    let text = records.replace(&text, "[COUNT] records");
    insta::assert_snapshot!("the_quickstart", text);
    assert!(!setup.directory().join("nowhere").exists());
    assert_eq!(inside(&tmp), 0);
}

/// Calls that wait for a person, limits, required keys, several callers; of no tool anything but a contract is known.
#[tokio::test]
async fn each_guarantee_is_tried_of_each_tool_under_each_caller() {
    let limits = format!("{AMOUNTS}, budget: {{ max_calls_per_task: 3, cost: 2 }}");
    let rate = ", permission: { tenant: /tenant }, idempotency: { require: true }, budget: { rate: { calls: 2, per: 1h } }";
    let contracts = [
        ("shop__pay", "pay", limits.as_str()),
        ("shop__note", "write", rate),
        ("shop__look", "read", ""),
    ];
    let budgets = "budgets: { global: { max_cost: 10, max_duration: 1h } }";
    let (setup, tmp) = stage(&policy(&contracts, budgets));
    let (code, report) = report(&setup, &[]).await;
    assert_eq!(code, 0, "{report}");
    for caller in ["bot", "clerk"] {
        for guarantee in [
            "at_most_once",
            "approval_once",
            "approval_binding",
            "budget:calls_per_task",
            "fencing",
            "invalid_arguments",
            "failing_store",
        ] {
            let (state, words) = of(&report, guarantee, "shop__pay", caller);
            assert_eq!(state, "holds", "{guarantee}: {words}");
        }
        let (state, words) = of(&report, "budget:cost", "shop__pay", caller);
        assert_eq!(state, "not_shown");
        assert!(words.contains("ends calls of this tool after 3"), "{words}");
        let (state, _) = of(&report, "budget:duration", "shop__pay", caller);
        assert_eq!(state, "not_shown");
    }
    // Who has a tenant can name it, and its calls need a key; who has none cannot.
    let (state, words) = of(&report, "at_most_once", "shop__note", "bot");
    assert_eq!(state, "holds", "{words}");
    assert!(words.contains("with the same key"), "{words}");
    assert_eq!(of(&report, "budget:rate", "shop__note", "bot").0, "holds");
    let (state, words) = of(&report, "at_most_once", "shop__note", "clerk");
    assert_eq!(state, "not_shown");
    assert!(
        words.starts_with("no definition is pinned; arguments cannot be made up")
            && words.contains("`tenant_mismatch`"),
        "{words}"
    );
    assert_eq!(of(&report, "ledger_chain", "", "").0, "holds");
    let (state, words) = of(&report, "own_ledger", "", "");
    assert_eq!((state, words), ("not_shown", "there is none yet"));
    assert!(report["left_out"][0].as_str().unwrap().contains("`read`"));
    assert_eq!(report["broken"], 0);
    assert_eq!(inside(&tmp), 0);
    assert!(!setup.directory().join("data").exists());
}

/// What cannot be shown is no failure, unless all has to be; what is asked for alone is tried alone.
#[tokio::test]
async fn what_is_tried_can_be_narrowed() {
    let contracts = [("shop__pay", "write", ""), ("shop__note", "write", "")];
    let (setup, _) = stage(&policy(&contracts, ""));
    let (code, narrow) = report(&setup, &["--tool", "shop__pay", "--caller", "bot"]).await;
    assert_eq!(code, 0, "{narrow}");
    let rows = narrow["rows"].as_array().unwrap();
    let others = rows.iter().filter(|row| {
        let (tool, caller) = (&row["tool"], &row["caller"]);
        *tool != "shop__pay" && !tool.is_null() || *caller != "bot" && !caller.is_null()
    });
    assert_eq!(others.count(), 0, "{narrow}");
    assert_eq!(of(&narrow, "at_most_once", "shop__pay", "bot").0, "holds");
    let (code, all) = report(&setup, &["--require-all"]).await;
    assert!(all["not_shown"].as_u64().unwrap() > 0, "{all}");
    assert_eq!((code, &all["broken"]), (1, &json!(0)));
    for (option, wrong) in [("--tool", "shop__pau"), ("--caller", "bott")] {
        let (code, out, err) = run(&setup, &[&VERIFY[..], &[option, wrong]].concat()).await;
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(
            err.contains(&format!("{option}: there is no `{wrong}`"))
                && err.contains("did you mean"),
            "{err}"
        );
    }
}

/// Nothing is shown of agents whom issuers name, and that is said where all agents are asked for; of the operators whom they
/// name, as many decide as a call needs.
#[tokio::test]
async fn those_whom_issuers_name_are_told_of() {
    let issuer = |audience: &str, claims: &str| {
        format!(
            "{{ issuer: \"https://id.example.com\", audience: {audience}, jwks_url: \"https://id.example.com/jwks\", {claims} }}"
        )
    };
    let claims = "claims: { name: email, roles: /groups }, roles: { leads: [approver] }";
    let operators = issuer("operators", claims);
    let two = format!("{AMOUNTS}, approval: {{ ask: always, required: 2 }}");
    let setup = Setup::new()
        .server_with("shop", "url: \"http://127.0.0.1:9/mcp\"")
        .callers(CALLERS)
        .operators(&format!("tokens: [], jwt: [ {operators} ]"))
        .policy(&policy(&[("shop__pay", "pay", two.as_str())], ""));
    let (setup, _) = with_tmp(setup);
    let (code, known) = report(&setup, &["--tool", "shop__pay"]).await;
    assert_eq!(code, 0, "{known}");
    let (state, words) = of(&known, "approval_once", "shop__pay", "bot");
    assert_eq!(state, "holds", "{words}");
    assert!(!known.to_string().contains("issuers"), "{known}");
    let agents = issuer("agents", "claims: { agent: azp }");
    let setup = setup.more(&format!("auth: {{ jwt: [ {agents} ] }}"));
    setup.write();
    let (_, all) = report(&setup, &["--tool", "shop__pay"]).await;
    let (state, words) = of(&all, "at_most_once", "", "");
    assert_eq!(state, "not_shown");
    assert!(
        words.starts_with("agents whom issuers name are not tried"),
        "{words}"
    );
    let narrow = ["--tool", "shop__pay", "--caller", "bot"];
    let (_, one) = report(&setup, &narrow).await;
    assert!(!one.to_string().contains("issuers"), "{one}");
}

/// A server that says that its tool deletes, and a contract that says it reads: nothing is promised of it, and that is
/// said. The server itself is not asked.
#[tokio::test]
async fn a_contract_that_says_too_little_is_named() {
    let purge = json!({
        "name": "purge", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": false, "destructiveHint": true },
    });
    let look = json!({ "name": "look", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } });
    let script = Script::new().definition(purge, Behaviour::Answers);
    let server = script.definition(look, Behaviour::Answers).start().await;
    let contracts = [("shop__purge", "read", ""), ("shop__look", "read", "")];
    let setup = Setup::new()
        .server("shop", &server)
        .callers(CALLERS)
        .operators(OPERATORS)
        .more("pins: { file: toolgate.pins.yaml, require: false }")
        .policy(&policy(&contracts, ""));
    let (setup, _) = with_tmp(setup);
    let (code, out, err) = run(&setup, &["pins", "approve", "--all"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let asked = server.requests().len();
    let (code, report) = report(&setup, &[]).await;
    assert_eq!(code, 0, "{report}");
    let (state, words) = of(&report, "at_most_once", "shop__purge", "");
    assert_eq!(state, "not_shown");
    assert!(
        words.contains(
            "its contract says `read`; the server's annotations say that it may change something"
        ),
        "{words}"
    );
    assert!(!report.to_string().contains("shop__look"), "{report}");
    assert_eq!(server.requests().len(), asked, "it is not asked");
    assert_eq!(server.executions().len(), 0);
}

/// Limits of which no number of calls is exact, or which are too wide to be tried, are not said to hold.
#[tokio::test]
async fn a_limit_that_is_not_exact_is_not_said_to_hold() {
    let told = ", budget: { cost: 1, cost_from: /usage/cost }";
    let wide = ", budget: { max_calls_per_task: 5000 }";
    let contracts = [("shop__pay", "write", told), ("shop__note", "write", wide)];
    let budgets =
        "budgets: { unlimited: true, agent: { bot: { max_cost: 4 }, clerk: { max_failures: 3 } } }";
    let (setup, _) = stage(&policy(&contracts, budgets));
    let (code, report) = report(&setup, &[]).await;
    assert_eq!(code, 0, "{report}");
    let (state, words) = of(&report, "budget:cost", "shop__pay", "bot");
    assert_eq!(state, "not_shown");
    assert!(
        words.contains("in the answers of its tool server"),
        "{words}"
    );
    let (state, words) = of(&report, "budget:failures", "shop__pay", "clerk");
    assert_eq!(state, "not_shown", "{words}");
    let (state, words) = of(&report, "budget:calls_per_task", "shop__note", "clerk");
    assert_eq!(state, "not_shown");
    assert!(words.contains("5000 calls are too many"), "{words}");
}

/// The ledger of the configuration is read, by whichever toolgate it is written; one that was changed is broken.
#[tokio::test]
async fn a_changed_ledger_is_broken() {
    let server: ToolServer = Script::new().tool("pay", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("shop", &server)
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(&policy(&[("shop__pay", "write", "")], ""));
    let (setup, _) = with_tmp(setup);
    let mut gate: Gate = setup.start().await;
    for amount in 0..3 {
        let agent = gate.agent().token("token-of-the-agent-bot");
        let answer = agent
            .anew_call("shop__pay", json!({ "amount": amount }))
            .await;
        assert!(answer.is_done(), "{}", answer.text());
    }
    gate.entries(3).await;
    let ran = server.executions().len();
    let (code, running) = report(&gate.setup, &[]).await;
    assert_eq!(code, 0, "{running}");
    let (state, words) = of(&running, "own_ledger", "", "");
    assert_eq!(state, "holds", "{words}");
    assert!(words.contains("a running toolgate writes it"), "{words}");
    assert_eq!(server.executions().len(), ran, "nothing is sent");
    gate.terminate();
    gate.wait().await;
    let (code, held) = report(&gate.setup, &[]).await;
    let (state, words) = of(&held, "own_ledger", "", "");
    assert_eq!((code, state), (0, "holds"), "{words}");
    assert!(words.contains("no toolgate runs on it"), "{words}");
    let journal = gate.setup.directory().join("data/journal");
    let files = fs::read_dir(journal).unwrap();
    let segment = files.map(|file| file.unwrap().path()).max().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    // Within the first batch: behind the segment's head and the batch's own.
    bytes[96 + 76 + 8] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let (code, changed) = report(&gate.setup, &[]).await;
    let (state, _) = of(&changed, "own_ledger", "", "");
    assert_eq!((code, state), (1, "broken"), "{changed}");
    assert_eq!(changed["broken"], 1, "{changed}");
    let (code, out, _) = run(&gate.setup, &VERIFY).await;
    assert_eq!(code, 1);
    assert!(
        out.contains("  ledger chain of this configuration: BROKEN: "),
        "{out}"
    );
}

/// What cannot be run is refused as `serve` refuses it; what only observes promises nothing.
#[tokio::test]
async fn what_promises_nothing_is_not_verified() {
    let (setup, tmp) = stage(&policy(&[("shop__pay", "write", "")], ""));
    let observing = setup.clone().mode("observe");
    observing.write();
    let (code, out, err) = run(&observing, &VERIFY).await;
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("in observe mode nothing is refused"), "{err}");
    let wrong = setup
        .clone()
        .policy("contracts: { shop__pay: { actions: [fly] } }\n");
    wrong.write();
    let (code, out, said) = run(&wrong, &VERIFY).await;
    let served = run(&wrong, &["serve", "--config", "toolgate.yaml"]).await;
    assert_eq!((code, &out, &said), (served.0, &served.1, &served.2));
    assert_eq!(code, 1, "{said}");
    assert_eq!(inside(&tmp), 0);
}

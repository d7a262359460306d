//! What a drill does not touch, and what it does not try.

use super::{BOOKS, CALLERS, DrillStage, OPERATORS, of, order, policy, tip};
use crate::harness::gate::run;
use crate::harness::setup::Setup;
use serde_json::{Value, json};

/// A drill has a data directory of its own; it tries servers that are named, in enforce mode, and what is
/// written as a drill.
#[tokio::test]
async fn a_drill_keeps_to_what_it_was_told() {
    let stage = DrillStage::usual().await;
    let (code, said) = stage.drills(&["--data", "elsewhere"]).await;
    assert!(
        code == 2 && said.contains("a data directory of its own"),
        "{said}"
    );
    let (code, said) = stage.drills(&["--server", "another"]).await;
    assert!(
        code == 0 && said.contains("is of no server that is named with --server"),
        "{said}"
    );
    assert_eq!(
        stage
            .drills(&["--server", "another", "--require-all"])
            .await
            .0,
        1
    );
    let DrillStage { shop, setup } = stage;
    let stage = DrillStage::on(shop, setup.mode("observe"), &order(BOOKS));
    let (code, said) = stage.drills(&[]).await;
    assert!(code == 2 && said.contains("in observe mode"), "{said}");
    assert_eq!(stage.shop.server.executions(), 0);
}

/// Samples of which none can be drilled say why, and call nothing: a caller that the configuration does not
/// know, a refusal that is expected, a baseline that changes something, a tool that nothing takes back; and
/// contracts without a sample are told of.
#[tokio::test]
async fn what_is_not_drilled_says_why() {
    let like = |name: &str, more: &str| {
        format!("  - {{ name: {name}, arguments: {{ amount: 1 }}, {more} }}\n")
    };
    let drilled = format!("tool: shop__order, drill: {BOOKS}");
    let samples = [
        like(
            "stranger",
            &format!("caller: stranger, expect: allow, {drilled}"),
        ),
        like(
            "refused",
            &format!("caller: bot, expect: schema_invalid, {drilled}"),
        ),
        like(
            "writing",
            "caller: bot, expect: allow, tool: shop__order, drill: { baseline: { tool: shop__tip, fields: [/a] } }",
        ),
        like(
            "bare",
            "caller: bot, expect: allow, tool: shop__order, drill: {}",
        ),
        like(
            "astray",
            &format!("caller: bot, expect: allow, tool: shop__mail, drill: {BOOKS}"),
        ),
    ];
    let stage = DrillStage::new(&policy("", ""), &samples.concat()).await;
    let (code, said) = stage.drills(&[]).await;
    assert_eq!(code, 0, "{said}");
    for why in [
        "`stranger`: its caller is no agent of the configuration",
        "`refused`: it expects a refusal",
        "`writing`: its baseline is no call that the agent may make and that changes nothing",
        "`bare`: nothing says what its baseline is",
        "`astray` has `drill`, and no contract names a call that takes it back",
        "shop__tip: no sample of it has `drill`",
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    assert_eq!(stage.drills(&["--require-all"]).await.0, 1);
    assert_eq!(stage.shop.server.executions(), 0);
}

/// With everything drilled that has to be, `--require-all` finds what nothing takes back, and nothing else.
#[tokio::test]
async fn all_that_changes_something_can_be_required() {
    let samples = order(BOOKS) + &tip(BOOKS);
    let stage = DrillStage::new(&policy("", ""), &samples).await;
    assert_eq!(stage.drills(&[]).await.0, 0);
    let (code, said) = stage.drills(&["--require-all"]).await;
    assert_eq!(code, 1, "nothing takes a letter back: {said}");
    let whole = policy("", "");
    let (before, letters) = whole.split_once("  shop__mail").unwrap();
    let (_, after) = letters.split_once('\n').unwrap();
    let stage = DrillStage::new(&format!("{before}{after}"), &samples).await;
    let (code, said) = stage.drills(&["--require-all"]).await;
    assert_eq!(code, 0, "{said}");
}

/// A call that the policy refuses is not drilled around it.
#[tokio::test]
async fn the_policy_counts_for_a_drill() {
    let rule = ", rules: [ { code: too_much, when: \"arguments.amount > 4\" } ]";
    let stage = DrillStage::new(&policy(rule, ""), &order(BOOKS)).await;
    let (code, said) = stage.drills(&[]).await;
    assert!(
        code == 1 && said.contains("the call is refused (too_much)"),
        "{said}"
    );
    assert_eq!(stage.shop.sent("order"), Vec::<Value>::new());
    assert!(!stage.kept().exists());
}

/// A toolgate that runs on the same configuration goes on, and has nothing of the drill in its ledger; what
/// its operator has taken away is not drilled.
#[tokio::test]
async fn a_running_toolgate_is_not_touched() {
    let shop = super::Shop::open().await;
    let setup = Setup::new()
        .server_with("shop", &format!("url: \"{}\"", shop.server.url()))
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(&policy("", ""));
    let gate = setup.start().await;
    let bot = gate.agent().token("token-of-the-agent-bot");
    bot.modern_call("shop__order", json!({ "amount": 7 })).await;
    gate.entries(1).await;
    let stage = DrillStage::on(shop, gate.setup.clone(), &order(BOOKS));
    let (code, report) = stage.report(&[]).await;
    assert_eq!(
        (code, &of(&report, "shop__order")["state"]),
        (0, &json!("proven")),
        "{report}"
    );
    assert_eq!(gate.ledger().await.len(), 1);
    let door = gate.operators.to_string();
    let words = [
        "disable",
        "shop__order",
        "--why",
        "it is broken",
        "--config",
        "toolgate.yaml",
        "--admin",
        &door,
    ];
    let (code, out, err) = run(&gate.setup.operator("ann"), &words).await;
    assert_eq!(code, 0, "{out}{err}");
    let (code, said) = stage.drills(&[]).await;
    assert!(
        code == 0 && said.contains("shop__order is taken away by ann: it is broken"),
        "{said}"
    );
    assert_eq!(stage.shop.sent("order").len(), 2);
}

//! `toolgate test --drill`: the rollback of each contract is tried at a real tool server, and a read proves
//! that nothing is left (003-P4f).

mod enemies;
mod killed;
mod limits;
mod people;
mod shop;
mod told_to_end;

use crate::harness::gate::run;
use crate::harness::setup::Setup;
use serde_json::{Value, json};
use shop::Shop;
use std::path::PathBuf;

const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }";
const OPERATORS: &str = "tokens: [ { name: ann, token: token-of-ann-who-decides, roles: [finance, switch] }, \
     { name: bob, token: token-of-bob-who-decides-too, roles: [finance] } ]";
/// What every drill reads, where nothing else is said.
const BOOKS: &str = "{ baseline: { tool: shop__books, fields: [/balance, /stock] } }";

/// Drills, and a report that a program reads.
const AS_JSON: [&str; 6] = [
    "test",
    "--drill",
    "--yes",
    "--json",
    "--config",
    "toolgate.yaml",
];

/// The contracts of the shop. `order` and `cancel` are what else stands in those two.
fn policy(order: &str, cancel: &str) -> String {
    let rest = "purpose: A test., permission: anyone, secrets: []";
    format!(
        "contracts:
  shop__order: {{ {rest}, actions: [write]{order}, side_effect: {{ writes: orders, rollback: {{ tool: shop__cancel, arguments: {{ id: \
         result#/id, of: action# }} }} }} }}
  shop__cancel: {{ {rest}, actions: [write]{cancel}, side_effect: {{ writes: orders, rollback: {{ manual: order again }} }} }}
  shop__tip: {{ {rest}, actions: [write], side_effect: {{ writes: tips, rollback: {{ tool: shop__untip, arguments: {{}} }} }} }}
  shop__untip: {{ {rest}, actions: [write], side_effect: {{ writes: tips, rollback: {{ manual: tip again }} }} }}
  shop__mail: {{ {rest}, actions: [write], side_effect: {{ writes: letters, rollback: {{ manual: call the office }} }} }}
  shop__books: {{ purpose: A test., actions: [read], secrets: [] }}
"
    )
}

/// A sample of an order, which is drilled so.
fn order(drill: &str) -> String {
    format!(
        "  - {{ name: an order, caller: bot, tool: shop__order, arguments: {{ amount: 5 }}, expect: allow, drill: {drill} }}\n"
    )
}

/// A sample of a tip, likewise.
fn tip(drill: &str) -> String {
    format!("  - {{ name: a tip, caller: bot, tool: shop__tip, expect: allow, drill: {drill} }}\n")
}

/// A shop, and a configuration before it with a pack.
struct DrillStage {
    shop: Shop,
    setup: Setup,
}

impl DrillStage {
    async fn new(policy: &str, samples: &str) -> Self {
        let shop = Shop::open().await;
        let url = format!("url: \"{}\"", shop.server.url());
        let setup = Setup::new()
            .server_with("shop", &url)
            .callers(CALLERS)
            .operators(OPERATORS)
            .policy(policy);
        Self::on(shop, setup, samples)
    }

    fn on(shop: Shop, setup: Setup, samples: &str) -> Self {
        setup.write();
        let packs = setup.directory().join("tests");
        std::fs::create_dir_all(&packs).unwrap();
        let pack = format!("pack: drills\nsamples:\n{samples}");
        std::fs::write(packs.join("drills.yaml"), pack).unwrap();
        Self { shop, setup }
    }

    /// The usual one, with one sample of an order.
    async fn usual() -> Self {
        Self::new(&policy("", ""), &order(BOOKS)).await
    }

    /// `toolgate test --drill --yes` with more words; both outputs.
    async fn drills(&self, more: &[&str]) -> (i32, String) {
        let words = ["test", "--drill", "--yes", "--config", "toolgate.yaml"];
        let (code, out, err) = run(&self.setup, &[&words, more].concat()).await;
        (code, out + &err)
    }

    /// The same as a program reads it.
    async fn report(&self, more: &[&str]) -> (i32, Value) {
        let (code, out, err) = run(&self.setup, &[&AS_JSON, more].concat()).await;
        let report = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        (code, report)
    }

    /// The directory of a drill that has left something.
    fn kept(&self) -> PathBuf {
        self.setup.directory().join("data-drills/drill")
    }
}

/// What is told of a contract.
fn of<'r>(report: &'r Value, contract: &str) -> &'r Value {
    let rows = report["drills"].as_array().unwrap();
    let mut rows = rows.iter().filter(|row| row["contract"] == contract);
    rows.next().unwrap_or_else(|| panic!("{report}"))
}

/// 003-19, 003-64, 003-106, 003-P4f: the call is made, its effect is seen, the call that the contract names takes it
/// back under the same action id, and the books are as they were; the share says of how many contracts
/// that is shown. Nothing of it is in the data directory of the configuration, and nothing is left beside it.
#[tokio::test]
async fn a_drill_proves_that_nothing_is_left() {
    let stage = DrillStage::new(&policy("", ""), &(order(BOOKS) + &tip(BOOKS))).await;
    let before = stage.shop.has();
    let (code, report) = stage.report(&[]).await;
    assert_eq!(code, 0, "{report}");
    assert_eq!(stage.shop.has(), before);
    assert_eq!(stage.shop.sent("order"), [json!({ "amount": 5 })]);
    let row = of(&report, "shop__order");
    assert_eq!(
        (&row["state"], &row["undone"], &row["left"]),
        (&json!("proven"), &json!("done"), &json!(false)),
        "{row}"
    );
    assert_eq!(
        stage.shop.sent("cancel"),
        [json!({ "id": 1, "of": row["action_id"] })]
    );
    assert_eq!(row["baseline"]["before"], row["baseline"]["after"]);
    assert!(row["baseline"]["before"].is_string(), "{row}");
    assert_eq!(of(&report, "shop__tip")["state"], "proven");
    assert_eq!(of(&report, "shop__cancel")["state"], "none_needed");
    assert_eq!(of(&report, "shop__mail")["state"], "no_rollback");
    assert_eq!(
        (&report["proven"], &report["contracts"]),
        (&json!(2), &json!(5))
    );
    assert!(!stage.setup.directory().join("data").exists());
    assert!(!stage.kept().exists());
    let (code, said) = stage.drills(&[]).await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("can be undone, as a drill shows: 2 of 5 contracts that write (40 %)"),
        "{said}"
    );
    assert!(
        said.contains("shop__mail: it cannot be undone by a call (by hand)"),
        "{said}"
    );
    assert_eq!(stage.shop.has(), before);
}

/// What the contract checks an undo by is the baseline of a drill that names none, where it names nothing that
/// only the call will give.
#[tokio::test]
async fn what_an_undo_is_checked_by_can_be_the_baseline() {
    let checked = |arguments: &str| {
        let check = format!(
            "arguments: {{}}, verify: {{ tool: shop__books, arguments: {arguments}, expect: {{ /balance: 100 }} }}"
        );
        let plain = policy("", "");
        let checked = plain.replacen("arguments: {}", &check, 1);
        assert_ne!(checked, plain);
        checked
    };
    let stage = DrillStage::new(&checked("{}"), &tip("{}")).await;
    let (code, report) = stage.report(&[]).await;
    assert_eq!(
        (code, &of(&report, "shop__tip")["state"]),
        (0, &json!("proven")),
        "{report}"
    );
    let stage = DrillStage::new(&checked("{ of: action# }"), &tip("{}")).await;
    let (code, report) = stage.report(&[]).await;
    let row = of(&report, "shop__tip");
    assert_eq!(
        (code, &row["state"]),
        (0, &json!("not_drilled")),
        "{report}"
    );
    assert!(
        row["why"]
            .as_str()
            .unwrap()
            .contains("give `drill.baseline`"),
        "{row}"
    );
    assert_eq!(stage.shop.sent("tip"), Vec::<Value>::new());
}

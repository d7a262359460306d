//! Operators who are away: who decides for them meanwhile, and who is told (guarantees §7).

use super::{Stage, notify, receiver};
use crate::harness::gate::run;
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::Value;

/// Ann has the role and is away; Bert, who has another, decides for her.
fn operators(until: &str) -> String {
    format!(
        "tokens: [ {{ name: ann, token: token-of-ann-who-has-the-role, roles: [finance] }}, \
         {{ name: bert, token: token-of-bert-the-delegate, roles: [sre] }}, \
         {{ name: cyd, token: token-of-cyd-who-is-another, roles: [sre] }} ], \
         operators: {{ ann: {{ away_until: \"{until}\", delegate: bert }} }}"
    )
}

impl Stage {
    async fn words(&self, who: &str, words: &[&str]) -> (i32, String) {
        let door = self.gate.operators.to_string();
        let around = ["--config", "toolgate.yaml", "--admin", &door];
        let words = [&["approvals"], words, &around].concat();
        let (code, out, err) = run(&self.gate.setup.operator(who), &words).await;
        (code, out + &err)
    }

    async fn shown(&self, who: &str, id: &str) -> Value {
        let (code, shown) = self.words(who, &["show", id, "--json"]).await;
        assert_eq!(code, 0, "{shown}");
        serde_json::from_str(&shown).unwrap()
    }
}

/// A delegate decides by the roles of who is away, by both names, and counts as one person; others do not,
/// nor does the delegate once the time is over.
#[tokio::test]
async fn a_delegate_decides_for_who_is_away() {
    let heard = HookServer::start().await;
    heard.says(|_| HookReply::Status(204));
    let ann = receiver(&heard, "ann", ", operator: ann, events: [requested]");
    let bert = receiver(&heard, "bert", ", operator: bert, events: [decided]");
    let more = notify(&[ann, bert], "ann, bert");
    let away = Setup::new().operators(&operators("2126-12-24T08:00:00+01:00"));
    let stage = Stage::on_operators(away, &more).await;
    let id = stage.pays(1).await.unwrap();
    // What she would be told, her delegate is.
    let told = heard.heard(1).await;
    assert_eq!(told[0].hook, "bert", "{told:?}");
    assert_eq!(stage.shown("bert", &id).await["arguments"]["amount"], 1);
    let (code, said) = stage.words("cyd", &["allow", &id, "--why", "x"]).await;
    assert!(code == 1 && said.contains("not found"), "{said}");
    let (code, said) = stage
        .words("bert", &["allow", &id, "--why", "as agreed"])
        .await;
    assert_eq!(code, 0, "{said}");
    let hold = stage.shown("bert", &id).await;
    let word = &hold["decisions"][0];
    assert_eq!(
        (word["who"].as_str(), word["on_behalf"].as_str()),
        (Some("bert"), Some("ann"))
    );
    assert!(stage.pays(1).await.is_none(), "it runs");
    let (_, story, _) = run(
        &stage.gate.setup,
        &["ledger", "show", &id, "--data", "data"],
    )
    .await;
    assert!(
        story.contains("allowed by the operator bert for ann: as agreed"),
        "{story}"
    );
    let back = Setup::new().operators(&operators("2020-12-24T08:00:00Z"));
    let stage = Stage::on_operators(back, "").await;
    let id = stage.pays(1).await.unwrap();
    let (code, said) = stage.words("bert", &["allow", &id, "--why", "x"]).await;
    assert!(code == 1 && said.contains("not found"), "{said}");
    until("ann decides", || async {
        let (code, _) = stage.words("ann", &["allow", &id, "--why", "x"]).await;
        (code == 0).then_some(())
    })
    .await;
}

/// A delegate of an absent operator passes nothing on, is a known operator, and is no agent.
#[tokio::test]
async fn check_knows_delegates() {
    for (absences, said) in [
        (
            "ann: { away_until: \"2126-01-01T00:00:00Z\", delegate: bert }, bert: { away_until: \"2126-01-01T00:00:00Z\", delegate: cyd }",
            "a delegate has no delegate",
        ),
        (
            "ann: { away_until: \"2126-01-01T00:00:00Z\", delegate: ann }",
            "a delegate has no delegate",
        ),
        (
            "ann: { away_until: \"2126-01-01T00:00:00Z\", delegate: dan }",
            "is no operator of `admin.tokens`",
        ),
        (
            "dan: { away_until: \"2126-01-01T00:00:00Z\", delegate: ann }",
            "is no operator of `admin.tokens`",
        ),
        (
            "ann: { away_until: \"2126-01-01T00:00:00Z\", delegate: bot }",
            "counts as the name of an agent",
        ),
        (
            "ann: { away_until: tomorrow, delegate: bert }",
            "is no time",
        ),
    ] {
        let operators = operators("2126-01-01T00:00:00Z");
        let tokens = operators.split(", operators:").next().unwrap().to_owned();
        let tokens = tokens.replace(
            "name: cyd",
            "name: bot, roles: [sre], token: token-of-an-operator-bot }, { name: cyd",
        );
        let setup = Setup::new()
            .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
            .policy("contracts: {}\n")
            .callers("  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }")
            .operators(&format!("{tokens}, operators: {{ {absences} }}"));
        setup.write();
        let (code, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
        assert!(code != 0 && out.contains(said), "{said}: {out}{err}");
    }
}

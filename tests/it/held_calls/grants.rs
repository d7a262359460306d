//! Standing grants: calls that run without each being asked about, because an operator has said so, and
//! those that do not (guarantees §7).

mod offline;
mod races;
mod refused;

use super::void::reloads;
use super::{ANN, HoldingGate, call, decision, held, policy};
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::scripted_server::tool;
use crate::harness::until;
use serde_json::{Value, json};

/// What asks only for what no grant covers, and lets grants leave one argument open.
fn on_miss() -> String {
    policy(", ask: on-miss, grant_any: [/note]")
}

impl HoldingGate {
    async fn granting() -> Self {
        Self::with(&on_miss(), "enforce").await
    }

    /// Mints a grant for the agent `bot` by itself, as ann; gives its id.
    pub(super) async fn grants(&self, terms: &[&str]) -> String {
        let words = [
            "grants",
            "add",
            "--tool",
            "bank__pay",
            "--agent",
            "bot",
            "--tenant",
            "t_1",
            "--why",
            "every day",
        ];
        let (status, said) = self.says(ANN, &[&words[..], terms].concat()).await;
        assert_eq!(status, 0, "{said}");
        let line = said.lines().next().unwrap_or_default();
        line.trim_start_matches("granted: ").to_owned()
    }

    /// All grants that ann sees, the newest first.
    async fn all_grants(&self) -> Vec<Value> {
        let (status, listed) = self.says(ANN, &["grants", "list", "--json"]).await;
        assert_eq!(status, 0, "{listed}");
        let grants = listed.lines().map(serde_json::from_str);
        grants.collect::<Result<_, _>>().unwrap()
    }

    /// The grant as programs read it.
    async fn grant(&self, id: &str) -> Value {
        let (status, shown) = self.says(ANN, &["grants", "show", id, "--json"]).await;
        assert_eq!(status, 0, "{shown}");
        serde_json::from_str(&shown).unwrap()
    }

    async fn revokes(&self, id: &str) {
        let (status, said) = self
            .says(ANN, &["grants", "revoke", id, "--why", "no more"])
            .await;
        assert_eq!(status, 0, "{said}");
    }
}

/// What the gate made of a call: none where it ran.
pub(super) async fn pays(stage: &HoldingGate, arguments: Value, key: &str) -> Option<String> {
    code(&call(&stage.bot(), "pay", arguments, key).await)
}

fn is_asked(code: Option<&str>) -> bool {
    code == Some("approval_pending")
}

/// A grant of up to 5 to DE89 covers no other call of its agent, and none of another agent.
async fn asks_about_others(stage: &HoldingGate) {
    let others = [
        json!({ "n": 6, "to": "DE89" }),
        json!({ "n": 2, "to": "DE88" }),
        json!({ "n": 2, "to": "DE89", "more": 1 }),
        json!({ "n": 2 }),
        json!({ "n": "2", "to": "DE89" }),
    ];
    for (index, other) in others.into_iter().enumerate() {
        let asked = pays(stage, other.clone(), &format!("o{index}")).await;
        assert!(is_asked(asked.as_deref()), "{other}: {asked:?}");
    }
    let like = json!({ "n": 3, "to": "DE89", "note": 3 });
    let foreign = call(&stage.cat(), "pay", like, "k").await;
    assert!(is_asked(code(&foreign).as_deref()), "{foreign}");
}

/// 001-38, 001-54: a word on one call that counts for calls like it; each use names the grant, and what is not
/// like it is asked for as before.
#[tokio::test]
async fn calls_like_one_run_without_being_asked_about() {
    let stage = HoldingGate::granting().await;
    let shown = json!({ "n": 1, "to": "DE89", "note": "a" });
    let id = held(&call(&stage.bot(), "pay", shown.clone(), "k1").await);
    let words = [
        "allow",
        &id,
        "--why",
        "it is due",
        "--always",
        "--uses",
        "2",
        "--at-most",
        "/n=5",
        "--any",
        "/note",
    ];
    let (status, said) = stage.says(ANN, &words).await;
    assert!(
        status == 0 && said.contains("covered by the grant"),
        "{said}"
    );
    let grant = stage.all_grants().await[0].clone();
    let grant_id = grant["id"].as_str().unwrap();
    assert_eq!(
        grant["constraints"],
        json!([{ "pointer": "/n", "at_most": 5 }, { "pointer": "/note", "any": true }, { "pointer": "/to", "equals": "DE89" }])
    );
    // The call that was shown runs by the word on it, and takes no use.
    assert_eq!(pays(&stage, shown, "k1").await, None);
    assert_eq!(stage.grant(grant_id).await["uses"], 0);
    asks_about_others(&stage).await;
    let like = |n: u64| json!({ "n": n, "to": "DE89", "note": n });
    let ran = call(&stage.bot(), "pay", like(3), "k2").await;
    assert_eq!(code(&ran), None, "{ran}");
    let action = decision(&ran)["action_id"].clone();
    let fits = |entry: &Value| entry["action_id"] == action && entry["outcome"] == "answered";
    let entry = stage.entry(fits).await;
    assert_eq!(
        (&entry["grant"], &entry["approved_by"], &entry["approval"]),
        (&grant["id"], &json!(["ann"]), &Value::Null)
    );
    let words = ["ledger", "show", action.as_str().unwrap(), "--data", "data"];
    let (_, told, _) = run(&stage.gate.setup, &words).await;
    assert!(told.contains(grant_id), "{told}");
    // The stored answer is given again without another use.
    assert_eq!(pays(&stage, like(3), "k2").await, None);
    assert_eq!(stage.grant(grant_id).await["uses"], 1);
    assert_eq!(pays(&stage, like(4), "k3").await, None);
    assert!(is_asked(pays(&stage, like(5), "k4").await.as_deref()));
    let used = stage.grant(grant_id).await;
    assert_eq!(
        (&used["state"], &used["uses"]),
        (&json!("used_up"), &json!(2)),
        "{used}"
    );
    assert_eq!(stage.scripted.executions(), 3);
    let counted = stage.gate.metric("toolgate_grant_uses_total").await;
    assert!((counted - 2.0).abs() < 0.1, "{counted}");
}

/// A total counts what all calls move together, exactly.
#[tokio::test]
async fn a_total_is_not_gone_over() {
    let stage = HoldingGate::granting().await;
    let id = stage
        .grants(&["--at-most", "/n=2", "--total", "/n=0.3"])
        .await;
    for (key, n) in [("k1", 0.1), ("k2", 0.1)] {
        assert_eq!(pays(&stage, json!({ "n": n }), key).await, None);
    }
    assert!(is_asked(
        pays(&stage, json!({ "n": 0.2 }), "k3").await.as_deref()
    ));
    let left = stage.grant(&id).await;
    assert_eq!(
        (&left["state"], &left["total"]["moved"]),
        (&json!("active"), &json!("0.2"))
    );
    assert_eq!(pays(&stage, json!({ "n": 0.1 }), "k4").await, None);
    assert_eq!(stage.grant(&id).await["state"], "used_up");
    assert_eq!(stage.scripted.executions(), 3);
}

/// What is said of another tool changes nothing; another contract or definition ends the grant, and it says
/// so.
#[tokio::test]
async fn a_grant_dies_with_its_contract_and_its_definition() {
    let stage = HoldingGate::granting().await;
    let id = stage.grants(&["--at-most", "/n=5"]).await;
    reloads(&stage, |text| {
        text.replace("Pay a small bill.", "Pay a tiny bill.")
    })
    .await;
    assert_eq!(pays(&stage, json!({ "n": 1 }), "k1").await, None);
    let first = |text: &str| text.replacen("Pay a bill.", "Pay a large bill.", 1);
    reloads(&stage, first).await;
    assert!(is_asked(
        pays(&stage, json!({ "n": 2 }), "k2").await.as_deref()
    ));
    let dead = stage.grant(&id).await;
    assert_eq!(dead["state"], "dead", "{dead}");
    let (_, said) = stage.says(ANN, &["grants", "explain", &id]).await;
    assert!(
        said.contains("covers no call any more") && said.contains("the policy"),
        "{said}"
    );

    let id = stage.grants(&["--at-most", "/n=5"]).await;
    assert_eq!(pays(&stage, json!({ "n": 3 }), "k3").await, None);
    let mut tools = ["pay", "slow", "free", "wipe", "send"].map(tool).to_vec();
    tools[0]["description"] = json!("Pays twice.");
    stage.scripted.changes_tools(tools).await;
    until("the tool has changed", || async {
        (stage.grant(&id).await["state"] == "dead").then_some(())
    })
    .await;
    let changed = pays(&stage, json!({ "n": 4 }), "k4").await;
    assert!(is_asked(changed.as_deref()), "{changed:?}");
    assert_eq!(stage.scripted.executions(), 2);
}

/// Uses are kept over restarts and kills, and so is that a grant was taken back.
#[tokio::test]
async fn grants_outlive_toolgate() {
    for kill in [false, true] {
        let stage = HoldingGate::granting().await;
        let id = stage.grants(&["--at-most", "/n=5", "--uses", "3"]).await;
        let gone = stage.grants(&["--equals", "/n=7"]).await;
        assert_eq!(pays(&stage, json!({ "n": 1 }), "k1").await, None);
        stage.revokes(&gone).await;
        let stage = stage.again(kill).await;
        assert_eq!(stage.grant(&id).await["uses"], 1);
        assert_eq!(stage.grant(&gone).await["state"], "revoked");
        assert!(is_asked(
            pays(&stage, json!({ "n": 7 }), "k7").await.as_deref()
        ));
        assert_eq!(pays(&stage, json!({ "n": 2 }), "k2").await, None);
        assert_eq!(pays(&stage, json!({ "n": 3 }), "k3").await, None);
        let stage = stage.again(kill).await;
        assert!(is_asked(
            pays(&stage, json!({ "n": 4 }), "k4").await.as_deref()
        ));
        assert_eq!(stage.scripted.executions(), 3);
    }
}

/// An operator who asks is told which grant covers a call, and why each of the others does not.
#[tokio::test]
async fn an_operator_is_told_what_covers_a_call() {
    let stage = HoldingGate::granting().await;
    let (status, none) = stage.says(ANN, &["grants"]).await;
    assert!(
        status == 0 && none.contains("there are no standing grants"),
        "{none}"
    );
    let id = stage.grants(&["--at-most", "/n=5"]).await;
    let gone = stage.grants(&["--at-most", "/n=9"]).await;
    stage.revokes(&gone).await;
    let explains = async |agent: &str, tool: &str, arguments: &str| {
        let words = [
            "grants",
            "explain",
            "--tool",
            tool,
            "--agent",
            agent,
            "--tenant",
            "t_1",
            "--arguments",
            arguments,
        ];
        stage.says(ANN, &words).await.1
    };
    let covered = explains("bot", "bank__pay", r#"{ "n": 5 }"#).await;
    assert!(
        covered.contains(&format!("covered by the grant {id}")),
        "{covered}"
    );
    assert!(covered.contains("ann took it back: no more"), "{covered}");
    let missed = explains("bot", "bank__pay", r#"{ "n": 6 }"#).await;
    assert!(
        missed.contains("a person is asked") && missed.contains("`/n` is not as it was granted"),
        "{missed}"
    );
    let more = explains("bot", "bank__pay", r#"{ "n": 5, "to": "x" }"#).await;
    assert!(
        more.contains("does not speak of the argument `/to`"),
        "{more}"
    );
    let foreign = explains("cat", "bank__pay", r#"{ "n": 5 }"#).await;
    assert!(foreign.contains("it is for another agent"), "{foreign}");
    let never = explains("bot", "bank__send", "{}").await;
    assert!(never.contains("no grant can cover the call"), "{never}");
    let (_, listed) = stage.says(ANN, &["grants", "list"]).await;
    assert!(
        listed.contains(&id) && listed.contains("revoked"),
        "{listed}"
    );
    let (_, live) = stage.says(ANN, &["grants", "explain", &id]).await;
    assert!(live.contains("it can still cover a call"), "{live}");
}

//! What nobody can grant, and who cannot.

use super::*;

/// Refused with words that say why: what cannot be undone, what its contract asks for always, what several
/// people have to allow, and whom the roles do not name.
#[tokio::test]
async fn what_cannot_be_granted_says_so() {
    let stage = HoldingGate::granting().await;
    let always = |id: &str| {
        let words = ["allow", id, "--always", "--why", "due"];
        words.map(str::to_owned)
    };
    let says = async |stage: &HoldingGate, who: &str, words: [String; 5]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        stage.says(who, &words).await
    };
    let sent = held(&call(&stage.bot(), "send", json!({}), "k1").await);
    let (status, said) = says(&stage, ANN, always(&sent)).await;
    assert!(status == 1 && said.contains("irreversible"), "{said}");

    let paid = held(&call(&stage.bot(), "pay", json!({}), "k2").await);
    for (who, why) in [("bob", "expired or not found"), ("bot", "not for itself")] {
        let (status, said) = says(&stage, who, always(&paid)).await;
        assert!(status == 1 && said.contains(why), "{said}");
    }
    let wide = ["allow", &paid, "--always", "--why", "due", "--any", "/n"];
    let (status, said) = stage.says(ANN, &wide).await;
    assert!(
        status == 1 && said.contains("`approval.grant_any`"),
        "{said}"
    );
    let forgotten = ["allow", &paid, "--why", "due", "--uses", "3"];
    let (status, said) = stage.says(ANN, &forgotten).await;
    assert!(status == 2 && said.contains("--always"), "{said}");
    let adds = async |who: &str, tool: &str, agent: &str| {
        let words = [
            "grants", "add", "--tool", tool, "--agent", agent, "--tenant", "t_1", "--why", "due",
        ];
        stage.says(who, &words).await
    };
    for (who, tool, agent, why) in [
        ("bob", "bank__pay", "bot", "one of these roles"),
        ("bot", "bank__pay", "bot", "not for itself"),
        (ANN, "bank__send", "bot", "irreversible"),
        (ANN, "bank__free", "bot", "nobody is asked"),
        (ANN, "bank__wipe", "bot", "one of these roles"),
        (ANN, "bank__none", "bot", "no tool server lists the tool"),
        (ANN, "bank__pay", "nobody", "no agent of that name"),
    ] {
        let (status, said) = adds(who, tool, agent).await;
        assert!(status == 1 && said.contains(why), "{who} {tool}: {said}");
    }
    assert_eq!(stage.all_grants().await, Vec::<Value>::new());
    assert_eq!(stage.holds(2).await.len(), 2, "nothing is decided");

    // What others may decide about is not theirs to see.
    let id = stage.grants(&["--at-most", "/n=5"]).await;
    let (status, said) = stage.says("bob", &["grants", "show", &id]).await;
    assert!(status == 1 && said.contains("not found"), "{said}");
    let (status, said) = stage
        .says("bob", &["grants", "revoke", &id, "--why", "mine"])
        .await;
    assert!(status == 1 && said.contains("not found"), "{said}");
    assert_eq!(stage.grant(&id).await["state"], "active");
}

/// threat-model §3E: how a contract stands is told to who decides by it or audits, and to nobody else, neither by
/// a grant that is refused nor where it is asked what covers a call.
#[tokio::test]
async fn how_a_contract_stands_is_not_for_everybody() {
    let stage = HoldingGate::granting().await;
    for tool in ["bank__send", "bank__free", "bank__wipe", "bank__none"] {
        let about = ["--tool", tool, "--agent", "bot", "--tenant", "t_1"];
        let adds = [&["grants", "add", "--why", "due"][..], &about].concat();
        let explains = [&["grants", "explain", "--arguments", "{}"][..], &about].concat();
        for words in [&adds, &explains] {
            let (status, said) = stage.says("bob", words).await;
            let is_told = [
                "irreversible",
                "nobody is asked",
                "always",
                "no tool server",
            ]
            .iter()
            .any(|why| said.contains(why));
            assert!(
                status == 1 && said.contains("one of these roles") && !is_told,
                "{words:?}: {said}"
            );
        }
        let (status, said) = stage.says("uma", &explains).await;
        assert!(status == 0 && said.contains("no grant can cover"), "{said}");
    }
}

/// What could cover no call is not granted: an argument that the tool does not have, one that can never be so,
/// and nothing of one that every call has.
#[tokio::test]
async fn what_could_cover_no_call_is_not_granted() {
    let stage = HoldingGate::granting().await;
    let arguments = json!({ "n": { "type": "integer", "minimum": 3 }, "to": { "type": "string" } });
    let schema = json!({ "type": "object", "required": ["n"], "properties": arguments });
    let pay = json!({ "name": "pay", "description": "pays", "inputSchema": schema });
    let others = ["slow", "free", "wipe", "send"].map(tool);
    let tools = std::iter::once(pay).chain(others).collect();
    stage.scripted.changes_tools(tools).await;
    let adds = async |terms: &[&str]| {
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
            "due",
        ];
        stage.says(ANN, &[&words[..], terms].concat()).await
    };
    until("the new definition", || async {
        let (status, _) = adds(&["--at-most", "/n=2"]).await;
        (status == 1).then_some(())
    })
    .await;
    for (terms, why) in [
        (&["--at-most", "/n=2"][..], "`/n` is at least 3"),
        (&["--equals", "/n=x"], "`/n` is of the type integer"),
        (
            &["--at-most", "/n=9", "--equals", "/too=x"],
            "no argument `/too`",
        ),
        (
            &["--starts-with", "/to=DE"],
            "every call has the argument `/n`",
        ),
    ] {
        let (status, said) = adds(terms).await;
        let refused = said.contains("it could cover no call") && said.contains(why);
        assert!(status == 1 && refused, "{terms:?}: {said}");
    }
    let (status, said) = adds(&["--at-most", "/n=9", "--starts-with", "/to=DE"]).await;
    assert_eq!(status, 0, "{said}");
}

/// A contract that asks for always takes no grant, and one that needs several people neither; `check` says so.
#[tokio::test]
async fn a_contract_says_whether_grants_count() {
    for (more, why) in [
        ("", "`ask: always`"),
        (", ask: on-miss, required: 2", "2 people"),
    ] {
        let stage = HoldingGate::with(&policy(more), "enforce").await;
        let id = held(&call(&stage.bot(), "pay", json!({}), "k").await);
        let words = ["allow", &id, "--always", "--why", "due"];
        let (status, said) = stage.says(ANN, &words).await;
        assert!(status == 1 && said.contains(why), "{said}");
        let (_, checked, _) = run(&stage.gate.setup, &["check"]).await;
        let warns = checked.contains("no grant can cover a call that needs several people");
        assert_eq!(warns, more.contains("on-miss"), "{checked}");
    }
}

/// What an operator has denied stays denied, and what waits for a person waits for that person, whatever
/// is granted meanwhile.
#[tokio::test]
async fn a_grant_is_no_word_on_what_was_asked_before() {
    let stage = HoldingGate::granting().await;
    let denied = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k1").await);
    let (status, said) = stage
        .says(ANN, &["deny", &denied, "--why", "not this one"])
        .await;
    assert_eq!(status, 0, "{said}");
    let waits = held(&call(&stage.bot(), "pay", json!({ "n": 2 }), "k2").await);
    stage.grants(&["--at-most", "/n=5"]).await;
    let refused = pays(&stage, json!({ "n": 1 }), "k1").await;
    assert_eq!(refused.as_deref(), Some("approval_denied"));
    assert_eq!(
        held(&call(&stage.bot(), "pay", json!({ "n": 2 }), "k2").await),
        waits
    );
    assert_eq!(pays(&stage, json!({ "n": 3 }), "k3").await, None);
    assert_eq!(stage.scripted.executions(), 1);
}

//! Breakers, which open incidents by themselves: each kind that they count does, once for each call, and what
//! only has its agent wait does not.

use crate::harness::agent::{Agent, modern};
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::{Setup, contract};
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use crate::incidents::{CALLERS, CLERK, OPERATORS, ORDER, order, place, policy, says};
use serde_json::{Value, json};

const BOOK: &str = "oracle__book";
const LOOK: &str = "oracle__look";

/// The incidents that there are, newest first.
async fn opened(gate: &Gate) -> Vec<Value> {
    let (_, text) = says(Ok(gate), &["list", "--json"]).await;
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}")))
        .collect()
}

/// Waits until there are so many.
async fn opens(gate: &Gate, count: usize) -> Vec<Value> {
    until("an incident opens", || async {
        let all = opened(gate).await;
        (all.len() >= count).then_some(all)
    })
    .await
}

/// A shop that loses its answer to an order of 1, and says of all others that it could not. Over 100 nothing is
/// allowed, and up to that a person is asked about each booking.
async fn odd_shop(breakers: &str) -> (ScriptedServer, Gate) {
    let server = ScriptedServer::with(["create_order", "book"].map(tool).to_vec()).await;
    server.answers(
        |seen| match seen.body["params"]["arguments"]["amount"].as_u64() {
            Some(1) => Reply::Status(503),
            _ => Reply::Result(json!({ "content": [], "isError": true, "resultType": "complete" })),
        },
    );
    let asks = ", approval: { approvers: [lead], hold: 0s }, \
                rules: [ { code: too_much, when: \"arguments.amount > 100\" } ], \
                arguments: { properties: { amount: { type: integer } } }";
    let book = contract(BOOK, "write", asks);
    let all = format!("{}  {BOOK}: {book}\nbreakers:\n{breakers}", policy(100));
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", server.url()))
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(&all)
        .unwatched();
    (server, setup.start().await)
}

async fn books(agent: &Agent, amount: u32) -> Option<String> {
    let params = json!({ "name": BOOK, "arguments": { "amount": amount } });
    code(&agent.answered(&modern("tools/call", params)).await)
}

/// Each other kind opens one, too: what nobody knows, what breaks, and what is refused.
#[tokio::test]
async fn a_breaker_counts_each_kind() {
    for (bound, amount, words) in [
        ("unknown", 1, "unknown outcomes"),
        ("failures", 2, "failures"),
        ("refused", 200, "refusals"),
    ] {
        let breakers = format!("  - {{ tools: [\"oracle__*\"], {bound}: 0 }}\n");
        let (_server, gate) = odd_shop(&breakers).await;
        place(&gate.agent().token(CLERK), &order(amount), "once").await;
        let opened = opens(&gate, 1).await;
        let why = opened[0]["why"].as_str().unwrap();
        assert!(why.ends_with(words), "{bound}: {opened:?}");
        assert_eq!(opened[0]["scope"], ORDER, "{opened:?}");
    }
}

/// One call counts once, however often its agent asks what became of it: as unknown when it became so, as a failure
/// when its server said so.
#[tokio::test]
async fn an_agent_that_asks_again_counts_as_nothing() {
    for (bound, amount) in [("unknown", 1), ("failures", 2)] {
        // Incidents open in the order in which bounds are passed: the second tool's tells that none came before.
        let breakers = format!(
            "  - {{ tools: [{ORDER}], {bound}: 1 }}\n  - {{ tools: [{BOOK}], refused: 0 }}\n"
        );
        let (server, gate) = odd_shop(&breakers).await;
        let agent = gate.agent().token(CLERK);
        for _ in 0..4 {
            place(&agent, &order(amount), "once").await;
        }
        assert_eq!(server.executions(), 1, "{bound}");
        assert_eq!(books(&agent, 200).await.as_deref(), Some("too_much"));
        let first = opens(&gate, 1).await;
        assert_eq!((first.len(), &first[0]["scope"]), (1, &json!(BOOK)));

        // An equal order would only hear of the first one, whatever its key.
        let mut another = order(amount);
        another["business_id"] = json!("order-8");
        place(&agent, &another, "another").await;
        assert_eq!(server.executions(), 2, "{bound}");
        let scopes: Vec<Value> = opens(&gate, 2).await;
        let is_it = |one: &Value| one["scope"] == ORDER;
        assert!(scopes.iter().any(is_it), "{bound}: {scopes:?}");
    }
}

/// A tool that people decide on is not frozen for being used as it should, and is for what is refused.
#[tokio::test]
async fn who_waits_for_a_person_is_not_refused() {
    let breakers = format!("  - {{ tools: [{ORDER}, {BOOK}], refused: 0 }}\n");
    let (server, gate) = odd_shop(&breakers).await;
    let agent = gate.agent().token(CLERK);
    for amount in [3, 3, 4] {
        let said = books(&agent, amount).await;
        assert_eq!(said.as_deref(), Some("approval_pending"));
    }
    let refused = place(&agent, &order(200), "once").await;
    assert_eq!(code(&refused).as_deref(), Some("too_much"), "{refused}");
    let first = opens(&gate, 1).await;
    assert_eq!((first.len(), &first[0]["scope"]), (1, &json!(ORDER)));

    assert_eq!(books(&agent, 200).await.as_deref(), Some("too_much"));
    let both = opens(&gate, 2).await;
    assert!(both.iter().any(|one| one["scope"] == BOOK), "{both:?}");
    assert_eq!(server.executions(), 0);
}

/// A shop whose look-ups hang where they are told to, and fail else; over 100 nothing is booked.
async fn slow_shop() -> (ScriptedServer, Gate) {
    let server = ScriptedServer::with(["create_order", "book", "look"].map(tool).to_vec()).await;
    server.answers(|seen| {
        if seen.body["params"]["arguments"]["hangs"] == true {
            return Reply::Silence;
        }
        Reply::Result(json!({ "content": [], "isError": true, "resultType": "complete" }))
    });
    let rule = ", rules: [ { code: too_much, when: \"arguments.amount > 100\" } ], \
                arguments: { properties: { amount: { type: integer } } }";
    let (book, look) = (contract(BOOK, "write", rule), contract(LOOK, "read", ""));
    let breakers = format!(
        "breakers:\n  - {{ tools: [{LOOK}], failures: 2 }}\n  - {{ tools: [{BOOK}], refused: 0 }}\n"
    );
    let all = format!(
        "{}  {BOOK}: {book}\n  {LOOK}: {look}\n{breakers}",
        policy(100)
    );
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", server.url()))
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(&all)
        .unwatched();
    (server, setup.start().await)
}

/// Looks up as the `nth`, and gives it up once it is on its way.
async fn gives_up(server: &ScriptedServer, agent: &Agent, nth: u32) {
    let arguments = json!({ "hangs": true, "nth": nth });
    let message = modern(
        "tools/call",
        json!({ "name": LOOK, "arguments": arguments }),
    );
    let is_it = |seen: &Seen| seen.body["params"]["arguments"]["nth"] == nth;
    let seen = tokio::select! {
        _ = agent.post(&message) => panic!("it hangs"),
        seen = server.sees("a look-up", is_it) => seen,
    };
    server.closed(&seen.body["id"]).await;
}

/// A read that its agent gives up is no failure of its tool; and of a tool that does fail, those that are given up
/// hide nothing.
#[tokio::test]
async fn what_is_given_up_is_no_failure() {
    let (server, gate) = slow_shop().await;
    let agent = gate.agent().token(CLERK);
    for nth in 0..4 {
        gives_up(&server, &agent, nth).await;
    }
    gate.entries(4).await;
    // Incidents open in the order in which bounds are passed: this one tells that none came before.
    assert_eq!(books(&agent, 200).await.as_deref(), Some("too_much"));
    let first = opens(&gate, 1).await;
    assert_eq!((first.len(), &first[0]["scope"]), (1, &json!(BOOK)));

    for nth in 4..7 {
        gives_up(&server, &agent, nth).await;
        let params = json!({ "name": LOOK, "arguments": { "nth": nth } });
        let answer = agent.answered(&modern("tools/call", params)).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    let both = opens(&gate, 2).await;
    let of_look = both.iter().find(|one| one["scope"] == LOOK);
    let why = of_look.unwrap_or_else(|| panic!("{both:?}"))["why"].as_str();
    assert!(why.unwrap().ends_with("failures"), "{both:?}");
}

/// A breaker opens an incident by itself, once, for the tool alone whose calls passed the bound.
#[tokio::test]
async fn a_breaker_opens_an_incident_by_itself() {
    let server = Script::new()
        .tool(
            "create_order",
            Behaviour::Says(json!({ "content": [], "resultType": "complete" })),
        )
        .start()
        .await;
    let breakers = "breakers: [ { tools: [\"oracle__*\"], duplicates: 0 } ]\n";
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(&(policy(100) + breakers));
    let gate = setup.start().await;
    let agent = gate.agent().token(CLERK);
    place(&agent, &order(1), "once").await;
    place(&agent, &order(2), "another").await;
    let (_, listed) = says(Ok(&gate), &["list"]).await;
    assert_eq!(listed, "there is no incident\n");
    place(&agent, &order(1), "once more").await;
    let opened = until("an incident opens", || async {
        let (_, text) = says(Ok(&gate), &["list", "--json"]).await;
        let first = text.lines().next()?;
        Some(serde_json::from_str::<Value>(first).unwrap())
    })
    .await;
    assert_eq!(
        (&opened["who"], &opened["scope"], &opened["state"]),
        (&json!("breaker"), &json!(ORDER), &json!("open")),
        "{opened}"
    );
    let why = opened["why"].as_str().unwrap();
    assert!(why.contains("side effects that ran again"), "{why}");
    let refused = place(&agent, &order(3), "a third").await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(server.executions().len(), 3);
    let (_, text) = says(Ok(&gate), &["list", "--json"]).await;
    assert_eq!(text.lines().count(), 1, "{text}");
}

//! Loops that no task's own history shows: answers that are given again, and a new name for each
//! call.

use super::*;

/// Calls of a loop.
const LOOP: usize = 300;
/// Equal calls of one agent within an hour, whatever it names.
const MOST_OF_AGENT: usize = 250;

/// Another session with each call.
fn of_session(number: usize) -> Value {
    json!({ "dev.toolgate/session": format!("session {number}") })
}

/// Makes the same call again and again, each with the `_meta` of its number; counts those that
/// pass, and gives the code of the last.
async fn looping(agent: &Agent, tool: &str, meta: impl Fn(usize) -> Value) -> (usize, String) {
    let mut read = Vec::new();
    for n in 0..LOOP {
        let params = json!({ "name": tool, "arguments": { "n": 1 }, "_meta": meta(n) });
        let answer = agent.ask("tools/call", params).await;
        read.push(code(&answer).unwrap_or_default());
    }
    (passed(&read), read.pop().unwrap_or_default())
}

/// 003-115, 003-119: a loop of one agent comes to an end though it names a new task, session or
/// trace with each call.
#[tokio::test]
async fn a_loop_under_new_names_comes_to_an_end() {
    let of_task = |n: usize| json!({ "dev.toolgate/task": format!("task {n}") });
    let of_trace =
        |n: usize| json!({ "traceparent": format!("00-{:032x}-{:016x}-01", n + 1, n + 1) });
    let ways: [fn(usize) -> Value; 3] = [of_task, of_session, of_trace];
    for tool in ["bank__look", "bank__note"] {
        for meta in ways {
            let bank = Bank::with("").await;
            let read = looping(&bank.agent(), tool, meta).await;
            let expected = (MOST_OF_AGENT, "loop_detected".to_owned());
            assert_eq!(read, expected, "{tool} {}", meta(0));
            let next = json!({ "name": tool, "arguments": { "n": 1 }, "_meta": meta(LOOP) });
            let refused = bank.agent().ask("tools/call", next).await;
            let words = refused["result"]["content"][0]["text"].as_str().unwrap();
            assert!(words.contains("did not run again"), "it has run: {words}");
            let other = bank.agent().call(tool, json!({ "n": 2 })).await;
            assert_eq!(code(&other), None, "something else is tried: {other}");
            let warned = &other["result"]["_meta"][DECISION]["warning"];
            assert!(warned.is_null(), "{other}");
        }
    }
}

/// 003-115, 003-119: a policy that says other numbers for one task keeps the bound, and what is switched
/// off is off.
#[tokio::test]
async fn a_policy_may_let_a_loop_go_on() {
    for (policy, most) in [
        ("repetition: { stop: 20, stop_reads: 20 }\n", MOST_OF_AGENT),
        ("repetition: { stop: 20, stop_reads: 280 }\n", 280),
        ("repetition: { except: [bank__look] }\n", LOOP),
        ("repetition: { unwatched: true }\n", LOOP),
    ] {
        let bank = Bank::with(policy).await;
        let read = looping(&bank.agent(), "bank__look", of_session).await;
        assert_eq!(read.0, most, "{policy}");
    }
}

/// 003-115, 003-119: an agent that is given the same stored answer for ever goes in a circle, too,
/// whatever makes its calls the same.
#[tokio::test]
async fn a_loop_of_replays_comes_to_an_end() {
    let derived = CONTRACTS.replace(
        "secrets: []",
        "secrets: [], idempotency: { derive: arguments }",
    );
    let derived = derived.replacen(", idempotency: { derive: arguments }", "", 2);
    let key = |_| json!({ "dev.toolgate/idempotencyKey": "one" });
    let none = |_| json!({});
    // What the agent is told of a replay is another outcome than the first answer, but for the keyed
    // one, which is the first answer again.
    for (contracts, meta, most) in [
        (CONTRACTS, none as fn(usize) -> Value, 101),
        (CONTRACTS, key, 100),
        (&derived, none, 101),
    ] {
        let bank = Bank::of(contracts, "").await;
        let read = looping(&bank.agent(), "bank__note", meta).await;
        // The first answer, and that nothing ran now all other times.
        assert_eq!(read, (most, "loop_detected".to_owned()), "{contracts}");
        let params = json!({ "name": "bank__note", "arguments": { "n": 1 }, "_meta": meta(0) });
        let refused = bank.agent().ask("tools/call", params).await;
        let words = refused["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("did not run again"), "it has run: {words}");
        let done = &refused["result"]["_meta"][DECISION]["evidence"];
        assert_eq!(done.as_array().map(Vec::len), Some(1), "{refused}");
        assert_eq!(bank.server.executions(), 1);
        assert_eq!(bank.task().await["steps"], 1, "a replay takes no budget");
    }
}

/// guarantees §4, 003-115: an agent whose answers are lost is given the stored one as often as it asks
/// again, also where a policy lets few equal calls pass; only what no retry is comes to an end.
#[tokio::test]
async fn a_retry_is_answered_whatever_a_policy_says_of_loops() {
    let bank = Bank::with("repetition: { stop: 3, warn: 2 }\n").await;
    let key = |_| json!({ "dev.toolgate/idempotencyKey": "one" });
    let read = looping(&bank.agent(), "bank__note", key).await;
    assert_eq!(read, (MOST_OF_AGENT, "loop_detected".to_owned()));
    assert_eq!(bank.server.executions(), 1);
    let equal = codes(&bank.agent(), "bank__look", 5, |_| json!({})).await;
    assert_eq!(equal[2..], ["", "loop_detected", "loop_detected"]);
}

/// guarantees §3, 003-115: equal calls that wait for one in flight are that one, however many they are, and
/// no circle: the next of them is answered, too.
#[tokio::test]
async fn calls_that_join_one_in_flight_are_no_loop() {
    const JOINED: usize = 150;
    let bank = Bank::with("").await;
    let (answers, answer) = tokio::sync::oneshot::channel();
    let answer = std::sync::Mutex::new(Some(answer));
    bank.server.answers(move |seen| match seen.method() {
        "tools/call" => Reply::Later(answer.lock().unwrap().take().unwrap()),
        _ => Reply::Result(json!({})),
    });
    let agent = bank.agent();
    let note = || {
        let params = json!({ "name": "bank__note", "arguments": { "n": 1 } });
        agent.request("tools/call", params)
    };
    let first = agent.post(&note()).await;
    until("the first is sent", || async {
        (bank.server.executions() == 1).then_some(())
    })
    .await;
    // Each has come in once its answer has begun.
    let notes: Vec<Value> = (0..JOINED).map(|_| note()).collect();
    let joined = futures_util::future::join_all(notes.iter().map(|note| agent.post(note))).await;
    let done = json!({ "content": [{ "type": "text", "text": "done" }] });
    answers.send(Reply::Result(done)).ok().unwrap();
    for mut reading in joined.into_iter().chain([first]) {
        let answer = reading.whole().await;
        assert_eq!(code(&answer), None, "{answer}");
    }
    let next = agent.answered(&note()).await;
    assert_eq!(code(&next), None, "{next}");
    assert_eq!(bank.server.executions(), 1);
}

/// 003-115: one task that asks for the end of a job every time anew, and is told something new, goes on
/// where a policy says what a circle is.
#[tokio::test]
async fn a_task_that_waits_for_a_job_goes_on() {
    let bank = Bank::with("repetition: { stop: 20 }\n").await;
    let told = AtomicUsize::new(0);
    bank.server.answers(move |_| {
        let told = told.fetch_add(1, Ordering::Relaxed);
        let text = format!("{told} of 300 are done");
        Reply::Result(json!({ "content": [{ "type": "text", "text": text }] }))
    });
    let task = |_| json!({ "dev.toolgate/task": "wait" });
    let read = looping(&bank.agent(), "bank__look", task).await;
    assert_eq!(read, (LOOP, String::new()));
}

/// The other side: one agent with many sessions, all of which begin with the same call and then do
/// different things, meets no limit.
#[tokio::test]
async fn many_sessions_of_one_agent_meet_no_limit() {
    let bank = Bank::with("").await;
    let agent = bank.agent();
    for n in 0..LOOP {
        let meta = json!({ "dev.toolgate/session": format!("session {n}") });
        for arguments in [json!({}), json!({ "n": n })] {
            let params = json!({ "name": "bank__look", "arguments": arguments, "_meta": meta });
            let answer = agent.ask("tools/call", params).await;
            assert_eq!(code(&answer), None, "{n}: {answer}");
            let warning = &answer["result"]["_meta"][DECISION]["warning"];
            assert!(warning.is_null(), "{n}: {answer}");
        }
    }
}

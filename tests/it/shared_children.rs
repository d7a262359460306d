//! Processes of legacy servers on stdio: which sessions share one, how many there are, and when they
//! end (issue 17).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, runs};
use crate::harness::setup::Setup;
use crate::harness::stdio::StdioGate;
use crate::harness::until;
use serde_json::{Value, json};

/// Keeps what it is told as long as it runs, and notes when it starts and who introduces itself.
const CHILD: &str = r#"
import json, os, sys
kept = []
def note(word):
    with open(sys.argv[1], "a") as out: out.write(str(os.getpid()) + " " + word + "\n")
note("started")
print("reads", os.environ.get("BANK_FOLDER", "") + "/data", "as", os.environ.get("BANK_TOKEN", ""), file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params, result = message.get("method"), message.get("params", {}), None
    if "id" not in message:
        note(method)
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "child", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("keep", "pay", "undo")]}
    elif method == "tools/call":
        arguments = params.get("arguments", {})
        if arguments.get("die"):
            print("no such account", file=sys.stderr, flush=True)
            os._exit(3)
        kept.append(arguments.get("word", ""))
        result = {"content": [{"type": "text", "text": json.dumps(kept)}]}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None: answer["error"] = {"code": -32601, "message": "no such method"}
    else: answer["result"] = result
    print(json.dumps(answer), flush=True)
"#;

const CALLERS: &str = "  - { agent: ann, token: token-of-the-agent-ann, tenant: acme }\n  \
     - { agent: bob, token: token-of-the-agent-bob, tenant: globex }";

fn setup(servers: &[&str], more: &str) -> Setup {
    let mut setup = Setup::new()
        .environment("PATH", &std::env::var("PATH").unwrap())
        .callers(CALLERS);
    std::fs::write(setup.directory().join("child.py"), CHILD).unwrap();
    let mut contracts = Vec::new();
    for server in servers {
        let members = format!(
            "command: python3, args: [child.py, {server}.notes], cwd: ., env: {{ PATH: \"${{PATH}}\" }}{more}"
        );
        setup = setup.server_with(server, &members);
        contracts.push((format!("{server}__keep"), "read"));
        contracts.push((format!("{server}__pay"), "write"));
    }
    let contracts: Vec<_> = contracts
        .iter()
        .map(|(tool, action)| (&**tool, *action))
        .collect();
    setup.contracts(&contracts).unwatched()
}

async fn session(gate: &Gate, agent: &str) -> Agent {
    let agent = gate.agent().token(&format!("token-of-the-agent-{agent}"));
    agent.at("/mcp").declaring(json!({})).await
}

/// What the process behind this session has been told so far.
async fn keeps(session: &Agent, server: &str, word: &str) -> Value {
    let answer = session
        .call(&format!("{server}__keep"), json!({ "word": word }))
        .await;
    let text = answer["result"]["content"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

fn started(gate: &Gate, server: &str) -> Vec<String> {
    let text = std::fs::read_to_string(gate.path(&format!("{server}.notes"))).unwrap_or_default();
    let starts = text
        .lines()
        .filter_map(|line| line.strip_suffix(" started"));
    starts.map(str::to_owned).collect()
}

fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

/// 017: ten sessions share one process of each server, which is the one that was started for its tools
/// and its era; it was told once that its agent is ready.
#[tokio::test]
async fn ten_sessions_of_one_caller_share_the_process_that_was_started_first() {
    let gate = setup(&["a", "b"], "").start().await;
    let mut sessions = Vec::new();
    for number in 0..10 {
        let session = session(&gate, "ann").await;
        for server in ["a", "b"] {
            let kept = keeps(&session, server, &number.to_string()).await;
            assert_eq!(kept.as_array().unwrap().len(), number + 1, "{kept}");
        }
        sessions.push(session);
    }
    sessions[0].delete().await;
    keeps(&sessions[1], "a", "still there").await;
    for server in ["a", "b"] {
        assert_eq!(started(&gate, server).len(), 1, "{server}");
        let notes = std::fs::read_to_string(gate.path(&format!("{server}.notes"))).unwrap();
        let ready = notes
            .lines()
            .filter(|line| line.ends_with("notifications/initialized"));
        assert_eq!(ready.count(), 1, "{notes}");
    }
}

/// 017: agents leave without a word; then no process is left, and the next session starts one.
#[tokio::test]
async fn no_process_is_left_when_the_agents_have_gone() {
    let gate = setup(&["a", "b"], ", idle_timeout: 1s").start().await;
    let mut open = Vec::new();
    for number in 0..10 {
        let session = session(&gate, if number % 2 == 0 { "ann" } else { "bob" }).await;
        let stream = session.get(None).await;
        for server in ["a", "b"] {
            keeps(&session, server, "x").await;
        }
        open.push((session, stream));
    }
    let all = || [started(&gate, "a"), started(&gate, "b")].concat();
    let running = all().iter().filter(|pid| lives(pid)).count();
    assert!((2..=6).contains(&running), "{running} of {:?}", all());
    let sessions: Vec<_> = open.into_iter().map(|(session, _)| session).collect();
    until("no process is left", || async {
        (!all().iter().any(|pid| lives(pid))).then_some(())
    })
    .await;
    let before = all().len();
    assert_eq!(keeps(&sessions[0], "a", "again").await, json!(["again"]));
    assert!(all().len() > before);
}

/// 017: no session hears what another caller told the server, unless the operator says that all share.
#[tokio::test]
async fn callers_share_a_process_only_where_the_operator_says_so() {
    for (share, own, others) in [
        ("caller", json!(["ann", "ann"]), json!(["bob"])),
        ("none", json!(["ann"]), json!(["bob"])),
        ("all", json!(["ann", "ann"]), json!(["ann", "ann", "bob"])),
    ] {
        let gate = setup(&["a"], &format!(", share: {share}")).start().await;
        let (first, second) = (session(&gate, "ann").await, session(&gate, "ann").await);
        keeps(&first, "a", "ann").await;
        assert_eq!(keeps(&second, "a", "ann").await, own, "{share}");
        let third = session(&gate, "bob").await;
        assert_eq!(keeps(&third, "a", "bob").await, others, "{share}");
    }
}

/// 017: what a process was asked when it died is in the log, with how it ended; the sessions go on in a
/// new one.
#[tokio::test]
async fn a_death_is_told_with_what_it_leaves_unknown() {
    let gate = setup(&["a"], "").start().await;
    let (first, second) = (session(&gate, "ann").await, session(&gate, "ann").await);
    keeps(&second, "a", "before").await;
    let answer = first.call("a__pay", json!({ "die": true })).await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("outcome_unknown"),
        "{answer}"
    );
    let entry = gate.entries(2).await.pop().unwrap();
    let action = entry["action_id"].as_str().unwrap();
    let told = until("the death is in the log", || async {
        let log = gate.log();
        let line = log.lines().find(|line| line.contains("outcome unknown"));
        line.map(str::to_owned)
    })
    .await;
    for part in [
        r#""level":"WARN""#,
        r#""server":"a""#,
        "status 3",
        "no such account",
        action,
    ] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert_eq!(keeps(&second, "a", "after").await, json!(["after"]));
    assert_eq!(keeps(&first, "a", "after").await, json!(["after", "after"]));
}

/// 017: `toolgate stdio` names the server after its program and keeps a ledger for each; one command
/// reads them all. A line of the server's own stays readable, but for secrets.
#[tokio::test]
async fn what_is_wrapped_has_its_name_and_its_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new()
        .environment("XDG_STATE_HOME", directory.path().to_str().unwrap())
        .environment("BANK_FOLDER", "/srv/before")
        .environment("BANK_TOKEN", "tok-of-the-bank-1");
    std::fs::write(setup.directory().join("child.py"), CHILD).unwrap();
    let arguments = ["--", "python3", "child.py", "notes"];
    let mut first = StdioGate::start_with(&setup, &arguments);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "agent", "version": "1" } } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "keep", "arguments": {} } });
    first.ask(hello.to_string().as_bytes()).await;
    until("the server's line is in the log", || async {
        let log = std::fs::read_to_string(setup.directory().join("stdio.log")).unwrap();
        assert!(!log.contains("tok-of-the-bank-1"), "{log}");
        log.contains("reads /srv/before/data as [env BANK_TOKEN]")
            .then_some(())
    })
    .await;
    let mut second = StdioGate::start_with(&setup, &arguments);
    second.ask(hello.to_string().as_bytes()).await;
    for gate in [&mut first, &mut second] {
        let answer = gate.ask(call.to_string().as_bytes()).await.message();
        assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
    }
    first.close().await;
    second.close().await;
    let notes = std::fs::read_to_string(setup.directory().join("notes")).unwrap();
    assert_eq!(notes.matches(" started").count(), 2, "{notes}");
    for place in ["child", "child.2"] {
        let journal = directory
            .path()
            .join("toolgate/stdio")
            .join(place)
            .join("journal");
        assert!(journal.is_dir(), "{}", journal.display());
    }
    listed_together(&setup).await;
}

/// All ledgers are one table, whose second column says which server each call is of, by their times.
async fn listed_together(setup: &Setup) {
    let (status, out, err) = runs(setup, "ledger --stdio list").await;
    assert_eq!(
        (status, out.matches("child__keep").count()),
        (0, 2),
        "{out}{err}"
    );
    let rows: Vec<Vec<_>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let column = |row: &Vec<&str>| row[1].to_owned();
    let mut servers: Vec<_> = rows.iter().map(column).collect();
    servers[1..].sort();
    servers.dedup();
    assert_eq!(servers, ["SERVER", "child", "child.2"], "{out}{err}");
    let (_, out, _) = runs(setup, "ledger --stdio list --json").await;
    let calls: Vec<Value> = out.lines().map(|line| line.parse().unwrap()).collect();
    let mut named: Vec<_> = calls.iter().map(|call| call["server"].as_str()).collect();
    named.sort();
    named.dedup();
    assert_eq!(named, [Some("child"), Some("child.2")], "{out}");
    let time =
        |call: &Value| -> jiff::Timestamp { call["time"].as_str().unwrap().parse().unwrap() };
    assert!(calls.is_sorted_by_key(time), "{out}");
}

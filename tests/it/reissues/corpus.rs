//! Sequences of calls as agents make them with working copies, files, a memory, a browser and
//! tickets: what runs is what the corpus says, step by step, where contracts say `derive: retry`.

mod recorded;

use super::{BOT, bot, contract, is_replayed};
use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const CORPUS: &str = include_str!("corpus.txt");
/// Fewer would be no corpus.
const FEWEST_SEQUENCES: usize = 200;
/// A server's log is read whole after each step.
const SEQUENCES_OF_ONE_BENCH: usize = 40;
/// What the real servers of these tools say of themselves: a second time changes nothing.
const IDEMPOTENT: [&str; 7] = [
    "git_add",
    "git_reset",
    "write_file",
    "create_directory",
    "delete_entities",
    "delete_observations",
    "delete_relations",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Reads,
    Runs,
    Lost,
    SentAgain,
    MeantAgain,
}

#[derive(Debug, Clone)]
struct Step {
    kind: StepKind,
    tool: &'static str,
    arguments: Value,
}

/// A line of the corpus.
struct Sequence {
    name: &'static str,
    steps: Vec<Step>,
}

/// The lines that are sequences.
fn corpus() -> Vec<Sequence> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter_map(|line| line.split_once(" | "));
    let all: Vec<_> = lines
        .map(|(name, steps)| Sequence {
            name,
            steps: steps_of(steps),
        })
        .collect();
    assert!(all.len() >= FEWEST_SEQUENCES, "{}", all.len());
    all
}

fn steps_of(text: &'static str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some((written, after)) = rest.split_once(')') {
        let after = after.trim_start_matches(' ');
        let (is_lost, after) = match after.strip_prefix('!') {
            Some(after) => (true, after.trim_start()),
            None => (false, after),
        };
        let (head, arguments) = written.split_once('(').expect("TOOL(WHAT)");
        let kind = match head.chars().next() {
            Some('?') => StepKind::Reads,
            Some('~') => StepKind::SentAgain,
            Some('+') => StepKind::MeantAgain,
            _ if is_lost => StepKind::Lost,
            _ => StepKind::Runs,
        };
        let tool = head.trim_start_matches(['?', '~', '+']);
        let arguments = match arguments.split_once(" @") {
            Some((what, place)) => json!({ "what": what, "where": place }),
            None => json!({ "what": arguments }),
        };
        steps.push(Step {
            kind,
            tool,
            arguments,
        });
        rest = after;
    }
    assert!(rest.is_empty(), "{rest}");
    steps
}

/// Every tool of the corpus, and whether it only reads.
fn tools(corpus: &[Sequence]) -> BTreeMap<&'static str, bool> {
    let steps = corpus.iter().flat_map(|sequence| &sequence.steps);
    steps
        .map(|step| (step.tool, step.kind == StepKind::Reads))
        .collect()
}

struct Bench {
    server: ToolServer,
    gate: Gate,
    /// Calls that were sent again and answered from memory.
    suppressed: usize,
    /// Calls that were sent again.
    copies: usize,
}

impl Bench {
    /// Before a server of these tools, which says of them what `says` does.
    async fn of(tools: &BTreeMap<&'static str, bool>, says: fn(&str) -> Value) -> Self {
        let script = tools.keys().fold(Script::new(), |script, tool| {
            let definition = json!({ "name": tool, "inputSchema": { "type": "object" }, "annotations": says(tool) });
            script.definition(definition, Behaviour::Held)
        });
        let server = script.start().await;
        let one = |(tool, reads): (&&str, &bool)| match reads {
            true => format!("  s__{tool}: {{ purpose: test, actions: [read], secrets: [] }}\n"),
            false => contract(&format!("s__{tool}"), ", idempotency: { derive: retry }"),
        };
        let lines: String = tools.iter().map(one).collect();
        let gate = Setup::new()
            .server("s", &server)
            .policy(&format!("contracts:\n{lines}"))
            .callers(BOT)
            .start()
            .await;
        Self {
            server,
            gate,
            suppressed: 0,
            copies: 0,
        }
    }

    /// The answer to a call, and whether it came from memory.
    async fn asks(&self, step: &Step, session: usize, key: Option<&str>) -> (Value, bool) {
        let agent = bot(&self.gate);
        let request = request(&agent, step, session, key);
        self.server.release();
        let answer = agent.answered(&request).await;
        assert!(answer["result"]["content"].is_array(), "{step:?}: {answer}");
        let is_replayed = is_replayed(&answer);
        if is_replayed {
            // What was let go for it runs nothing: the next call takes it.
            self.server.take_back().await;
        }
        (answer, is_replayed)
    }

    /// A call of whose answer the agent never reads a byte.
    async fn loses(&self, step: &Step, session: usize) {
        let agent = bot(&self.gate);
        let request = request(&agent, step, session, None);
        let bytes = agent.encoded(&agent.mirrored(&request), request.to_string().as_bytes());
        let before = self.server.executions().len();
        let mut connection = TcpStream::connect(self.gate.agents).await.unwrap();
        connection.write_all(&bytes).await.unwrap();
        until("the call runs", || async {
            (self.server.executions().len() > before).then_some(())
        })
        .await;
        drop(connection);
        self.server.release();
    }

    /// Goes through a sequence; how often each of its steps is to run.
    async fn goes(&mut self, number: usize, sequence: &Sequence, hints: bool) -> Vec<Step> {
        let mut expected = Vec::new();
        for (at, step) in sequence.steps.iter().enumerate() {
            let is_free = hints && IDEMPOTENT.contains(&step.tool);
            let (mut runs, name) = (true, sequence.name);
            match step.kind {
                StepKind::Lost => self.loses(step, number).await,
                StepKind::Reads | StepKind::Runs => {
                    let (answer, is_replayed) = self.asks(step, number, None).await;
                    assert!(!is_replayed, "a false join, {name}, {step:?}: {answer}");
                }
                StepKind::SentAgain => {
                    let (answer, is_replayed) = self.asks(step, number, None).await;
                    // A copy of a free one joins while the first is in flight.
                    assert!(is_replayed || is_free, "{name}, {step:?}: {answer}");
                    self.copies += 1;
                    self.suppressed += usize::from(is_replayed);
                    runs = !is_replayed;
                }
                StepKind::MeantAgain => {
                    let (told, is_replayed) = self.asks(step, number, None).await;
                    assert_eq!(is_replayed, !is_free, "{name}, {step:?}: {told}");
                    if is_replayed {
                        let words = told["result"]["content"][0]["text"].as_str().unwrap();
                        assert!(words.contains("Nothing ran now"), "{words}");
                        let key = format!("again {number} {at}");
                        let (answer, is_replayed) = self.asks(step, number, Some(&key)).await;
                        assert!(!is_replayed, "{name}, {step:?}: {answer}");
                    }
                }
            }
            if runs {
                expected.push(step.clone());
            }
        }
        expected
    }
}

fn request(agent: &Agent, step: &Step, session: usize, key: Option<&str>) -> Value {
    let mut arguments = step.arguments.clone();
    if let Some(key) = key {
        arguments["idempotency_key"] = json!(key);
    }
    let meta = json!({ "dev.toolgate/session": format!("session {session}") });
    let name = format!("s__{}", step.tool);
    agent.request(
        "tools/call",
        json!({ "name": name, "arguments": arguments, "_meta": meta }),
    )
}

/// How often a call was sent again, and how often that was answered from memory.
#[derive(Default)]
struct Copies {
    all: usize,
    suppressed: usize,
}

async fn goes_through(says: fn(&str) -> Value, hints: bool) -> Copies {
    let mut copies = Copies::default();
    for part in corpus().chunks(SEQUENCES_OF_ONE_BENCH) {
        let bench = goes_through_part(part, says, hints).await;
        copies.all += bench.copies;
        copies.suppressed += bench.suppressed;
    }
    copies
}

async fn goes_through_part(corpus: &[Sequence], says: fn(&str) -> Value, hints: bool) -> Bench {
    let mut bench = Bench::of(&tools(corpus), says).await;
    for (number, sequence) in corpus.iter().enumerate() {
        let before = bench.server.executions().len();
        let expected = bench.goes(number, sequence, hints).await;
        let expected: Vec<_> = expected
            .iter()
            .map(|step| (step.tool.to_owned(), step.arguments.clone()))
            .collect();
        let executed = bench.server.executions().split_off(before);
        let executed: Vec<_> = executed
            .into_iter()
            .map(|one| (one.tool, one.arguments))
            .collect();
        assert_eq!(executed, expected, "{}", sequence.name);
    }
    bench
}

/// 004-08, 004-11: servers that say nothing of their tools. No call that is meant is answered from
/// memory in silence, and every call that is sent again is.
#[tokio::test]
async fn each_step_runs_as_the_corpus_says() {
    let copies = goes_through(|_| json!({}), false).await;
    assert!(copies.all > 150, "{}", copies.all);
    assert_eq!(copies.suppressed, copies.all);
}

/// 004-08: servers that call tools idempotent. A copy of such a call may run again, as they say, and
/// nothing else does.
#[tokio::test]
async fn what_servers_call_idempotent_is_answered_anew() {
    let says = |tool: &str| json!({ "idempotentHint": IDEMPOTENT.contains(&tool) });
    let copies = goes_through(says, true).await;
    assert!(copies.suppressed < copies.all && copies.suppressed > 100);
}

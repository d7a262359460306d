//! What an agent did with three servers as they are published (`examples/everyday`, which
//! `tests/tools/everyday` compares with those servers themselves), each with its own part of it.

use super::{IDEMPOTENT, Sequence, Step, StepKind, goes_through_part};
use serde_json::json;

const SESSION: &str = include_str!("../../../../examples/everyday/README.md");
/// How the names of tools begin that only read.
const READS: [&str; 9] = [
    "git_status",
    "git_diff",
    "git_log",
    "git_branch",
    "list_",
    "read_",
    "search_",
    "open_",
    "get_",
];

/// What ran at this server, in its order. A call that was refused never came there.
fn recorded(server: &'static str) -> Sequence {
    let (_, after) = SESSION.split_once("```text\n").expect("the session");
    let (lines, _) = after.split_once("```").expect("its end");
    let steps = lines.lines().filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (of, tool) = name.split_once("__")?;
        let (outcome, arguments) = rest.trim().split_once('{')?;
        let has_run = ["answered", "server's error"].contains(&outcome.trim());
        let reads = READS.iter().any(|begin| tool.starts_with(begin));
        (of == server && has_run).then(|| Step {
            kind: if reads {
                StepKind::Reads
            } else {
                StepKind::Runs
            },
            tool,
            arguments: serde_json::from_str(&format!("{{{arguments}")).expect("arguments"),
        })
    });
    Sequence {
        name: server,
        steps: steps.collect(),
    }
}

/// The same with the answer of the step at `at` lost, and its call sent again at once.
fn with_one_lost(sequence: &Sequence, at: usize) -> Sequence {
    let mut steps = sequence.steps.clone();
    let mut again = steps[at].clone();
    steps[at].kind = StepKind::Lost;
    again.kind = StepKind::SentAgain;
    steps.insert(at + 1, again);
    Sequence {
        name: sequence.name,
        steps,
    }
}

/// 004-08, 004-11: everything that ran runs, once; and where one answer is lost and its call sent again, it
/// does so, too, unless its server says that a second one changes nothing.
#[tokio::test]
async fn a_recorded_session_runs_as_it_did() {
    let says = |tool: &str| json!({ "idempotentHint": IDEMPOTENT.contains(&tool) });
    for (server, fewest) in [("git", 20), ("filesystem", 12), ("memory", 8)] {
        let whole = recorded(server);
        assert!(whole.steps.len() >= fewest, "{server}: {:?}", whole.steps);
        let writes: Vec<usize> = (0..whole.steps.len())
            .filter(|at| whole.steps[*at].kind == StepKind::Runs)
            .collect();
        let lost = writes.iter().map(|at| with_one_lost(&whole, *at));
        let mut all: Vec<Sequence> = lost.collect();
        all.push(whole);
        let bench = goes_through_part(&all, says, true).await;
        assert_eq!(bench.copies, writes.len(), "{server}");
    }
}

//! Reads that are summed up count like the same reads one after the other.

use super::*;
use crate::model::task::TaskOrigin;
use crate::store::state::command::SteerTask;
use crate::store::state::command::TaskTally;
use crate::store::state::count_reads;
use crate::store::state::event::TaskAct;
use crate::store::state::tally::{EndedRead, ReadTally};
use proptest::prelude::*;

const TOOLS: [&str; 3] = ["bank__see", "bank__list", "mail__read"];

/// A read, and whether it was sent.
#[derive(Debug, Clone)]
struct SomeRead {
    tool: usize,
    cost: u64,
    is_sent: bool,
    failed: bool,
    seen: SeenCall,
}

fn some_read() -> impl Strategy<Value = SomeRead> {
    (0..TOOLS.len(), 0..4_u64, 0..8_u8, 0..3_u64, 0..3_u64).prop_map(
        |(tool, cost, how, call, outcome)| SomeRead {
            tool,
            cost,
            is_sent: how > 0,
            failed: how == 1,
            seen: SeenCall {
                call,
                outcome,
                refused: how == 0,
                times: 1,
            },
        },
    )
}

fn spend_of(read: &SomeRead) -> StoreCommand {
    let charge = if read.is_sent {
        Charge::Hold
    } else {
        Charge::Release
    };
    StoreCommand::Spend(Spend {
        account: None,
        task: named("task"),
        tool: ToolName::new(TOOLS[read.tool]),
        charge: Some((read.cost, charge)),
        failed: read.failed,
        seen: Some(read.seen),
        since: Some(START_MS),
        is_refused: false,
        is_past: false,
    })
}

fn tally_of(reads: &[SomeRead]) -> StoreCommand {
    let mut sum = ReadTally::default();
    for read in reads {
        let tool = ToolName::new(TOOLS[read.tool]);
        sum.extend(ReadTally::of(EndedRead {
            sent: read.is_sent.then_some((tool, read.cost)),
            failed: read.failed,
            seen: read.seen,
        }));
    }
    StoreCommand::Tally(TaskTally {
        task: named("task"),
        reads: sum,
        since: START_MS,
        idle: Some(1000),
        origin: TaskOrigin::default(),
    })
}

/// Counts the reads one after the other, as those are that something written limits.
fn count_each(view: &mut StoreView, reads: &[SomeRead]) {
    for read in reads {
        let mut reserve = reserve(&BudgetLimits::default(), TOOLS[read.tool], read.cost);
        if let StoreCommand::Reserve(reserve) = &mut reserve {
            reserve.origin = Some(TaskOrigin::default());
        }
        run(view, &reserve, START_MS).unwrap();
        run(view, &spend_of(read), START_MS).unwrap();
    }
}

proptest! {
    /// 003-115, 003-119: however reads are cut into sums, and whatever is counted between these, the task
    /// is the same afterwards.
    #[test]
    fn sums_are_what_their_reads_are(
        reads in prop::collection::vec(some_read(), 1..200),
        size in 1..40_usize,
        is_mixed in any::<bool>(),
    ) {
        let (mut each, mut summed) = (StoreView::default(), StoreView::default());
        count_each(&mut each, &reads);
        // A sum ends with the read that fills it, as reads are counted.
        for (number, some) in reads.chunks(size.min(MAX_SEEN_CALLS)).enumerate() {
            if is_mixed && number.is_multiple_of(2) {
                count_each(&mut summed, some);
            } else {
                run(&mut summed, &tally_of(some), START_MS).unwrap();
            }
        }
        let unsent_tools = |view: StoreView| {
            let mut task = view.task.unwrap();
            task.tools.retain(|_, used| used.calls > 0);
            task
        };
        prop_assert_eq!(unsent_tools(each), unsent_tools(summed));
    }
}

proptest! {
    /// guarantees §6: reads that are counted without an event are counted as their event counts them, in a
    /// task that goes on and in one that has ended idle.
    #[test]
    fn reads_are_counted_as_their_event_counts_them(
        reads in prop::collection::vec((some_read(), 0..1500_u64), 1..24),
        size in 1..4_usize,
    ) {
        let (mut view, mut now) = (StoreView::default(), START_MS);
        for some in reads.chunks(size) {
            let counted: Vec<_> = some.iter().map(|(read, _)| read.clone()).collect();
            let mut tally = tally_of(&counted);
            let mut shorter = view.clone();
            if let StoreCommand::Tally(tally) = &mut tally {
                tally.since = now;
                now += some.iter().map(|(_, pause)| pause).sum::<u64>();
                count_reads(tally, &mut shorter, now);
            }
            run(&mut view, &tally, now).unwrap();
            prop_assert_eq!(&shorter, &view);
        }
    }
}

/// guarantees §6: reads of a task that has ended idle begin another, and those of one that an operator
/// has stopped leave it stopped.
#[test]
fn sums_begin_a_task_that_has_ended() {
    let read = SomeRead {
        tool: 0,
        cost: 2,
        is_sent: true,
        failed: false,
        seen: SeenCall {
            call: 1,
            outcome: 1,
            refused: false,
            times: 1,
        },
    };
    let mut view = StoreView::default();
    run(&mut view, &tally_of(std::slice::from_ref(&read)), START_MS).unwrap();
    let later = |view: &mut StoreView| {
        let mut tally = tally_of(std::slice::from_ref(&read));
        if let StoreCommand::Tally(tally) = &mut tally {
            tally.since = START_MS + 1000;
        }
        run(view, &tally, START_MS + 1001).unwrap();
        let task = view.task.as_ref().unwrap();
        (task.began, task.steps, task.cost, task.stopped.is_some())
    };
    let mut stopped = view.clone();
    let stop = StoreCommand::Steer(SteerTask {
        task: named("task"),
        act: TaskAct::Stop,
        who: "ann".to_owned(),
        why: "it is due".to_owned(),
    });
    run(&mut stopped, &stop, START_MS + 1).unwrap();
    assert_eq!(later(&mut view), (START_MS + 1000, 1, 2, false));
    assert_eq!(later(&mut stopped), (START_MS, 2, 4, true));
}

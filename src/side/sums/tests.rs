//! What is written by itself, and what is summed up.

use super::*;
use serde_json::json;

fn entry(number: u32, agent: &str, tool: &str, code: &str) -> Box<Entry> {
    let entry = json!({
        "time": format!("2026-01-01T00:00:00.{number:06}Z"), "action_id": number.to_string(), "request_id": "1",
        "trace_id": "t", "user_id": agent, "roles": [], "revision": "2026-07-28", "tool": tool, "params_hash": "p",
        "actions": [], "state": "execute", "event": "fail", "outcome": "refused", "aborted_reason": code,
        "schema_hash": tool.strip_prefix("offered__"), "stage": "visible", "latency_ms": 0.1, "gate_ms": 0.1, "upstream_ms": 0.0, "policy": "v",
    });
    Box::new(serde_json::from_value(entry).unwrap())
}

const NOW: Duration = Duration::from_secs(1_000_000);

/// threat-model §13 F14: beyond the rate one entry stands for all, nothing is lost or counted
/// twice, and each kind by itself.
#[test]
fn refusals_beyond_a_rate_are_one_entry_each_minute() {
    let sums = OpenSums::default();
    let written = |agent: &str, tool: &str, from: u32, count: u32, now: Duration| {
        (from..from + count)
            .filter(|number| {
                sums.take(entry(*number, agent, tool, "c"), now, false)
                    .is_some()
            })
            .count()
    };
    assert_eq!(written("a", "s__t", 0, 2_000, NOW), 100);
    assert_eq!(written("a", "s__other", 2_000, 50, NOW), 50, "another tool");
    assert_eq!(written("b", "s__t", 3_000, 50, NOW), 50, "another agent");
    assert!(
        sums.drain(NOW + SUM_DURATION / 2, false).is_empty(),
        "not yet"
    );
    let drained = sums.drain(NOW + SUM_DURATION, false);
    let [sum] = drained.as_slice() else {
        panic!("{drained:?}")
    };
    assert_eq!(
        (sum.count, sum.action_id.as_str(), sum.tool.as_str()),
        (Some(1_900), "1999", "s__t")
    );
    assert_eq!(
        sum.first_time.as_deref(),
        Some("2026-01-01T00:00:00.000100Z")
    );
    assert_eq!(
        written("a", "s__t", 4_000, 1, NOW + SUM_DURATION),
        1,
        "the rate is kept again"
    );
    assert!(sums.drain(NOW + SUM_DURATION, true).is_empty());
    sums.drain(NOW + 100 * SUM_DURATION, false);
    assert!(sums.0.lock().is_empty(), "nothing is kept of what is over");
}

/// An agent that makes up names of tools fills neither memory nor ledger, and each refusal counts
/// once.
#[test]
fn made_up_names_are_summed_up_without_them() {
    let sums = OpenSums::default();
    let mut written = 0_u64;
    for number in 0..20_000 {
        written += u64::from(
            sums.take(entry(number, "a", &format!("s__{number}"), "c"), NOW, false)
                .is_some(),
        );
    }
    assert!(
        sums.0
            .lock()
            .values()
            .all(|agent| agent.rooms.0[0].len() <= MAX_KINDS_PER_ROOM[0] + 1)
    );
    let drained = sums.drain(NOW, true);
    assert!(
        drained.len() <= MAX_KINDS_PER_ROOM[0] + 1 && written <= 1_000,
        "{} {written}",
        drained.len()
    );
    let summed: u64 = drained.iter().map(|entry| entry.count.unwrap_or(1)).sum();
    assert_eq!(written + summed, 20_000);
    assert!(
        drained
            .iter()
            .all(|entry| entry.tool == SEVERAL_TOOLS && entry.count.is_some())
    );
}

/// Without room nothing is written by itself.
#[test]
fn without_room_everything_is_summed_up() {
    let sums = OpenSums::default();
    assert!((0..3).all(|number| {
        sums.take(entry(number, "a", "s__t", "c"), NOW, true)
            .is_none()
    }));
    assert_eq!(sums.drain(NOW, true)[0].count, Some(3));
}

/// An agent that makes up names hides no tool that is offered, nor does one that asks for many
/// earlier calls again; what is offered is told apart as long as there are no more than anybody
/// offers.
#[test]
fn made_up_names_hide_no_tool_that_is_offered() {
    let sums = OpenSums::default();
    let take = |entry: Box<Entry>| sums.take(entry, NOW, true).map(drop);
    for number in 0..1_000 {
        take(entry(number, "a", &format!("s__{number}"), "c"));
        take(Box::new(Entry {
            claimed_by: Some(number.to_string()),
            ..*entry(number, "a", "offered__again", "c")
        }));
    }
    for number in 0..300 {
        take(entry(number, "a", &format!("offered__{number}"), "c"));
    }
    let drained = sums.drain(NOW, true);
    let summed: u64 = drained.iter().map(|entry| entry.count.unwrap_or(1)).sum();
    assert_eq!(summed, 2_300);
    for number in 0..300 {
        assert!(
            drained
                .iter()
                .any(|entry| entry.tool == format!("offered__{number}")),
            "{number}"
        );
    }
    let again: Vec<_> = drained
        .iter()
        .filter(|entry| entry.tool == "offered__again")
        .collect();
    assert_eq!(
        again.len(),
        MAX_KINDS_PER_ROOM[1] + 1,
        "earlier calls are told apart up to a bound"
    );
    assert!(
        drained.len() <= MAX_KINDS_PER_ROOM.iter().sum::<usize>() + 3,
        "{}",
        drained.len()
    );
}

/// Users are names that an agent makes up: they fill half of a room, and hide no tool.
#[test]
fn made_up_users_hide_no_tool_that_is_offered() {
    let sums = OpenSums::default();
    let for_user = |number: u32, tool: &str| {
        let entry = entry(number, &number.to_string(), tool, "c");
        Box::new(Entry {
            agent_id: Some("a".to_owned()),
            ..*entry
        })
    };
    for number in 0..1_000 {
        assert!(
            sums.take(for_user(number, "offered__one"), NOW, true)
                .is_none()
        );
    }
    for number in 0..200 {
        let tool = format!("offered__{number}");
        assert!(sums.take(for_user(5_000, &tool), NOW, true).is_none());
    }
    let drained = sums.drain(NOW, true);
    let summed: u64 = drained.iter().map(|entry| entry.count.unwrap_or(1)).sum();
    assert_eq!(summed, 1_200);
    for number in 0..200 {
        let tool = format!("offered__{number}");
        assert!(drained.iter().any(|entry| entry.tool == tool), "{tool}");
    }
    assert!(drained.iter().all(|entry| entry.agent() == "a"));
    let named = drained.iter().filter(|entry| entry.named_user().is_some());
    assert_eq!(named.count(), MAX_KINDS_PER_ROOM[2] / 2);
}

/// What differs in what it means is never in one sum.
#[test]
fn a_sum_is_of_one_meaning() {
    let one = || *entry(0, "a", "offered__t", "c");
    let kinds = [
        one(),
        Entry {
            outcome: "failed".to_owned(),
            ..one()
        },
        Entry {
            aborted_reason: None,
            ..one()
        },
        Entry {
            would_refuse: Some("c".to_owned()),
            ..one()
        },
        Entry {
            unasked: vec!["confirms".to_owned()],
            ..one()
        },
        Entry {
            is_error: Some(true),
            ..one()
        },
        Entry {
            attempts: 1,
            ..one()
        },
        Entry {
            policy: "w".to_owned(),
            ..one()
        },
        Entry {
            claimed_by: Some("1".to_owned()),
            ..one()
        },
        Entry {
            approval: Some("1".to_owned()),
            ..one()
        },
    ];
    let sums = OpenSums::default();
    for _ in 0..3 {
        assert!(
            kinds
                .iter()
                .all(|entry| sums.take(Box::new(entry.clone()), NOW, true).is_none())
        );
    }
    let counts: Vec<_> = sums
        .drain(NOW, true)
        .into_iter()
        .map(|entry| entry.count)
        .collect();
    assert_eq!(counts, vec![Some(3); kinds.len()]);
}

/// What is written by itself whatever comes, what only as long as it does not come too fast, and
/// what never without room.
#[test]
fn what_was_sent_and_changes_something_is_never_summed_up() {
    use CallOutcome::{Answered, Failed, Planned, Refused, Unknown};
    use WriteMode::{Alone, Rated, Summed};
    let of = |attempts: u32, of: &str| {
        let belongs = |word: &str| (of == word).then(|| "1".to_owned());
        Entry {
            attempts,
            claimed_by: belongs("claim"),
            approval: belongs("hold"),
            ..*entry(0, "a", "offered__t", "c")
        }
    };
    // Outcome, attempts, to what it belongs, whether it reads; with room, and without.
    let cases = [
        (Refused, 0, "", false, [Rated, Summed]),
        (Refused, 0, "", true, [Rated, Summed]),
        (Refused, 0, "claim", false, [Rated, Rated]),
        (Refused, 0, "hold", false, [Rated, Rated]),
        (Refused, 1, "", false, [Alone, Alone]),
        (Refused, 1, "", true, [Alone, Summed]),
        (Planned, 0, "", false, [Rated, Summed]),
        (Answered, 1, "", true, [Alone, Summed]),
        (Answered, 1, "hold", true, [Alone, Alone]),
        (Answered, 1, "", false, [Alone, Alone]),
        (Answered, 0, "claim", false, [Rated, Rated]),
        (Unknown, 0, "claim", false, [Rated, Rated]),
        (Unknown, 0, "", false, [Alone, Alone]),
        (Unknown, 1, "", false, [Alone, Alone]),
        (Failed, 0, "", false, [Rated, Summed]),
        (Failed, 1, "", true, [Rated, Summed]),
        (Failed, 1, "", false, [Alone, Alone]),
    ];
    for (outcome, attempts, belongs, reads, ways) in cases {
        let entry = of(attempts, belongs);
        let found = [false, true].map(|lean| WriteMode::of(&entry, outcome, lean, || reads));
        assert_eq!(found, ways, "{outcome:?} {attempts} {belongs} {reads}");
    }
}

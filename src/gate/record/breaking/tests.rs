//! What breakers count, and when they trip.

use super::*;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::ids::ActionId;
use serde_json::json;

fn tool(name: &str) -> ToolName {
    ToolName::new(name)
}

/// Above the bound within the window, and then anew; times outside do not count.
#[test]
fn a_bound_is_passed_within_the_window_alone() {
    let watch = BreakerWatch::default();
    let bounds = [(1, Duration::from_secs(10))];
    let count = |name, seconds| {
        let end = CountedEnd {
            tool: &tool(name),
            kind: BreakerKind::Failure,
            now: Duration::from_secs(seconds),
            most: 2,
        };
        watch.count(&end, &bounds)
    };
    assert_eq!(count("bank__pay", 1), None);
    assert_eq!(count("bank__pay", 20), None, "the first is too old");
    assert_eq!(count("bank__look", 21), None, "another tool's");
    assert_eq!(
        count("bank__pay", 22).unwrap(),
        "more than 1 call in 10 seconds: failures"
    );
    assert_eq!(count("bank__pay", 23), None, "it begins anew");
}

#[test]
fn what_is_counted_has_a_bound() {
    let watch = BreakerWatch::default();
    let bounds = [(5, Duration::from_secs(10))];
    for number in 0..2 * MAX_COUNTED {
        let end = CountedEnd {
            tool: &tool(&format!("bank__{number}")),
            kind: BreakerKind::Refused,
            now: Duration::from_millis(number as u64),
            most: 6,
        };
        assert_eq!(watch.count(&end, &bounds), None);
    }
    let times = watch.times.lock();
    assert_eq!(times.len(), MAX_COUNTED);
    let newest = tool(&format!("bank__{}", 2 * MAX_COUNTED - 1));
    assert!(times.contains_key(&(newest, BreakerKind::Refused)));
}

fn said(is_error: bool) -> Message {
    let result = json!({ "content": [], "isError": is_error });
    Message::response(None, Text::of(&result), false)
}

/// What a call that ended so counts as.
fn counted_as(outcome: CallOutcome, ending: &Ending, is_sent: bool) -> Vec<BreakerKind> {
    let tool = tool("bank__pay");
    let end = WatchedEnd {
        tool: &tool,
        outcome,
        ending,
        is_sent,
        is_again: false,
    };
    end.kinds().collect()
}

/// What was sent counts as what it came to; what was only heard of it counts no second time.
#[test]
fn an_end_counts_once_as_what_it_is() {
    use BreakerKind::{Failure, Unknown};
    let unknown = Err(Refusal::OutcomeUnknown);
    let broken = Err(Refusal::UpstreamFailed);
    let given_up = Err(Refusal::Cancelled);
    for (outcome, ending, sent, heard) in [
        (CallOutcome::Answered, &Ok(said(false)), None, None),
        (CallOutcome::Answered, &Ok(said(true)), Some(Failure), None),
        (CallOutcome::Unknown, &unknown, Some(Unknown), None),
        // A server that cannot be reached was sent nothing.
        (CallOutcome::Failed, &broken, Some(Failure), Some(Failure)),
        (CallOutcome::Failed, &given_up, None, None),
    ] {
        let kinds = |kind: Option<BreakerKind>| kind.into_iter().collect::<Vec<_>>();
        assert_eq!(counted_as(outcome, ending, true), kinds(sent), "{ending:?}");
        assert_eq!(
            counted_as(outcome, ending, false),
            kinds(heard),
            "{ending:?}"
        );
    }
    let tool = tool("bank__pay");
    let end = WatchedEnd {
        tool: &tool,
        outcome: CallOutcome::Unknown,
        ending: &unknown,
        is_sent: true,
        is_again: true,
    };
    let kinds: Vec<BreakerKind> = end.kinds().collect();
    assert_eq!(kinds, [Unknown, BreakerKind::Duplicate]);
}

/// A no is a refusal; what tells an agent to wait, or what it gave up, is none, and no tool is frozen for it.
#[test]
fn who_waits_is_not_refused() {
    let hold = ActionId::generate();
    let why = String::new();
    for (refusal, counts) in [
        (Refusal::Fenced, true),
        (Refusal::IdempotencyConflict, true),
        (Refusal::ApprovalDenied { id: hold, why }, true),
        (Refusal::ToolNotAllowlisted, false),
        (Refusal::DuplicateInFlight { after_ms: 1 }, false),
        (Refusal::OutcomePending { after_ms: 1 }, false),
        (Refusal::SessionBusy, false),
        (Refusal::Overloaded, false),
        (Refusal::StoreUnavailable, false),
        (Refusal::StoreOpening { percent: 1 }, false),
        (Refusal::CancelledUnsent { hold: None }, false),
        (
            Refusal::ApprovalPending {
                roles: Vec::new(),
                hold: None,
            },
            false,
        ),
    ] {
        let kinds = counted_as(CallOutcome::Refused, &Err(refusal.clone()), false);
        let expected = counts.then_some(BreakerKind::Refused);
        assert!(kinds.into_iter().eq(expected), "{refusal:?}");
    }
}

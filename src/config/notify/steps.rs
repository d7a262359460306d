//! Who else is told while nobody decides.

use super::super::written_notify::EscalationSettings;
use super::judge_named;
use crate::model::diagnostic::Problems;
use crate::model::times::between;
use crate::notify::{EscalationStep, NoticeKind, NoticeReceiver};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Steps of one receiver.
const MAX_ESCALATION_STEPS: usize = 8;
/// How long a call waits before others are told.
const ESCALATION_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);

pub(super) fn compile(
    written: Vec<EscalationSettings>,
    own: &str,
    names: &[String],
    problems: &mut Problems,
) -> Vec<EscalationStep> {
    if written.len() > MAX_ESCALATION_STEPS {
        problems.error(
            format!("more than {MAX_ESCALATION_STEPS} steps"),
            "name fewer",
        );
    }
    let mut steps = Vec::new();
    for (index, EscalationSettings { after, to }) in written.into_iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            let after = between("after", Some(&after), ESCALATION_RANGE, problems);
            problems.under("to", |problems| {
                judge_named(&to, names, problems);
                if to.is_empty() || to.iter().any(|name| name == own) {
                    problems.error("tells nobody else", "name other receivers");
                }
            });
            steps.extend(after.map(|after| EscalationStep { after, to }));
        });
    }
    steps
}

/// Notes the receivers that would never be told, and steps that would never be taken; those that are wrong
/// otherwise are none.
pub(super) fn judge_heard(receivers: &[Option<NoticeReceiver>], problems: &mut Problems) {
    for (index, receiver) in receivers.iter().enumerate() {
        let Some(receiver) = receiver else { continue };
        let mut steps = receivers.iter().flatten().flat_map(|other| &other.escalate);
        let is_named = steps.any(|step| step.to.contains(&receiver.name));
        problems.under(index.to_string(), |problems| {
            if receiver.events.is_empty() && !is_named {
                problems.under("events", |problems| {
                    problems.error(
                        "names nothing, so this receiver is never told",
                        "name some, or name the receiver in `escalate` of another",
                    );
                });
            }
            let hears = receiver.events.contains(&NoticeKind::Requested);
            if !receiver.escalate.is_empty() && !hears {
                problems.under("escalate", |problems| {
                    problems.error(
                        "this receiver does not hear of calls that wait",
                        "add `requested` to its `events`",
                    );
                });
            }
        });
    }
}

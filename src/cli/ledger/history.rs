//! What happened to one call, event by event, as it is shown.

use super::text::plain;
use crate::mcp::json::Text;
use crate::model::digest::Digest;
use crate::store::operator::time;
use crate::store::state::Millis;
use crate::store::state::budget::MICROS_PER_UNIT;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::{HoldDecided, HoldExtended, Intended, Settled, StoreEvent};
use crate::store::state::hold::{self, Hold, OperatorDecision, OperatorEdit};
use crate::store::state::settlement::{Charge, Evidence};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Steps that are kept of one call; more are only counted. A call has a handful.
const MAX_STEPS_KEPT: usize = 64;
/// Repetitions that are named; more are only counted.
const MAX_REPETITIONS_NAMED: usize = 5;

/// What is known of one call beside its entry.
#[derive(Debug, Default)]
pub(super) struct History {
    steps: Vec<HistoryStep>,
    /// The key it holds or held.
    key: Option<Digest>,
    /// Calls that met its claim: the first of them, and how many there are.
    repeated: (Vec<String>, u64),
}

#[derive(Debug)]
struct HistoryStep {
    seq: u64,
    at: Millis,
    words: String,
    fields: Value,
}

fn decision(seq: u64, decided: &HoldDecided) -> HistoryStep {
    HistoryStep {
        seq,
        at: decided.decision.at,
        words: said(decided),
        fields: said_fields(decided),
    }
}

impl History {
    /// Takes note of an event of this call.
    pub(super) fn note(&mut self, seq: u64, event: &StoreEvent) {
        let step = match event {
            StoreEvent::Intended(intended) => {
                self.key = Some(intended.key);
                HistoryStep {
                    seq,
                    at: intended.at,
                    words: begun(intended),
                    fields: begun_fields(intended),
                }
            }
            StoreEvent::Settled(settled) => HistoryStep {
                seq,
                at: settled.at,
                words: ended(settled),
                fields: ended_fields(settled),
            },
            StoreEvent::Held(held) => HistoryStep {
                seq,
                at: held.hold.asked,
                words: asked(&held.hold),
                fields: asked_fields(&held.hold),
            },
            StoreEvent::Decided(decided) => decision(seq, decided),
            StoreEvent::Granted(minted) => {
                let Some(allowed) = &minted.allowed else {
                    return;
                };
                let mut step = decision(seq, allowed);
                let grant = minted.grant.id.to_string();
                let _ = write!(step.words, ", and calls like it with the grant {grant}");
                step.fields["grant"] = json!(grant);
                step
            }
            StoreEvent::Edited(edited) => HistoryStep {
                seq,
                at: edited.edit.at,
                words: edited_words(&edited.edit),
                fields: edited_fields(&edited.edit),
            },
            StoreEvent::Extended(extended) => HistoryStep {
                seq,
                at: extended.at,
                words: extended_words(extended),
                fields: extended_fields(extended),
            },
            StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Revoked(_)
            | StoreEvent::UndoAsked(_)
            | StoreEvent::Noted(_)
            | StoreEvent::Carried(_) => {
                return;
            }
        };
        self.push(step);
    }

    /// Takes note of the intent of another call, if it took over the key.
    pub(super) fn follow(&mut self, seq: u64, next: &Intended) {
        if self.key == Some(next.key) {
            let words = format!(
                "its key was claimed again by {}, attempt {}",
                next.action, next.attempt
            );
            let fields = json!({ "event": "claimed_again", "by": next.action.to_string(), "attempt": next.attempt });
            self.push(HistoryStep {
                seq,
                at: next.at,
                words,
                fields,
            });
        }
    }

    /// Takes note of a look at the server about this call: its entry's id, time and finding.
    pub(super) fn probe(&mut self, seq: u64, entry: &Text) {
        let word = |name: &str| {
            let word = entry.get(name)?;
            Some(word.as_str()?.into_owned())
        };
        let (by, tool) = (word("action_id"), word("tool"));
        let found = word("decided_by").unwrap_or_default();
        let time = word("time").and_then(|time| time.parse::<Timestamp>().ok());
        let at = time.and_then(|time| Millis::try_from(time.as_millisecond()).ok());
        let words = format!(
            "{found}, by {} of {}",
            by.as_deref().unwrap_or("?"),
            tool.as_deref().unwrap_or("?")
        );
        let fields = json!({ "event": "probed", "by": by, "tool": tool, "found": found });
        self.push(HistoryStep {
            seq,
            at: at.unwrap_or_default(),
            words,
            fields,
        });
    }

    /// Takes note of a call that met this one's claim.
    pub(super) fn repeat(&mut self, by: &str) {
        self.repeated.1 += 1;
        if self.repeated.0.len() < MAX_REPETITIONS_NAMED {
            self.repeated.0.push(by.to_owned());
        }
    }

    fn push(&mut self, step: HistoryStep) {
        if self.steps.len() < MAX_STEPS_KEPT {
            self.steps.push(step);
        }
    }

    /// Lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let steps = self.steps.iter();
        let mut lines: Vec<String> = steps
            .map(|step| {
                format!(
                    "{:<15} {}  record {}: {}",
                    "history",
                    time(step.at),
                    step.seq,
                    plain(&step.words)
                )
            })
            .collect();
        let (named, count) = &self.repeated;
        if *count > 0 {
            let more = if *count > named.len() as u64 {
                ", …"
            } else {
                ""
            };
            let named: Vec<String> = named.iter().map(|id| plain(id)).collect();
            lines.push(format!(
                "{:<15} {count} ×, by {}{more}",
                "asked again",
                named.join(", ")
            ));
        }
        lines
    }

    /// The same for programs: members to add to the entry.
    pub(super) fn fields(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            let mut fields = json!({ "seq": step.seq, "time": time(step.at) });
            for (name, value) in step.fields.as_object().into_iter().flatten() {
                fields[name] = value.clone();
            }
            fields
        });
        let (named, count) = &self.repeated;
        json!({ "history": steps.collect::<Vec<_>>(), "repeated": { "count": count, "by": named } })
    }
}

fn begun(intended: &Intended) -> String {
    let Intended {
        attempt,
        round,
        fence,
        cost,
        ttl,
        key,
        ..
    } = intended;
    let round = if *round > 0 {
        format!(", round {round} of input")
    } else {
        String::new()
    };
    let key = key.to_string();
    format!(
        "intent, attempt {attempt}{round}: key {}…, fence {fence}, cost {} reserved, answer kept for {} s",
        key.get(..16).unwrap_or_default(),
        units(*cost),
        ttl / 1000
    )
}

fn begun_fields(intended: &Intended) -> Value {
    json!({
        "event": "intended", "attempt": intended.attempt, "round": intended.round, "key": intended.key,
        "fingerprint": intended.fingerprint, "task": intended.task, "session": intended.session,
        "fence": intended.fence, "reserved": units(intended.cost), "ttl_ms": intended.ttl,
    })
}

fn asked(hold: &Hold) -> String {
    let roles = hold.roles.join(", ");
    format!(
        "held until {}, for {} with one of the roles {roles} to allow it",
        time(hold.approve_by),
        hold.needed
    )
}

fn asked_fields(hold: &Hold) -> Value {
    json!({
        "event": "held", "approve_by": time(hold.approve_by), "execute_for_ms": hold.execute_for, "needed": hold.needed,
        "approvers": hold.roles,
    })
}

fn extended_words(extended: &HoldExtended) -> String {
    let (who, until) = (&extended.who, time(extended.approve_by));
    let why = extended.why.as_deref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("given more time by the operator {who}{why}; it can be decided until {until}")
}

fn extended_fields(extended: &HoldExtended) -> Value {
    let until = time(extended.approve_by);
    let mut fields = json!({ "event": "extended", "who": extended.who, "approve_by": until });
    if let Some(why) = &extended.why {
        fields["why"] = json!(why);
    }
    fields
}

fn edited_words(edit: &OperatorEdit) -> String {
    let what = edit.pointers.join(", ");
    let void = if edit.voided.is_empty() {
        String::new()
    } else {
        format!("; void is what was said by {}", edit.voided.join(", "))
    };
    format!(
        "its arguments were changed by the operator {}{}, at {what}: {}{void}",
        edit.who,
        for_whom(edit.on_behalf.as_ref()),
        edit.why
    )
}

fn edited_fields(edit: &OperatorEdit) -> Value {
    json!({
        "event": "edited", "who": edit.who, "why": edit.why, "surface": edit.surface,
        "pointers": edit.pointers, "voided": edit.voided, "on_behalf": edit.on_behalf,
    })
}

/// In whose place an operator has spoken, if in anybody's.
fn for_whom(away: Option<&String>) -> String {
    away.map_or_else(String::new, |away| format!(" for {away}"))
}

fn said(decided: &HoldDecided) -> String {
    let OperatorDecision {
        who,
        on_behalf,
        allow,
        why,
        ..
    } = &decided.decision;
    if decided.phase == hold::HoldPhase::Withdrawn {
        return if decided.decision.is_void() {
            format!("void by {who}: {why}")
        } else {
            format!("cancelled by the agent {who}")
        };
    }
    let word = if *allow { "allowed" } else { "denied" };
    let more = if decided.phase == hold::HoldPhase::Pending {
        "; more operators have to allow it"
    } else {
        ""
    };
    let away = for_whom(on_behalf.as_ref());
    format!("{word} by the operator {who}{away}: {why}{more}")
}

fn said_fields(decided: &HoldDecided) -> Value {
    let OperatorDecision {
        who,
        on_behalf,
        allow,
        why,
        surface,
        ..
    } = &decided.decision;
    let mut fields = json!({
        "event": "decided", "who": who, "allow": allow, "why": why, "surface": surface, "state": decided.phase.word(),
    });
    if let Some(away) = on_behalf {
        fields["on_behalf"] = json!(away);
    }
    fields
}

fn ended(settled: &Settled) -> String {
    let became = match (&settled.phase, settled.phase.stored()) {
        (ClaimPhase::Unknown { why }, _) => format!("unknown ({why})"),
        (phase, Some(stored)) => format!(
            "{} ({} bytes, sha-256 {})",
            phase.word(),
            stored.size,
            stored.digest
        ),
        (phase, None) => phase.word().to_owned(),
    };
    let charge = match settled.charge {
        Charge::Release => "nothing is charged".to_owned(),
        Charge::Hold => "what it reserved stays held".to_owned(),
        Charge::Settle(cost) => format!("cost {}", units(cost)),
    };
    format!("{became}, {}; {charge}", how(&settled.evidence))
}

fn ended_fields(settled: &Settled) -> Value {
    let (charge, cost) = match settled.charge {
        Charge::Release => ("release", None),
        Charge::Hold => ("hold", None),
        Charge::Settle(cost) => ("settle", Some(units(cost))),
    };
    let mut fields = json!({
        "event": "settled", "state": settled.phase.word(), "evidence": settled.evidence, "charge": charge,
    });
    if let Some(cost) = cost {
        fields["cost"] = json!(cost);
    }
    if let Some(stored) = settled.phase.stored() {
        (fields["result_bytes"], fields["result_hash"]) =
            (json!(stored.size), json!(stored.digest));
    }
    if let ClaimPhase::Unknown { why } = &settled.phase {
        fields["why"] = json!(why);
    }
    fields
}

/// How that is known.
pub(super) fn how(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Exchange => "by its exchange with the tool server".to_owned(),
        Evidence::Late => "by an answer that came late".to_owned(),
        Evidence::UpstreamKey => "by sending it again under the server's own key".to_owned(),
        Evidence::Restart => "by what toolgate found when it started again".to_owned(),
        Evidence::Probe => "by the probe of its contract".to_owned(),
        Evidence::Operator { who, why } => format!("by the operator {who}: {why}"),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a cost that long is a number for people"
)]
fn units(micros: u64) -> f64 {
    micros as f64 / MICROS_PER_UNIT as f64
}

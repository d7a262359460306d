//! The state machine as guarantees §3 to §6 have it.

use super::budget::{BudgetLimits, Price};
use super::claim::Stored;
use super::command::{Decide, HoldBounds, HoldRequest};
use super::hold::HoldQuestion;
use super::settlement::Evidence;
use super::undo::{AnswerWorth, UndoTerms};
use super::*;
use crate::model::absence::DecidingRight;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::store::state::kept_text::KeptText;
use crate::store::state::kinship::Kinship;
use bytes::Bytes;
use serde_json::json;
use std::sync::LazyLock;

mod arrows;
mod budgets;
pub(in crate::store) mod grants;
mod holds;
mod random;
mod records;
mod standing;
mod tasks;
mod undos;

/// An hour, in the store's time.
pub(in crate::store) const HOUR_MS: Millis = 3_600_000;
/// When scenarios begin.
pub(in crate::store) const START_MS: Millis = 1_785_229_200_000;

/// What the ledger knows of a call of `tool`.
pub(in crate::store) fn entry(tool: &str) -> Entry {
    static ANY_ENTRY: LazyLock<Entry> = LazyLock::new(any_entry);
    Entry {
        tool: tool.to_owned(),
        ..ANY_ENTRY.clone()
    }
}

fn any_entry() -> Entry {
    let value = json!({
        "time": "2026-07-28T09:00:00Z", "action_id": "0198f1a2-0000-7000-8000-000000000000", "request_id": "1",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "user_id": "billing-agent", "roles": [], "revision": "2026-07-28",
        "tool": "", "params_hash": "a".repeat(64), "actions": ["financial_write"], "state": "execute",
        "event": "exit", "outcome": "unknown", "stage": "commit", "latency_ms": 0.5, "gate_ms": 0.5,
        "upstream_ms": 0.0, "policy": "3f9a1c",
    });
    serde_json::from_value(value).unwrap()
}

/// The digest that stands for `name` in scenarios.
pub(in crate::store) fn named(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// A call of `bank__pay` under `key`, with a token of `fence`, without limits, replayed for an
/// hour.
pub(in crate::store) fn intent(key: &str, fence: u64) -> Intent {
    Intent {
        account: None,
        key: named(key),
        fingerprint: named("fingerprint"),
        action: ActionId::generate(),
        round: None,
        origin: None,
        ttl: HOUR_MS,
        keep: 0,
        task: named("task"),
        session: named("session"),
        fence,
        hold: None,
        edited: None,
        grant: None,
        limits: BudgetLimits::default(),
        price: Price {
            tool: ToolName::new("bank__pay"),
            cost: 0,
        },
        entry: entry("bank__pay"),
        kinship: Kinship::default(),
        inquiry: None,
        undo: None,
        undoes: None,
        may_undo: None,
    }
}

/// That `tool` takes a call back within an hour of its end.
pub(in crate::store) fn undone_by(tool: &str) -> UndoTerms {
    UndoTerms {
        tool: ToolName::new(tool),
        arguments: KeptText::plain("{}"),
        within: HOUR_MS,
        agent: "billing-agent".to_owned(),
        tenant: None,
        user: None,
        place: None,
        by_agent: false,
        call: None,
        caller: None,
    }
}

/// A call that needs one operator with the role `approver`, who has ten minutes; it may run for one
/// minute after that.
pub(in crate::store) fn ask(key: &str) -> HoldRequest {
    HoldRequest {
        key: named(key),
        id: ActionId::generate(),
        approve_for: 600_000,
        execute_for: 60_000,
        needed: 1,
        roles: vec!["approver".to_owned()],
        self_approval: false,
        question: HoldQuestion {
            agent: "billing-agent".to_owned(),
            tenant: Some("t_001".to_owned()),
            user: None,
            caller_roles: vec!["teller".to_owned()],
            tool: ToolName::new("bank__pay"),
            arguments: json!({ "amount": 100, "to": "DE89" }),
            answers: None,
            beside: None,
            over: None,
            original: None,
            changed_by: Vec::new(),
            unedited: None,
            terms: crate::model::decision_terms::DecisionTerms::default(),
            show: Vec::new(),
            because: None,
            left: None,
            notify: Vec::new(),
            actions: vec!["pay".to_owned()],
            irreversible: true,
            undo: Some("impossible".to_owned()),
            undo_within: None,
            purpose: "pays an invoice".to_owned(),
            not_for: Some("salaries".to_owned()),
            writes: None,
            session: None,
            task: None,
            policy: "3f9a1c".to_owned(),
            bound_to: None,
            schema_hash: "a".repeat(64),
            undoes: None,
            own_definition: false,
            request: None,
        },
        bounds: HoldBounds {
            all: 256,
            agent: 20,
            caller: 20,
        },
    }
}

/// The right of one with these roles, or in the place of one.
pub(in crate::store) fn right(roles: &[&str], on_behalf: Option<&str>) -> DecidingRight {
    DecidingRight {
        roles: roles.iter().map(ToString::to_string).collect(),
        on_behalf: on_behalf.map(str::to_owned),
    }
}

/// What `who`, an approver, says of the call held by `ask`.
pub(in crate::store) fn word(ask: &HoldRequest, who: &str, allow: bool) -> Decide {
    let (key, id) = (ask.key, ask.id);
    let right = right(&["approver"], None);
    Decide {
        key,
        id,
        who: who.to_owned(),
        right,
        allow,
        why: "because".to_owned(),
        surface: None,
        edits: 0,
    }
}

/// What became of `intent`, seen by the exchange itself.
pub(in crate::store) fn settle(intent: &Intent, phase: ClaimPhase) -> Settle {
    let failed = matches!(
        phase,
        ClaimPhase::Unknown { .. } | ClaimPhase::NotSent | ClaimPhase::Failed { .. }
    );
    Settle {
        key: intent.key,
        action: intent.action,
        phase,
        evidence: Evidence::Exchange,
        cost: None,
        failed,
        seen: None,
        worth: AnswerWorth::Unread,
    }
}

/// A result that says `text`.
pub(in crate::store) fn result(text: &str) -> Stored {
    Stored::inline(false, Bytes::copy_from_slice(text.as_bytes()))
}

/// An outcome that is not known.
pub(in crate::store) fn unknown() -> ClaimPhase {
    ClaimPhase::Unknown {
        why: "the connection was lost".to_owned(),
    }
}

/// An operator's word.
pub(in crate::store) fn operator() -> Evidence {
    Evidence::Operator {
        who: "ops".to_owned(),
        why: "looked at the bank's page".to_owned(),
    }
}

/// Decides `command` on `view` at `now` and applies what comes of it.
fn run(
    view: &mut StoreView,
    command: &StoreCommand,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    let event = decide(command, view, now)?;
    apply(&event, view);
    Ok(event)
}

fn begin(view: &mut StoreView, intent: &Intent, now: Millis) -> Result<StoreEvent, CommandRefusal> {
    run(view, &StoreCommand::Begin(Box::new(intent.clone())), now)
}

/// What is known after `intent` has come to `phase`; in flight when that is none.
fn after(intent: &Intent, phase: Option<ClaimPhase>) -> StoreView {
    let mut view = StoreView::default();
    begin(&mut view, intent, START_MS).unwrap();
    if let Some(phase) = phase {
        let operator = matches!(phase, ClaimPhase::Abandoned);
        if operator {
            run(
                &mut view,
                &StoreCommand::Settle(settle(intent, unknown())),
                START_MS,
            )
            .unwrap();
        }
        let mut settle = settle(intent, phase);
        if operator {
            settle.evidence = self::operator();
        }
        run(&mut view, &StoreCommand::Settle(settle), START_MS).unwrap();
    }
    view
}

/// Every phase, as a scenario brings it about; in flight is none.
fn phases() -> Vec<Option<ClaimPhase>> {
    vec![
        None,
        Some(ClaimPhase::AwaitingInput {
            round: 1,
            asked: result("which account?"),
            is_task: false,
        }),
        Some(ClaimPhase::Completed(result("paid"))),
        Some(ClaimPhase::Failed {
            answer: Some(result("no such account")),
            again: false,
        }),
        Some(ClaimPhase::NotSent),
        Some(unknown()),
        Some(ClaimPhase::Abandoned),
    ]
}

//! What the tests of this floor share: a held call, and who is told.

mod unknowns;

use super::notice::NoticeKind;
use super::receiver::{NoticeReceiver, NoticeTemplate};
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::store::state::Millis;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::{CallHeld, HoldDecided, Settled, StoreEvent};
use crate::store::state::hold::{Hold, HoldPhase, HoldQuestion, OperatorDecision};
use crate::store::state::settlement::{Charge, Evidence};
use http::{HeaderMap, Uri};
use serde_json::json;
use std::time::Duration;

/// 2023-11-15T00:00:00Z.
pub(super) const MIDNIGHT: Millis = 1_700_006_400_000;

/// An id that is the same each time.
pub(super) fn action(number: u8) -> ActionId {
    format!("00000000-0000-4000-8000-0000000000{number:02x}")
        .parse()
        .unwrap()
}

/// A call that waits for ten minutes for the role `finance`, and may run for one minute then.
pub(crate) fn hold(number: u8, asked: Millis) -> Hold {
    Hold {
        id: action(number),
        asked,
        approve_by: asked + 600_000,
        execute_for: 60_000,
        needed: 1,
        roles: vec!["finance".to_owned()],
        self_approval: false,
        question: HoldQuestion {
            agent: "bot".to_owned(),
            tenant: Some("t_1".to_owned()),
            user: Some("uma".to_owned()),
            caller_roles: Vec::new(),
            tool: ToolName::new("bank__pay"),
            arguments: json!({ "amount": 12500, "to": "DE89", "note": "the-secret-argument" }),
            answers: None,
            beside: None,
            notify: vec!["/amount".to_owned()],
            actions: vec!["pay".to_owned()],
            irreversible: true,
            undo: None,
            undo_within: None,
            purpose: "Pay a bill.".to_owned(),
            not_for: None,
            writes: None,
            session: None,
            task: None,
            over: None,
            original: None,
            changed_by: Vec::new(),
            unedited: None,
            terms: crate::model::decision_terms::DecisionTerms::default(),
            show: Vec::new(),
            because: None,
            left: None,
            policy: "3f9a1c".to_owned(),
            bound_to: None,
            schema_hash: "a".repeat(64),
            undoes: None,
            own_definition: false,
            request: None,
        },
        decisions: Vec::new(),
        edits: Vec::new(),
        extended_by: None,
        phase: HoldPhase::Pending,
    }
}

pub(super) fn key(number: u8) -> Digest {
    Digest::of(&[number])
}

/// It is held.
pub(super) fn held(number: u8, asked: Millis) -> StoreEvent {
    StoreEvent::Held(Box::new(CallHeld {
        key: key(number),
        hold: hold(number, asked),
    }))
}

/// Ann says so.
pub(super) fn decided(number: u8, at: Millis, allow: bool) -> StoreEvent {
    StoreEvent::Decided(HoldDecided {
        key: key(number),
        id: action(number),
        decision: OperatorDecision {
            who: "ann".to_owned(),
            allow,
            why: "it is due".to_owned(),
            on_behalf: None,
            surface: None,
            at,
        },
        phase: if allow {
            HoldPhase::Allowed
        } else {
            HoldPhase::Denied
        },
    })
}

/// What became of the call `number`, which took nothing of a budget.
pub(super) fn settled(number: u8, at: Millis, phase: ClaimPhase) -> StoreEvent {
    StoreEvent::Settled(Settled {
        key: key(number),
        action: action(number),
        task: key(number),
        account: None,
        session: key(number),
        at,
        phase,
        evidence: Evidence::Exchange,
        charge: Charge::Hold,
        grant: None,
        failed: true,
        seen: None,
        undo: None,
    })
}

/// A receiver that hears of everything.
pub(super) fn receiver(name: &str) -> NoticeReceiver {
    NoticeReceiver {
        name: name.to_owned(),
        uri: Uri::from_static("https://example.com/"),
        template: NoticeTemplate::Generic,
        events: vec![
            NoticeKind::Requested,
            NoticeKind::Decided,
            NoticeKind::Expired,
            NoticeKind::Executed,
            NoticeKind::Unknown,
        ],
        key: None,
        headers: HeaderMap::new(),
        roles: Vec::new(),
        quiet: None,
        pierce: Vec::new(),
        escalate: Vec::new(),
        operator: None,
        away: None,
        mail: None,
        is_near: false,
        timeout: Duration::from_secs(5),
    }
}

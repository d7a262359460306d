//! Any undo as records have it.

use super::super::super::kept_text::KeptText;
use super::super::super::undo::{OpenUndo, UndoAsking, UndoChange, UndoPhase, UndoTerms};
use super::*;
use crate::model::kept_caller::KeptCaller;

pub(super) fn kept_caller() -> KeptCaller {
    KeptCaller {
        rights: named("rights"),
        roles: vec!["billing".to_owned()],
    }
}

/// How a call is taken back, with `arguments`.
pub(super) fn undo_terms(arguments: &str) -> UndoTerms {
    UndoTerms {
        tool: ToolName::new("bank__undo"),
        arguments: KeptText::plain(arguments),
        within: HOUR_MS,
        agent: "billing-agent".to_owned(),
        tenant: Some("t_001".to_owned()),
        user: None,
        place: None,
        by_agent: false,
        call: Some(named("its undo")),
        caller: Some(kept_caller()),
    }
}

/// What an end makes of an undo; by the numbers which.
pub(super) fn undo_change(numbers: [u64; 4]) -> UndoChange {
    let of = ActionId::generate();
    let by = ActionId::generate();
    let phases = [
        UndoPhase::Offered,
        UndoPhase::Requested,
        UndoPhase::Running { by },
        UndoPhase::Done { by },
        UndoPhase::Failed { by },
        UndoPhase::Unknown { by },
    ];
    let phase = phases[usize::try_from(numbers[1] % 6).unwrap_or_default()];
    if numbers[2].is_multiple_of(2) {
        return UndoChange::Ended { of, phase };
    }
    UndoChange::Offered(Box::new(OpenUndo {
        of,
        tool: ToolName::new("bank__pay"),
        key: named("key"),
        terms: undo_terms("long \\ \"and\" short"),
        values: (numbers[3].is_multiple_of(2)).then(|| KeptText::Sealed {
            key: "k".to_owned(),
            hex: "00ff".to_owned(),
        }),
        call: (numbers[3].is_multiple_of(5)).then(|| named("its undo")),
        is_whole: numbers[3].is_multiple_of(2),
        lacks: (numbers[3].is_multiple_of(3)).then(|| "the call has no `result#/id`".to_owned()),
        began: numbers[0].is_multiple_of(2).then_some(numbers[0]),
        offered: numbers[0],
        until: numbers[1],
        phase,
        changed: numbers[2],
        asked: (numbers[3].is_multiple_of(3)).then(|| UndoAsking {
            who: "ann".to_owned(),
            why: "a typo".to_owned(),
            at: numbers[3],
            caller: (numbers[3].is_multiple_of(2)).then(kept_caller),
        }),
        askers: vec!["ann".to_owned(); usize::try_from(numbers[0] % 3).unwrap_or_default()],
        asked_since: (numbers[0].is_multiple_of(2)).then_some(numbers[3]),
        before: (numbers[3].is_multiple_of(7)).then_some(UndoPhase::Requested),
    }))
}

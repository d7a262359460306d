//! Whether, how and until when a held call can be undone, as people read it who decide about it (003-52).

use super::OpenHold;
use crate::model::times::told;
use std::time::Duration;

impl OpenHold {
    /// In its contract's words; with the time where a call does it. None where the contract says nothing.
    pub(crate) fn undo_words(&self) -> Option<String> {
        let how = self.undo.as_ref()?;
        let Some(seconds) = self.undo_within else {
            return Some(how.clone());
        };
        let within = told(Duration::from_secs(seconds));
        Some(format!("{how}, for {within} after its end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::state::hold::HoldQuestion;
    use serde_json::{Value, json};

    fn shown(undo: Option<&str>, undo_within: Option<u64>) -> OpenHold {
        let hold = json!({
            "id": "0198", "state": "pending", "asked": "", "approve_by": "", "agent": "bot", "caller_roles": [],
            "tool": "bank__pay", "actions": [], "irreversible": false, "undo": undo, "undo_within": undo_within,
            "purpose": "", "policy": "", "schema_hash": "", "needed": 1, "allowed_by": [], "roles": [],
            "self_approval": false, "decisions": [],
        });
        serde_json::from_value(hold).unwrap()
    }

    /// 003-52: until when is said only where a call undoes it, and only where that is known.
    #[test]
    fn who_decides_reads_until_when() {
        for (undo, within, expected) in [
            (
                Some("call bank__refund"),
                Some(86_400),
                Some("call bank__refund, for 24 h after its end"),
            ),
            (Some("call bank__refund"), None, Some("call bank__refund")),
            (
                Some("by hand: ask the bank"),
                None,
                Some("by hand: ask the bank"),
            ),
            (None, None, None),
            (None, Some(60), None),
        ] {
            let words = shown(undo, within).undo_words();
            assert_eq!(words.as_deref(), expected, "{undo:?} {within:?}");
        }
    }

    /// What was held before the time was kept is read, and is shown as it was: an operator's word names it by
    /// a digest over that.
    #[test]
    fn records_of_before_are_read_and_stay_as_they_are() {
        let before = json!({
            "agent": "bot", "tool": "bank__pay", "irreversible": false, "undo": "call bank__refund", "purpose": "pays",
            "policy": "3f9a1c", "schema_hash": "5c",
        });
        let read: HoldQuestion = serde_json::from_value(before.clone()).unwrap();
        assert_eq!(read.undo_within, None);
        let member = |question: &HoldQuestion| {
            let written = serde_json::to_value(question).unwrap();
            written.get("undo_within").cloned()
        };
        assert_eq!(member(&read), None);
        let mut told = before;
        told["undo_within"] = Value::from(60);
        let told: HoldQuestion = serde_json::from_value(told).unwrap();
        assert_eq!(member(&told), Some(json!(60)));
        let card = |undo_within| shown(Some("call bank__refund"), undo_within);
        let seen = |undo_within| serde_json::to_value(card(undo_within)).unwrap();
        assert_eq!(seen(None).get("undo_within"), None);
        assert_ne!(card(None).digest(), card(Some(60)).digest());
        assert_ne!(card(Some(61)).digest(), card(Some(60)).digest());
    }
}

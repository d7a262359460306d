//! What the ledger has kept of calls besides their entries (`audit` of contracts).

use crate::gate::record::hashes::params_hash;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::content::{ContentForm, ContentHead, ContentPart};
use crate::model::entry::Entry;
use crate::store::journal::{JournalError, JournalRecord};
use crate::store::state::event::decode;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};

/// Calls whose contents wait for their entry. No toolgate has so many in flight.
const MAX_WAITING_CALLS: usize = 1 << 12;

/// One part of what was kept of a call.
pub(super) struct LedgerContent {
    pub(super) head: ContentHead,
    /// None where it was too long to be kept.
    pub(super) text: Option<Text>,
}

/// The arguments of calls whose entries come later, where all of them are known.
#[derive(Default)]
pub(super) struct Contents {
    arguments: HashMap<String, Vec<Map<String, Value>>>,
    /// Their action ids, as they came.
    order: VecDeque<String>,
}

impl LedgerContent {
    /// What `record` holds; none when it holds nothing of the kind.
    pub(super) fn of(record: &JournalRecord) -> Result<Option<Self>, JournalError> {
        let Some(bytes) = record.content() else {
            return Ok(None);
        };
        let unreadable = |why: String| JournalError::Unreadable {
            seq: record.seq,
            why,
        };
        let (head, body): (ContentHead, _) =
            decode(bytes).map_err(|error| unreadable(error.to_string()))?;
        if body.is_empty() {
            return Ok(Some(Self { head, text: None }));
        }
        let text = Text::read(body, &SERVER_JSON_LIMITS);
        let text = text.map_err(|error| unreadable(error.to_string()))?;
        Ok(Some(Self {
            head,
            text: Some(text),
        }))
    }

    /// As one object: the head, with the content as `value`.
    pub(super) fn line(&self) -> Vec<u8> {
        let head = Text::of(&serde_json::to_value(&self.head).unwrap_or_default());
        let whole = match &self.text {
            Some(text) => head.with_new_member("value", text),
            None => head,
        };
        whole.as_bytes().to_vec()
    }

    /// How it is named for operators.
    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.head.part.word(), self.head.form.word())
    }

    /// What stands for it where it was too long.
    pub(super) fn left_out(&self) -> String {
        format!("left out: {} bytes", self.head.bytes)
    }
}

impl Contents {
    /// Keeps the arguments of a call until its entry is read.
    pub(super) fn add(&mut self, content: LedgerContent) {
        let LedgerContent { head, text } = content;
        let is_whole = head.form == ContentForm::Full && head.part != ContentPart::Result;
        let Some(Value::Object(arguments)) =
            text.filter(|_| is_whole).and_then(|text| text.parse().ok())
        else {
            return;
        };
        if !self.arguments.contains_key(&head.action_id) {
            if self.order.len() == MAX_WAITING_CALLS
                && let Some(oldest) = self.order.pop_front()
            {
                self.arguments.remove(&oldest);
            }
            self.order.push_back(head.action_id.clone());
        }
        self.arguments
            .entry(head.action_id)
            .or_default()
            .push(arguments);
    }

    /// Gives `entry` all the arguments of its call as if `audit` had named them, where they are
    /// those that its hash is of.
    pub(super) fn complete(&mut self, entry: &mut Entry) {
        let kept = self.arguments.remove(&entry.action_id).unwrap_or_default();
        if !kept.is_empty() {
            self.order.retain(|id| *id != entry.action_id);
        }
        let sent = entry.sent_hash().to_owned();
        let is_sent =
            |arguments: &Map<String, Value>| params_hash(&Value::Object(arguments.clone())) == sent;
        if let Some(arguments) = kept.into_iter().find(is_sent) {
            entry.audit = arguments;
        }
    }
}

//! What the ledger has kept of calls besides their entries (`audit` of contracts).

use super::LedgerLocation;
use crate::app::ledger;
use crate::cli::runtime::runtime;
use crate::config::{ContentConfig, Ledger};
use crate::gate::record::hashes::params_hash;
use crate::guards::secrets::SecretSource;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::content::{ContentForm, ContentHead, ContentPart};
use crate::model::entry::Entry;
use crate::store::content_key::ContentKeys;
use crate::store::journal::{JournalError, JournalRecord};
use crate::store::state::event::decode;
use anyhow::Context as _;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

/// Calls whose contents wait for their entry. No toolgate has so many in flight.
const MAX_WAITING_CALLS: usize = 1 << 12;

/// One part of what was kept of a call.
pub(super) struct LedgerContent {
    pub(super) head: ContentHead,
    /// Or why it is not there to be read.
    pub(super) text: Result<Text, String>,
}

/// The arguments of calls whose entries come later, where all of them are known.
#[derive(Default)]
pub(super) struct Contents {
    arguments: HashMap<String, Vec<Map<String, Value>>>,
    /// Their action ids, as they came.
    order: VecDeque<String>,
}

/// The keys for contents: those in `files`, the first of which encrypts, else those that the
/// configuration names.
pub(super) fn keys(place: &LedgerLocation<'_>, files: &[PathBuf]) -> anyhow::Result<ContentKeys> {
    if files.is_empty() {
        return configured_keys(place.kept()?).with_context(|| {
            format!(
                "what is encrypted in the ledger {} cannot be read; give its key with --key",
                place.data.display()
            )
        });
    }
    let runtime = runtime()?;
    let read = files.iter().map(|file| {
        let key = runtime.block_on(ledger::read_content_key(&SecretSource::File(file.clone())));
        key.with_context(|| format!("the key in {} cannot be had", file.display()))
    });
    Ok(ContentKeys {
        current: None,
        previous: read.collect::<anyhow::Result<_>>()?,
    })
}

/// The keys for contents that `kept` names.
pub(super) fn configured_keys(kept: &Ledger) -> anyhow::Result<ContentKeys> {
    let ContentConfig { key, previous, .. } = &kept.content;
    if key.is_none() && previous.is_empty() {
        return Ok(ContentKeys::default());
    }
    runtime()?.block_on(ledger::content_keys(kept))
}

impl LedgerContent {
    /// What `record` holds, decrypted with `keys`; none when it holds nothing of the kind.
    pub(super) fn of(
        record: &JournalRecord,
        keys: &ContentKeys,
    ) -> Result<Option<Self>, JournalError> {
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
            let text = Err(format!("left out: {} bytes", head.bytes));
            return Ok(Some(Self { head, text }));
        }
        let text = match keys.read(&head, body) {
            Ok(body) => Ok(Text::read(body, &SERVER_JSON_LIMITS)
                .map_err(|error| unreadable(error.to_string()))?),
            Err(sealed) => Err(sealed.to_string()),
        };
        Ok(Some(Self { head, text }))
    }

    /// As one object: the head, with the content as `value`.
    pub(super) fn line(&self) -> Vec<u8> {
        let head = Text::of(&serde_json::to_value(&self.head).unwrap_or_default());
        let whole = match &self.text {
            Ok(text) => head.with_new_member("value", text),
            Err(why) => head.with_new_member("missing", &Text::of(&why.as_str().into())),
        };
        whole.as_bytes().to_vec()
    }

    /// How it is named for operators.
    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.head.part.word(), self.head.form.word())
    }
}

impl Contents {
    /// Keeps the arguments of a call until its entry is read.
    pub(super) fn add(&mut self, content: LedgerContent) {
        let LedgerContent { head, text } = content;
        let is_whole = head.form == ContentForm::Full && head.part != ContentPart::Result;
        let Some(Value::Object(arguments)) = text
            .ok()
            .filter(|_| is_whole)
            .and_then(|text| text.parse().ok())
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

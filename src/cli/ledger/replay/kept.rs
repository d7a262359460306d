//! What the ledger has of one call: its entry, the arguments that were sent, and what came back.

use crate::cli::explain;
use crate::cli::ledger::LedgerLocation;
use crate::cli::ledger::contents::{LedgerContent, keys};
use crate::cli::ledger::reading;
use crate::cli::ledger::recorded;
use crate::cli::ledger::text::plain;
use crate::gate::record::hashes::params_hash;
use crate::model::content::{ContentForm, ContentPart};
use crate::model::entry::Entry;
use crate::store::journal::{JournalError, JournalReader};
use anyhow::bail;
use serde_json::Value;
use std::path::PathBuf;

/// A recorded call. Where contents are not there, the words say why.
pub(super) struct KeptCall {
    /// Its entry.
    pub(super) entry: Entry,
    /// The arguments as they were sent, without a key of toolgate's and with secret references.
    pub(super) arguments: Result<Value, String>,
    /// The arguments as the agent sent them.
    pub(super) original: Option<Value>,
    /// The result as its agent read it, or the error.
    pub(super) result: Result<Value, String>,
}

/// What is said where contents were never kept.
const UNKEPT_NOTE: &str = "its contract has the ledger keep hashes alone";
/// How contents come to be kept.
const HOW_TO_KEEP_HINT: &str = "give them with --arguments; `audit: full` in the tool's contract keeps arguments and \
                           results of later calls, encrypted with `ledger: { content: { key: … } }`";

impl KeptCall {
    /// The call whose action id begins or ends with `id`, with the contents that the keys in `files`, or
    /// those of the configuration, open.
    pub(super) fn read(
        place: &LedgerLocation<'_>,
        id: &str,
        files: &[PathBuf],
    ) -> anyhow::Result<Self> {
        let keys = keys(place, files)?;
        let entry = recorded::find_in(place.data, place.archive, id, Some(&reading()))?;
        let unkept = || Err(UNKEPT_NOTE.to_owned());
        let mut call = Self {
            arguments: unkept(),
            original: None,
            result: unkept(),
            entry,
        };
        let progress = reading();
        for record in JournalReader::after_in(place.data, place.archive, 0)? {
            progress.step();
            match LedgerContent::of(&record?, &keys) {
                Ok(Some(content)) if content.head.action_id == call.entry.action_id => {
                    call.take(content);
                }
                // What cannot be read of other calls is not asked for.
                Ok(_) | Err(JournalError::Unreadable { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        drop(progress);
        let audited = Value::Object(call.entry.audit.clone());
        if call.is_sent(&audited) {
            call.arguments = Ok(audited);
        }
        if call.entry.original_params_hash.is_none() {
            call.original = call.arguments.clone().ok();
        }
        Ok(call)
    }

    fn take(&mut self, content: LedgerContent) {
        let LedgerContent { head, text } = content;
        let value = text.and_then(|text| text.parse().map_err(|_| "it cannot be read".to_owned()));
        let value = match head.form {
            ContentForm::Full => value,
            form @ (ContentForm::Redacted | ContentForm::Digest) => {
                Err(format!("it is kept as `{}`", form.word()))
            }
        };
        match head.part {
            ContentPart::Original => {
                let is_original =
                    |arguments: &Value| params_hash(arguments) == self.entry.sent_hash();
                self.original = value.ok().filter(is_original).or(self.original.take());
            }
            ContentPart::Arguments => {
                let value = value.and_then(|arguments| {
                    let other = "what is kept is not what was sent: its hash is another";
                    Some(arguments)
                        .filter(|arguments| self.is_sent(arguments))
                        .ok_or_else(|| other.to_owned())
                });
                // A call of several rounds keeps them each time.
                if self.arguments.is_err() {
                    self.arguments = value;
                }
            }
            ContentPart::Result => self.result = value,
        }
    }

    /// Whether these are the final arguments.
    fn is_sent(&self, arguments: &Value) -> bool {
        params_hash(arguments) == self.entry.params_hash
    }

    /// The arguments that were sent: as `given`, if they are those, else as kept.
    pub(super) fn sent(&self, given: Option<&str>) -> anyhow::Result<Value> {
        if let Some(given) = given {
            let arguments = explain::read("--arguments", given.to_owned().into())?;
            if !self.is_sent(&arguments) {
                bail!(
                    "these are not the arguments that were sent: their hash is another than params_hash in the ledger"
                );
            }
            return Ok(arguments);
        }
        match &self.arguments {
            Ok(arguments) => Ok(arguments.clone()),
            Err(why) => bail!(
                "the ledger does not have the arguments of this call: {}; {HOW_TO_KEEP_HINT}",
                plain(why)
            ),
        }
    }
}

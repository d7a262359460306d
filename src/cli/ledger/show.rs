//! `toolgate ledger show`.

use super::LedgerLocation;
use super::calls::unfinished;
use super::contents::{LedgerContent, keys};
use super::history::History;
use super::merged::NamedLedger;
use super::noted::event;
use super::output::LedgerOutput;
use super::resolved::Resolved;
use super::undone::UndoTold;
use super::{LedgerShowArgs, reading, text};
use crate::cli::terminal::ids::{MAX_IDS_NAMED, ambiguous, is_meant};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::ids::ActionId;
use crate::store::content_key::ContentKeys;
use crate::store::journal::{JournalError, JournalReader, JournalRecord};
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::StoreEvent;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;

/// What was found of the calls whose ids begin or end as asked for.
#[derive(Default)]
struct Story {
    ids: Vec<String>,
    /// The number and text of the entry; of the intent until there is one.
    entry: Option<(u64, Text)>,
    has_ended: bool,
    /// How it came to an end after its agent had been answered.
    resolved: Option<Resolved>,
    history: History,
    /// Whether it can be taken back, and what became of that.
    undone: UndoTold,
    /// What was sent and came back, where that is asked for.
    contents: Vec<LedgerContent>,
    /// Are there any?
    has_contents: bool,
    /// What they may be encrypted with.
    keys: ContentKeys,
}

impl LedgerShowArgs {
    /// Shows the call that one of `ledgers` has. Of several, one that cannot be read is said, and the others
    /// are looked at; the code says so, too.
    pub(super) fn run(
        &self,
        ledgers: &[NamedLedger<'_>],
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let mut stories = Vec::new();
        for NamedLedger { server, place } in ledgers {
            match self.read(place, output) {
                Ok(story) => stories.push(story),
                Err(error) => output.unread(*server, error)?,
            }
        }
        let known: BTreeSet<&String> = stories.iter().flat_map(|story| &story.ids).collect();
        if known.len() > 1 {
            let known: Vec<_> = known.into_iter().collect();
            writeln!(output.err, "{}", ambiguous(&known))?;
            return Ok(1);
        }
        let mut is_known = false;
        for story in &stories {
            if let Some((seq, entry)) = &story.entry {
                self.print(*seq, entry, story, output.out)?;
                is_known = true;
            }
        }
        if is_known {
            return Ok(output.code);
        }
        let wanted = text::plain(&self.action_id.to_ascii_lowercase());
        writeln!(
            output.err,
            "no call's action id begins or ends with {wanted}; see `toolgate ledger list`"
        )?;
        Ok(1)
    }

    /// What the ledger of `place` has of the calls whose ids begin or end as asked for.
    fn read(
        &self,
        place: &LedgerLocation<'_>,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<Story> {
        let mut story = Story {
            keys: if self.contents {
                keys(place, &self.key)?
            } else {
                ContentKeys::default()
            },
            ..Story::default()
        };
        let progress = reading();
        for record in JournalReader::after_in(place.data, place.archive, 0)? {
            progress.step();
            output.readable(self.take(&record?, &mut story))?;
        }
        drop(progress);
        Ok(story)
    }

    fn take(&self, record: &JournalRecord, story: &mut Story) -> Result<(), JournalError> {
        if let Some(entry) = record.text()? {
            let word = |name: &str| {
                entry
                    .get(name)
                    .and_then(|id| Some(id.as_str()?.into_owned()))
            };
            let id = word("action_id").unwrap_or_default();
            if let Some(holder) =
                word("claimed_by").filter(|holder| story.ids.first() == Some(holder))
            {
                debug_assert_ne!(holder, id, "a call does not repeat itself");
                story.history.repeat(&id);
            }
            if word("probe_of").is_some_and(|of| story.ids.first() == Some(&of)) {
                story.history.probe(record.seq, &entry);
            }
            if is_meant(&id, &self.action_id) && story.is_about(&id) {
                (story.entry, story.has_ended) = (Some((record.seq, entry)), true);
            }
            return Ok(());
        }
        if let Some(content) = LedgerContent::of(record, &story.keys)? {
            self.take_content(content, story);
            return Ok(());
        }
        let Some(event) = event(record)? else {
            return Ok(());
        };
        if let Some(id) = story.ids.first() {
            story.undone.note(id, &event);
        }
        let Some(action) = action_of(&event) else {
            return Ok(());
        };
        let action = action.to_string();
        if !is_meant(&action, &self.action_id) {
            if let StoreEvent::Intended(next) = &event {
                story.history.follow(record.seq, next);
            }
            return Ok(());
        }
        if story.is_about(&action) {
            story.history.note(record.seq, &event);
            if let StoreEvent::Settled(settled) = &event {
                story.resolved = Resolved::of(settled).or(story.resolved.take());
            }
            story.intend(record.seq, &event);
        }
        Ok(())
    }

    fn take_content(&self, content: LedgerContent, story: &mut Story) {
        let id = content.head.action_id.clone();
        if is_meant(&id, &self.action_id) && story.is_about(&id) {
            story.has_contents = true;
            story.contents.extend(self.contents.then_some(content));
        }
    }

    fn print(
        &self,
        seq: u64,
        entry: &Text,
        story: &Story,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        if self.json {
            let more = Text::of(&story.history.fields());
            let members = ["history", "repeated"]
                .into_iter()
                .filter_map(|name| Some((name, more.get(name)?)));
            let whole = members.fold(entry.clone(), |entry, (name, value)| {
                entry.with_new_member(name, &value)
            });
            let whole = match story.undone.field() {
                Some(undone) => whole.with_new_member("taken_back", &Text::of(&undone)),
                None => whole,
            };
            let whole = match &story.resolved {
                Some(resolved) => whole.with_new_member("resolved", &resolved.field()),
                None => whole,
            };
            let whole = match story.contents_field() {
                Some(contents) => whole.with_new_member("contents", &contents),
                None => whole,
            };
            return writeln!(out, "{}", text::line(seq, whole.as_bytes()));
        }
        writeln!(out, "{:<15} {seq}", "record")?;
        for (name, value) in entry.members().into_iter().flatten() {
            let shown = match value.as_str() {
                Some(string) => text::plain(&string),
                None => text::plain(&String::from_utf8_lossy(value.as_bytes())),
            };
            writeln!(out, "{:<15} {shown}", text::plain(&name))?;
        }
        if let Some(resolved) = &story.resolved {
            writeln!(out, "{:<15} {}", "resolved", text::plain(&resolved.words()))?;
        }
        if let Some(words) = story.undone.words() {
            writeln!(out, "{:<15} {words}", "taken back")?;
        }
        for content in &story.contents {
            let shown = match &content.text {
                Ok(text) => text::plain(&String::from_utf8_lossy(text.as_bytes())),
                Err(why) => why.clone(),
            };
            writeln!(out, "{:<15} {shown}", content.name())?;
        }
        if story.has_contents && !self.contents {
            writeln!(out, "{:<15} kept; --contents shows them", "contents")?;
        }
        story
            .history
            .lines()
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"))
    }
}

/// The call that the event is about; none where it tells nothing of one.
fn action_of(event: &StoreEvent) -> Option<ActionId> {
    match event {
        StoreEvent::Intended(intended) => Some(intended.action),
        StoreEvent::Settled(settled) => Some(settled.action),
        StoreEvent::Held(held) => Some(held.hold.id),
        StoreEvent::Decided(decided) => Some(decided.id),
        StoreEvent::Edited(edited) => Some(edited.id),
        StoreEvent::Extended(extended) => Some(extended.id),
        StoreEvent::Granted(minted) => minted.allowed.as_ref().map(|allowed| allowed.id),
        StoreEvent::UndoAsked(asked) => Some(asked.of),
        StoreEvent::Reserved(_)
        | StoreEvent::Spent(_)
        | StoreEvent::Tallied(_)
        | StoreEvent::Entered { .. }
        | StoreEvent::Planned { .. }
        | StoreEvent::Steered(_)
        | StoreEvent::Fenced { .. }
        | StoreEvent::Revoked(_)
        | StoreEvent::Noted(_)
        | StoreEvent::Carried(_) => None,
    }
}

impl Story {
    /// The contents by their part, where there are any to show.
    fn contents_field(&self) -> Option<Text> {
        let mut fields = Map::new();
        for content in &self.contents {
            let LedgerContent { head, text } = content;
            let mut field = json!({ "form": head.form.word(), "bytes": head.bytes });
            match text {
                Ok(text) => field["value"] = text.parse().unwrap_or_default(),
                Err(why) => field["missing"] = why.as_str().into(),
            }
            fields.insert(head.part.word().to_owned(), field);
        }
        (!fields.is_empty()).then(|| Text::of(&Value::Object(fields)))
    }

    /// Whether everything so far was about `id` only.
    fn is_about(&mut self, id: &str) -> bool {
        if !self.ids.iter().any(|known| known == id) && self.ids.len() <= MAX_IDS_NAMED {
            self.ids.push(id.to_owned());
        }
        self.ids.len() == 1 && self.ids[0] == id
    }

    /// Until there is an entry, the intent tells of the call, and what was found of it later.
    fn intend(&mut self, seq: u64, event: &StoreEvent) {
        let begun = if let StoreEvent::Intended(intended) = event {
            unfinished(seq, intended.entry.clone(), &ClaimPhase::Dispatching)
        } else if let StoreEvent::Settled(settled) = event {
            let Some((seq, entry)) = self.entry.take_if(|_| !self.has_ended) else {
                return;
            };
            let Ok(entry) = entry.parse() else { return };
            unfinished(seq, entry, &settled.phase)
        } else {
            return;
        };
        let text = serde_json::to_vec(&begun.entry).unwrap_or_default();
        self.entry = Text::read(text.into(), &SERVER_JSON_LIMITS)
            .ok()
            .map(|text| (begun.seq, text));
    }
}

//! What stands in the ledger beside calls, in words and for programs: starts, stops, reloads, tools that
//! operators took away, incidents, definitions that changed.

use super::call_filter::CallFilter;
use super::text::{json, line_of, plain, short};
use crate::cli::table::cut as fitted;
use crate::cli::terminal::{Terminal, Tone};
use crate::store::journal::{JournalError, JournalRecord};
use crate::store::operator::time;
use crate::store::state::event::{IncidentStep, Note, Noted, PolicyRolledBack, StoreEvent};
use jiff::Timestamp;
use serde_json::{Value, json};

/// How the records begin that are told of here; the others need not be read.
const NOTED_RECORD: &[u8] = b"{\"noted\"";
/// Columns of what happened, in a line for people.
pub(super) const EVENT_COLUMNS: usize = 14;
/// Columns before that, of a time to the second and a gap.
pub(super) const TIME_COLUMNS: usize = 22;
/// Columns between two parts of a line.
pub(super) const GAP_COLUMNS: usize = 2;
/// Of a policy's version, as much as the other screens show.
const VERSION_CHARS: usize = 12;

/// The event in `record`; none when it holds none.
pub(super) fn event(record: &JournalRecord) -> Result<Option<StoreEvent>, JournalError> {
    let Some(bytes) = record.event() else {
        return Ok(None);
    };
    let why = |error: serde_json::Error| JournalError::Unreadable {
        seq: record.seq,
        why: error.to_string(),
    };
    StoreEvent::decode(bytes).map(Some).map_err(why)
}

/// The line for the event in `record`. What undos keep of calls, answers, and the arguments of held calls stay in the
/// journal; digests are in the events.
pub(super) fn event_line(record: &JournalRecord, mut event: StoreEvent) -> String {
    if event.leave_out()
        && let Ok(head) = serde_json::to_vec(&event)
    {
        return line_of(record.seq, "event", &head);
    }
    let head = record.bytes.split(|byte| *byte == b'\n').next();
    line_of(record.seq, "event", head.unwrap_or_default())
}

/// One thing that happened.
pub(super) struct LedgerNote {
    seq: u64,
    noted: Noted,
}

impl LedgerNote {
    /// What `record` tells of; none when it tells of something else.
    pub(super) fn of(record: &JournalRecord) -> Result<Option<Self>, JournalError> {
        let is_noted = |bytes: &&bytes::Bytes| bytes.starts_with(NOTED_RECORD);
        if !record.event().as_ref().is_some_and(is_noted) {
            return Ok(None);
        }
        Ok(match event(record)? {
            Some(StoreEvent::Noted(noted)) => Some(Self {
                seq: record.seq,
                noted,
            }),
            _ => None,
        })
    }

    /// Whether it is asked for: what only calls can tell, no note tells.
    pub(super) fn fits(&self, wanted: &CallFilter) -> bool {
        let at = i64::try_from(self.noted.at).unwrap_or(i64::MAX);
        !wanted.is_of_entries()
            && wanted.names("")
            && Timestamp::from_millisecond(at).map_or(true, |time| wanted.is_in_time(time))
    }

    /// A line for people, no longer than that of the terminal.
    pub(super) fn line(&self, terminal: &Terminal) -> String {
        let (at, what) = (time(self.noted.at), plain(&self.words()));
        let taken = TIME_COLUMNS + EVENT_COLUMNS + GAP_COLUMNS;
        let what = fitted(&what, terminal.room_beside(taken));
        let name = format!("{:<EVENT_COLUMNS$}", self.name());
        let name = self
            .tone()
            .map(|tone| terminal.paint(tone, &name))
            .unwrap_or(name);
        format!("{}  {name}  {what}", second(&at))
    }

    /// How it is to be taken.
    fn tone(&self) -> Option<Tone> {
        match &self.noted.note {
            Note::ReloadRefused { .. }
            | Note::Drifted { .. }
            | Note::Incident {
                step: IncidentStep::Opened | IncidentStep::Refused,
                ..
            } => Some(Tone::Bad),
            Note::Disabled { .. } | Note::Stripped { .. } | Note::RolledBack(_) => Some(Tone::Warn),
            Note::Started { .. }
            | Note::Stopped { .. }
            | Note::Reloaded { .. }
            | Note::Enabled { .. }
            | Note::Incident { .. } => None,
        }
    }

    /// A line for programs.
    pub(super) fn json(&self) -> String {
        let note = serde_json::to_value(&self.noted.note).unwrap_or_default();
        let fields = note.as_object().and_then(|note| note.values().next());
        let mut line =
            json!({ "seq": self.seq, "event": self.name(), "time": time(self.noted.at) });
        if let (Value::Object(line), Some(Value::Object(fields))) = (&mut line, fields) {
            line.extend(fields.clone());
        }
        json(&line.to_string())
    }

    fn name(&self) -> &'static str {
        match &self.noted.note {
            Note::Started { .. } => "started",
            Note::Stopped { .. } => "stopped",
            Note::Reloaded { .. } => "reloaded",
            Note::ReloadRefused { .. } => "reload_refused",
            Note::RolledBack(_) => "rolled_back",
            Note::Disabled { .. } => "disabled",
            Note::Enabled { .. } => "enabled",
            Note::Stripped { .. } => "stripped",
            Note::Drifted { .. } => "drifted",
            Note::Incident { .. } => "incident",
        }
    }

    fn words(&self) -> String {
        match &self.noted.note {
            Note::Started {
                version,
                pid,
                policy,
            } => format!("toolgate {version}, process {pid}, policy {}", cut(policy)),
            Note::Stopped { pid, policy } => format!("process {pid}, policy {}", cut(policy)),
            Note::Reloaded {
                before,
                policy,
                operators: true,
            } => {
                let other = if before == policy {
                    "as before".to_owned()
                } else {
                    format!("(before: {})", cut(before))
                };
                format!(
                    "other operators, or other roles; policy {} {other}",
                    cut(policy)
                )
            }
            Note::Reloaded { before, policy, .. } if before == policy => {
                format!(
                    "the files have no errors any more; policy {} as before",
                    cut(policy)
                )
            }
            Note::Reloaded { before, policy, .. } => {
                format!("policy {} → {}", cut(before), cut(policy))
            }
            Note::ReloadRefused { policy, errors } => {
                let errors = crate::model::counted::counted(*errors as usize, "error");
                format!("{errors} in the files; policy {} stays", cut(policy))
            }
            Note::RolledBack(done) => rolled_back(done),
            Note::Disabled { tool, who, why } | Note::Enabled { tool, who, why } => {
                format!("{} by {}: {why}", short(tool.as_str()), short(who))
            }
            Note::Stripped { layer, policy } => format!(
                "{layer} names only tools of disabled servers and is left out; policy {}",
                cut(policy)
            ),
            Note::Drifted { tool, why, .. } => format!("{}: {why}", short(tool.as_str())),
            Note::Incident {
                incident,
                step,
                scope,
                who,
                why,
            } => {
                let (step, scope, who) = (step.word(), short(scope), short(who));
                format!("{incident} {step}, {scope}, by {who}: {why}")
            }
        }
    }
}

fn rolled_back(done: &PolicyRolledBack) -> String {
    let [from, to] = [done.from, done.to].map(|bundle| bundle.to_string());
    let by_force = if done.forced { ", by force" } else { "" };
    let why = done.why.as_deref().map(|why| format!(": {why}"));
    format!(
        "policy files {} → {} by {}{by_force}{}",
        cut(&from),
        cut(&to),
        short(&done.who),
        why.unwrap_or_default()
    )
}

/// A time of RFC 3339 to the second, in UTC.
pub(super) fn second(time: &str) -> String {
    format!("{}Z", plain(time.get(..19).unwrap_or(time)))
}

fn cut(version: &str) -> &str {
    version.get(..VERSION_CHARS).unwrap_or(version)
}

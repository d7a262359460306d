//! Which calls are asked for.

use super::known_names::KnownNames;
use super::met_names::{CODE, MetNames, TOOL};
use crate::cli::configured::DataArgs;
use crate::cli::operator::MISUSE_EXIT_CODE;
use crate::cli::terminal::ids::is_meant;
use crate::model::clock::Clock;
use crate::model::entry::Entry;
use crate::model::ids::NAME_SEPARATOR;
use jiff::{SignedDuration, Timestamp};
use std::io::{self, Write};

/// The method of a call.
const CALL_METHOD: &str = "tools/call";

/// Which calls are asked for; all conditions have to hold.
#[derive(Debug, Default, clap::Args)]
pub(in crate::cli) struct CallFilter {
    /// Only calls by this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only calls for this user of an agent
    #[arg(long)]
    user: Option<String>,
    /// Only calls of this tool: `server__tool`
    #[arg(long)]
    tool: Option<String>,
    /// Only messages with this method, such as `resources/read`; `tools/call` for calls alone
    #[arg(long)]
    method: Option<String>,
    /// Only calls refused with this code, or that enforce mode would have refused with it
    #[arg(long)]
    code: Option<String>,
    /// Only calls with this outcome, as it was when the agent was answered; `dispatching`: not
    /// answered yet
    #[arg(long, value_parser = ["answered", "passed", "planned", "refused", "failed", "unknown", "dispatching"])]
    outcome: Option<String>,
    /// Only calls in this state of their task
    #[arg(long, value_parser = ["collect", "plan", "execute", "summarize"])]
    state: Option<String>,
    /// Only calls of this task, as their agent names it
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Only calls in this session: the legacy one, or the one that their agent names
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Only calls with this trace id, or with one that begins so
    #[arg(long, value_name = "TRACE_ID")]
    trace: Option<String>,
    /// Only calls that name this resource, by their contract's `permission.resource`, and messages about
    /// it: its URI
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Only the call with this action id, or with one that begins or ends so
    #[arg(long, value_name = "ACTION_ID")]
    action: Option<String>,
    /// Only calls since then: a time such as 2026-07-28T09:00:00Z, or how long ago, such as 90s,
    /// 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only calls before then; as --since
    #[arg(long, value_name = "TIME", value_parser = since)]
    until: Option<Timestamp>,
    /// Which of these names were met.
    #[arg(skip)]
    met: MetNames,
}

impl CallFilter {
    /// Whatever there is between these times.
    pub(super) fn of_time(since: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        Self {
            since,
            until,
            ..Self::default()
        }
    }

    /// Notes which names that are asked for `entry` has; none of a ledger without one.
    fn meet(&self, entry: Option<&Entry>) {
        let agent = entry.map(Entry::agent);
        let named = entry.and_then(Entry::named_user);
        let tool = entry.map(|entry| entry.tool.as_str());
        let task = entry.and_then(|entry| entry.task.as_deref());
        let session = entry.and_then(|entry| entry.session.as_deref());
        let codes = entry.map(|entry| [&entry.aborted_reason, &entry.would_refuse]);
        let codes = codes.into_iter().flatten().flatten().map(String::as_str);
        let met = &self.met;
        met.meet("is by the agent", self.agent.as_deref(), agent);
        met.meet("is for the user", self.user.as_deref(), named);
        met.meet(TOOL, self.tool.as_deref(), tool);
        met.meet(CODE, self.code.as_deref(), codes);
        met.meet("is of the task", self.task.as_deref(), task);
        met.meet("is in the session", self.session.as_deref(), session);
    }

    /// Says which names that are asked for no call has, once all were looked at. The exit code: 0, or 2
    /// where a code or a tool cannot be, by the configuration of the ledger that is `named`.
    pub(in crate::cli) fn say_unmet(
        &self,
        named: &DataArgs,
        err: &mut dyn Write,
    ) -> io::Result<u8> {
        self.meet(None);
        let unmet = self.met.unmet();
        if unmet.is_empty() {
            return Ok(0);
        }
        let known = KnownNames::of(named);
        for one in &unmet {
            writeln!(err, "toolgate: {}", one.words(&known))?;
        }
        let is_of_calls = self.method.as_deref().is_none_or(|one| one == CALL_METHOD);
        let mut judged = unmet.iter().filter(|one| is_of_calls || !one.is_of_tool());
        let is_wrong = judged.any(|one| one.is_impossible(&known));
        Ok(if is_wrong { MISUSE_EXIT_CODE } else { 0 })
    }

    /// Whether `entry` is asked for.
    pub(in crate::cli) fn fits(&self, entry: &Entry) -> bool {
        self.meet(Some(entry));
        let code = [&entry.aborted_reason, &entry.would_refuse];
        self.agent.as_ref().is_none_or(|agent| *agent == entry.agent())
            && self.user.as_ref().is_none_or(|user| Some(user.as_str()) == entry.named_user())
            && self.tool.as_ref().is_none_or(|tool| *tool == entry.tool)
            && self.method.as_ref().is_none_or(|method| method == entry.method.as_deref().unwrap_or(CALL_METHOD))
            && self.outcome.as_ref().is_none_or(|outcome| *outcome == entry.outcome)
            && self.state.as_ref().is_none_or(|state| *state == entry.state)
            && self.code.as_ref().is_none_or(|wanted| code.iter().any(|code| code.as_ref() == Some(wanted)))
            && self.task.as_ref().is_none_or(|task| entry.task.as_ref() == Some(task))
            && self.session.as_ref().is_none_or(|session| entry.session.as_ref() == Some(session))
            && self.trace.as_ref().is_none_or(|trace| begins(&entry.trace_id, trace))
            && self.resource.as_ref().is_none_or(|resource| is_about(entry, resource))
            && self.names(&entry.action_id)
            // A time that can't be read must not hide a call.
            && entry.time.parse().map_or(true, |time| self.is_in_time(time))
    }

    /// Whether the call of that id may be asked for.
    pub(super) fn names(&self, action: &str) -> bool {
        self.action
            .as_ref()
            .is_none_or(|wanted| is_meant(action, wanted))
    }

    /// Whether `time` is asked for.
    pub(super) fn is_in_time(&self, time: Timestamp) -> bool {
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
    }

    /// Whether only calls are asked for that only an entry can tell.
    pub(super) fn is_of_entries(&self) -> bool {
        [
            &self.agent,
            &self.user,
            &self.tool,
            &self.method,
            &self.code,
            &self.outcome,
            &self.state,
            &self.task,
            &self.session,
            &self.trace,
            &self.resource,
        ]
        .into_iter()
        .any(Option::is_some)
    }
}

/// Whether `entry` names `resource`, or is of a message about it: then its tool is `server__uri`.
fn is_about(entry: &Entry, resource: &str) -> bool {
    let of_message = || {
        let uri = entry.tool.split_once(NAME_SEPARATOR);
        entry.method.is_some() && uri.is_some_and(|(_, uri)| uri == resource)
    };
    entry.resources.iter().any(|named| named == resource) || of_message()
}

/// Whether `id` is `beginning`, or begins so.
fn begins(id: &str, beginning: &str) -> bool {
    id.get(..beginning.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

pub(in crate::cli) fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let wrong = || {
        "give a time such as 2026-07-28T09:00:00Z, or how long ago, such as 90s, 15m, 2h, 7d"
            .to_owned()
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = text
        .strip_suffix(unit)
        .and_then(|count| count.parse().ok())
        .ok_or_else(wrong)?;
    let ago = SignedDuration::from_secs(i64::from(count) * seconds);
    Clock.wall().checked_sub(ago).map_err(|_| wrong())
}

//! Agents behind which several people may be, whom nobody tells apart: equal calls of two of them are
//! taken for one call, and one reads the other's answer.
//!
//! `check` says it of agents for which a front end speaks, `doctor` also of those that the ledger has
//! seen in several sessions at once. Where the configuration says who is behind an agent, neither does.

use crate::cli::ledger::calls::LedgerCalls;
use crate::model::caller::Caller;
use crate::model::diagnostic::{Diagnostic, Problem, Severity};
use crate::model::entry::Entry;
use crate::policy::Policy;
use crate::policy::locate::YamlDocument;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Sessions of one agent that are looked at, the first of the ledger.
const MAX_SESSIONS_SEEN: usize = 1_000;
/// What follows.
const MEANING: &str = "equal calls of two people behind it are taken for one, and one of them can read the other's answer";
/// What is to be done.
const HINT: &str = "give the front end a `user_header`, or write `users: meta` if the agent names users itself, or `users: one` if \
                    there is one person";

/// When a session was first and last seen to change something.
struct SeenSession {
    first: Timestamp,
    last: Timestamp,
}

/// A warning for each agent of a front end that names no users.
pub(super) fn judge(configuration: &Path, policy: &Policy) -> Vec<Diagnostic> {
    let Ok(document) = YamlDocument::read(configuration) else {
        return Vec::new();
    };
    let spoken = |(index, caller): (usize, &Caller)| {
        let front_end = document.tree()["callers"][index]["front_end"].as_str()?;
        let path = vec!["callers".to_owned(), index.to_string(), "agent".to_owned()];
        Some(document.locate(Problem {
            part: None,
            severity: Severity::Warning,
            path,
            message: format!(
                "the front end `{}` names no users of `{}`: {MEANING}",
                front_end.escape_debug(),
                caller.agent
            ),
            hint: Some(HINT.to_owned()),
        }))
    };
    unsaid(&document, policy).filter_map(spoken).collect()
}

/// A note for each agent that the ledger in `data` has seen in several sessions at once.
pub(super) fn seen(configuration: &Path, policy: &Policy, data: &Path) -> Vec<String> {
    let (Ok(document), Ok(calls)) = (YamlDocument::read(configuration), LedgerCalls::open(data))
    else {
        return Vec::new();
    };
    let mut agents: BTreeMap<&str, BTreeMap<String, SeenSession>> = unsaid(&document, policy)
        .map(|(_, caller)| (caller.agent.as_str(), BTreeMap::new()))
        .collect();
    for call in calls.flatten() {
        let Some(sessions) = agents.get_mut(call.entry.agent()) else {
            continue;
        };
        note(sessions, &call.entry);
    }
    let crowded = agents.into_iter().filter(|(_, sessions)| overlap(sessions));
    crowded
        .map(|(agent, _)| {
            format!("the agent `{agent}` worked in several sessions at once and names no users: {MEANING}; {HINT}")
        })
        .collect()
}

fn note(sessions: &mut BTreeMap<String, SeenSession>, entry: &Entry) {
    let changes = entry.attempts > 0 && entry.actions.iter().any(|action| action != "read");
    let (true, None, Some(session), Ok(at)) = (
        changes,
        entry.named_user(),
        &entry.session,
        entry.time.parse(),
    ) else {
        return;
    };
    if let Some(known) = sessions.get_mut(session) {
        known.first = known.first.min(at);
        known.last = known.last.max(at);
    } else if sessions.len() < MAX_SESSIONS_SEEN {
        let seen = SeenSession {
            first: at,
            last: at,
        };
        sessions.insert(session.clone(), seen);
    }
}

fn overlap(sessions: &BTreeMap<String, SeenSession>) -> bool {
    let mut spans: Vec<&SeenSession> = sessions.values().collect();
    spans.sort_by_key(|span| span.first);
    let follows = |pair: &[&SeenSession]| pair[1].first < pair[0].last;
    spans.windows(2).any(follows)
}

/// Callers of whom nothing says who is behind them, and which may change something; with their place
/// in the configuration.
fn unsaid<'p>(
    document: &'p YamlDocument,
    policy: &'p Policy,
) -> impl Iterator<Item = (usize, &'p Caller)> {
    let named: Vec<&str> = elements(&document.tree()["front_ends"])
        .iter()
        .filter(|front_end| front_end["user_header"].is_string())
        .filter_map(|front_end| front_end["name"].as_str())
        .collect();
    let callers = policy.identity.callers().iter().enumerate();
    let is_unsaid = move |index: usize, caller: &Caller| {
        let written = &document.tree()["callers"][index];
        let has_header = written["front_end"]
            .as_str()
            .is_some_and(|name| named.contains(&name));
        let mut changing = policy.allowlist.changing();
        let may_change = |name| policy.allowlist.admit(caller, name).is_ok();
        written["users"].is_null() && !has_header && changing.any(|(name, _)| may_change(name))
    };
    callers
        .map(|(index, caller)| (index, &**caller))
        .filter(move |(index, caller)| is_unsaid(*index, caller))
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

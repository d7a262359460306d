//! The invariants I1 to I9 of threat-model §12. Pure: what happened goes in, what should not have
//! happened comes out.

use crate::agent::{Told, What};
use crate::oracle::Execution;
use crate::rows::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// All there is to judge by. Times are boot time in nanoseconds.
#[derive(Debug, Default, Clone)]
pub struct Evidence {
    /// What the tool server executed, in its order.
    pub executions: Vec<Execution>,
    /// What the agents were told.
    pub told: Vec<Told>,
    /// What the journal says, oldest first.
    pub rows: Vec<Row>,
    /// What `toolgate ledger verify` found wrong; none if nothing.
    pub damage: Option<String>,
    /// From when to when each toolgate on this data directory ran.
    pub runs: Vec<(i64, i64)>,
    /// When something broke on purpose that can leave an outcome unknown: a kill, a connection
    /// towards the tool server.
    pub faults: Vec<i64>,
    /// Keys whose tool server was ordered to leave its outcome unknown.
    pub excused: BTreeSet<String>,
    /// A secret that only toolgate and the tool server may know.
    pub canary: Option<String>,
    /// Where the secret must not be, besides what agents were told: names and contents.
    pub places: Vec<(String, Vec<u8>)>,
}

/// The tool, by its own name, whose calls a person has to allow.
const HELD: &str = "held";
/// How long after it broke a connection may still be taken for a good one, in nanoseconds: the
/// process that uses it was told that it was closed, and has not read it yet.
const NOTICED: i64 = 250_000_000;

/// Something that should not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `I1` to `I9`.
    pub invariant: &'static str,
    /// The business key, or what else it is about.
    pub key: String,
    /// What should have been.
    pub expected: String,
    /// What was.
    pub evidence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: expected {}; {}",
            self.invariant, self.key, self.expected, self.evidence
        )
    }
}

/// What an invariant is said to break with.
type Broken = (String, String, String);

/// Every violation, by invariant.
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let keys = by_key(evidence);
    let judged: [(&'static str, Vec<Broken>); 9] = [
        ("I1", once(&keys)),
        ("I2", nothing_lost(&keys)),
        ("I3", [intended(evidence), allowed(evidence)].concat()),
        ("I4", nothing_denied(&keys)),
        (
            "I5",
            evidence
                .damage
                .iter()
                .map(|damage| named("the journal", "a chain that verifies", damage))
                .collect(),
        ),
        ("I6", paid(evidence)),
        ("I7", one_at_a_time(evidence)),
        ("I8", nothing_leaked(evidence)),
        ("I9", unknown_for_a_reason(&keys, evidence)),
    ];
    let violation = |invariant, (key, expected, evidence)| Violation {
        invariant,
        key,
        expected,
        evidence,
    };
    judged
        .into_iter()
        .flat_map(|(name, broken)| broken.into_iter().map(move |one| violation(name, one)))
        .collect()
}

fn named(key: &str, expected: &str, evidence: &str) -> Broken {
    (key.to_owned(), expected.to_owned(), evidence.to_owned())
}

type Keys<'a> = BTreeMap<&'a str, (Vec<&'a Execution>, Vec<&'a Told>)>;

fn by_key(evidence: &Evidence) -> Keys<'_> {
    let mut keys = Keys::new();
    for execution in &evidence.executions {
        keys.entry(&execution.key).or_default().0.push(execution);
    }
    for told in &evidence.told {
        keys.entry(&told.key).or_default().1.push(told);
    }
    keys
}

fn all(executions: &[&Execution], told: &[&Told]) -> String {
    let executions = executions.iter().map(ToString::to_string);
    executions
        .chain(told.iter().map(ToString::to_string))
        .collect::<Vec<_>>()
        .join("; ")
}

/// I1: executions(key) ≤ 1.
fn once(keys: &Keys<'_>) -> Vec<Broken> {
    let more = keys
        .iter()
        .filter(|(_, (executions, _))| executions.len() > 1);
    more.map(|(key, (executions, told))| named(key, "at most 1 execution", &all(executions, told)))
        .collect()
}

/// I2: an agent that was told of success ⇒ executions(key) = 1.
fn nothing_lost(keys: &Keys<'_>) -> Vec<Broken> {
    let success = |told: &&&Told| matches!(told.what, What::Done { .. } | What::ToolError);
    let lost = keys.iter().filter_map(|(key, (executions, told))| {
        let success = told
            .iter()
            .find(success)
            .filter(|_| executions.is_empty())?;
        Some(named(
            key,
            "1 execution, for an agent was told that it ran",
            &format!("0 executions, told {success}"),
        ))
    });
    lost.collect()
}

/// I3: every execution has an intent of the same action with the same digest. That it stood there
/// before is what a kill shows: an execution whose intent was not durable has none afterwards.
fn intended(evidence: &Evidence) -> Vec<Broken> {
    let intents = evidence.rows.iter().filter_map(|row| match row {
        Row::Intent { action, digest, .. } => Some((action.as_str(), digest.as_str())),
        Row::Released { .. } | Row::Held { .. } | Row::Decided { .. } => None,
    });
    let intents: BTreeSet<(&str, &str)> = intents.collect();
    let digests: BTreeSet<&str> = intents.iter().map(|(_, digest)| *digest).collect();
    let without = evidence
        .executions
        .iter()
        .filter(|execution| match &execution.fence {
            Some(fence) => !intents.contains(&(fence.action.as_str(), execution.digest.as_str())),
            None => !digests.contains(execution.digest.as_str()),
        });
    without
        .map(|one| {
            named(
                &one.key,
                "an intent of this action and digest",
                &format!("{one} has none"),
            )
        })
        .collect()
}

/// A hold, as the journal tells of it.
struct Hold<'a> {
    id: &'a str,
    digest: &'a str,
    allowed: bool,
    used: bool,
}

/// I3: every execution of a call that a person has to allow used up one approval, which was given
/// for exactly these arguments; none is used twice, or without an allowing word, or after a denying
/// one.
fn allowed(evidence: &Evidence) -> Vec<Broken> {
    let (mut holds, mut used, mut broken) = (
        BTreeMap::<&str, Hold<'_>>::new(),
        BTreeMap::new(),
        Vec::new(),
    );
    for row in &evidence.rows {
        match row {
            Row::Held { key, id, digest } => {
                let (allowed, used) = (false, false);
                holds.insert(
                    key,
                    Hold {
                        id,
                        digest,
                        allowed,
                        used,
                    },
                );
            }
            Row::Decided { key, id, phase } => {
                if let Some(hold) = holds.get_mut(key.as_str()).filter(|hold| hold.id == id) {
                    hold.allowed = phase == "allowed";
                }
            }
            Row::Intent {
                action,
                hold: Some(key),
                ..
            } => {
                let hold = holds.get_mut(key.as_str());
                match hold.filter(|hold| hold.allowed && !hold.used) {
                    Some(hold) => {
                        hold.used = true;
                        used.insert(action.as_str(), hold.digest);
                    }
                    None => broken.push(named(
                        action,
                        "an approval that is allowed and not used",
                        &format!("{row:?}"),
                    )),
                }
            }
            Row::Intent { hold: None, .. } | Row::Released { .. } => {}
        }
    }
    let held = evidence
        .executions
        .iter()
        .filter(|execution| execution.tool == HELD);
    let without = held.filter(|one| {
        let action = one.fence.as_ref().map(|fence| fence.action.as_str());
        action
            .and_then(|action| used.get(action))
            .is_none_or(|digest| *digest != one.digest)
    });
    let rule = "one approval of this digest, used up";
    broken.extend(without.map(|one| named(&one.key, rule, &format!("{one} has none"))));
    broken
}

/// I4: denied ⇒ 0 executions. An agent was told at last that nothing ran, and was told nothing else
/// before that says so.
fn nothing_denied(keys: &Keys<'_>) -> Vec<Broken> {
    let denied = keys.iter().filter_map(|(key, (executions, told))| {
        let ran = told.iter().any(|told| {
            matches!(
                told.what,
                What::Done { .. } | What::ToolError | What::Unknown
            )
        });
        let denied =
            |told: &&&Told| matches!(&told.what, What::Refused { retry, .. } if retry == "never");
        let denial = told
            .iter()
            .rfind(denied)
            .filter(|_| !ran && !executions.is_empty())?;
        Some(named(
            key,
            "0 executions, for it was denied",
            &format!("{}; denied {denial}", all(executions, &[])),
        ))
    });
    denied.collect()
}

/// I6: what was executed was paid: no execution's reservation was given back.
fn paid(evidence: &Evidence) -> Vec<Broken> {
    let released: BTreeSet<&str> = evidence
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::Released { action } => Some(action.as_str()),
            Row::Intent { .. } | Row::Held { .. } | Row::Decided { .. } => None,
        })
        .collect();
    let unpaid = evidence.executions.iter().filter(|one| {
        one.fence
            .as_ref()
            .is_some_and(|fence| released.contains(fence.action.as_str()))
    });
    unpaid
        .map(|one| {
            named(
                &one.key,
                "a reservation that is kept or settled",
                &format!("{one}, released"),
            )
        })
        .collect()
}

/// I7: no two toolgates at once, and a session's tokens only grow, in the journal and at the tool
/// server.
fn one_at_a_time(evidence: &Evidence) -> Vec<Broken> {
    let mut runs = evidence.runs.clone();
    runs.sort_unstable();
    let mut broken: Vec<Broken> = runs
        .windows(2)
        .filter(|pair| pair[1].0 < pair[0].1)
        .map(|pair| named("two toolgates", "one after the other", &format!("{pair:?}")))
        .collect();
    let journal = evidence.rows.iter().filter_map(|row| match row {
        Row::Intent {
            session,
            token,
            action,
            ..
        } => Some((session.as_str(), *token, action.as_str())),
        Row::Released { .. } | Row::Held { .. } | Row::Decided { .. } => None,
    });
    broken.extend(shrinking("the journal", journal));
    let server = evidence.executions.iter().filter_map(|execution| {
        let fence = execution.fence.as_ref()?;
        Some((fence.session.as_str(), fence.token, fence.action.as_str()))
    });
    broken.extend(shrinking("the tool server", server));
    broken
}

fn shrinking<'a>(
    whose: &str,
    tokens: impl Iterator<Item = (&'a str, u64, &'a str)>,
) -> Vec<Broken> {
    let mut highest: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let mut broken = Vec::new();
    for (session, token, action) in tokens {
        let last = highest.entry(session).or_insert((token, action));
        if token < last.0 || (token == last.0 && action != last.1) {
            let evidence = format!(
                "{token} of action {action} came after {} of action {}",
                last.0, last.1
            );
            broken.push(named(
                &format!("session {session}"),
                &format!("tokens that grow for {whose}"),
                &evidence,
            ));
        }
        *last = (token, action).max(*last);
    }
    broken
}

/// I8: the canary is in nothing that an agent reads and nothing that is stored.
fn nothing_leaked(evidence: &Evidence) -> Vec<Broken> {
    let Some(canary) = evidence
        .canary
        .as_deref()
        .filter(|canary| !canary.is_empty())
    else {
        return Vec::new();
    };
    let holds = |bytes: &[u8]| {
        bytes
            .windows(canary.len())
            .any(|part| part == canary.as_bytes())
    };
    let told = evidence
        .told
        .iter()
        .filter(|told| holds(told.text.as_bytes()));
    let mut broken: Vec<Broken> = told
        .map(|told| named(&told.key, "no canary in what an agent reads", &told.text))
        .collect();
    let stored = evidence.places.iter().filter(|(_, bytes)| holds(bytes));
    broken.extend(stored.map(|(name, _)| named(name, "no canary in it", "it is there")));
    broken
}

/// I9: unknown only when something broke between sending and outcome.
fn unknown_for_a_reason(keys: &Keys<'_>, evidence: &Evidence) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (key, (_, told)) in keys
        .iter()
        .filter(|(key, _)| !evidence.excused.contains(**key))
    {
        let first = told.iter().map(|told| told.asked).min().unwrap_or_default();
        let unknown = told.iter().filter(|told| told.what == What::Unknown);
        let groundless = |told: &&&Told| {
            !evidence
                .faults
                .iter()
                .any(|fault| (first - NOTICED..=told.at).contains(fault))
        };
        broken.extend(unknown.filter(groundless).map(|told| {
            named(
                key,
                "a known outcome, for nothing broke",
                &format!("asked first at {first}, told {told}"),
            )
        }));
    }
    broken
}

#[cfg(test)]
mod tests;

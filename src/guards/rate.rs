//! Refuses a call of a caller that calls faster than it may.
//!
//! First of all steps: nothing else of the call is judged. A call counts when it comes, also one that
//! is refused for something else, or that comes again. What an agent starts (`parent`) counts
//! as its own, and as its group's.

use crate::guards::evidence::Paced;
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::rate::{CallLimit, Meter, Rate, RateSettings};
use crate::model::refusal::{Refusal, RefusalCode, RefusalFacts, RefusalKind, Retry};
use crate::model::times::millis;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How many calls, of one agent or of all agents of a group together: `{ calls: 600, per: 1m }`.
pub(crate) type Settings = RateSettings;

/// A group of callers, as written: `groups` of the configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CallerGroup")]
pub(crate) struct GroupSettings {
    /// Calls that all callers of the group may make together in a span of time, all of them at once
    /// at most. More are refused with `rate_exceeded`.
    pub limits: Option<Settings>,
}

/// One entry of `callers`, as far as it says whose limits count for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitedCaller<'a> {
    /// Its agent.
    pub agent: &'a str,
    /// The agent that starts it.
    pub parent: Option<&'a str>,
    /// Its group.
    pub group: Option<&'a str>,
    /// Its own limits; all entries of an agent share them.
    pub limits: Option<&'a Settings>,
}

/// As run: what counts for one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule<'a>(&'a [Arc<CallLimit>]);

pub(super) const RATE_EXCEEDED: RefusalCode = RefusalCode {
    code: "rate_exceeded",
    meaning: "the caller, an agent that started it, or its group, makes more calls than it may in a span of time",
    remedy: "send the same call again after the given time",
    kind: RefusalKind::Overrun,
};

/// The caller, an agent that started it, or its group, calls faster than it may.
pub(super) fn rate_exceeded(after_ms: u64) -> Refusal {
    let seconds = after_ms.div_ceil(1000);
    let facts = RefusalFacts {
        retry: Retry::AfterMs(after_ms),
        ..RefusalFacts::new(
            &RATE_EXCEEDED,
            format!("tools may be called again in {seconds} seconds"),
            "Send the same call again then, and fewer calls from now on.",
        )
    };
    facts.into()
}

// === impl Settings ===

/// What counts for each of `callers`, in their order. An agent's limits count for those that it
/// starts, too.
pub(crate) fn compile(
    callers: &[LimitedCaller<'_>],
    groups: &BTreeMap<String, GroupSettings>,
    problems: &mut Problems,
) -> Vec<Vec<Arc<CallLimit>>> {
    let agents = of_agents(callers, problems);
    let groups = of_groups(callers, groups, problems);
    let of = |caller: &LimitedCaller<'_>| {
        // The caller as this entry has it, and its parents as all of theirs have them.
        let mut family = vec![*caller];
        let mut next = 0;
        while let Some(one) = family.get(next).copied() {
            next += 1;
            let is_new = |parent: &&str| family.iter().all(|known| known.agent != *parent);
            if let Some(parent) = one.parent.filter(is_new) {
                family.extend(callers.iter().filter(|entry| entry.agent == parent));
            }
        }
        let own = family.iter().filter_map(|one| agents.get(one.agent));
        let shared = family.iter().filter_map(|one| groups.get(one.group?));
        let mut limits: Vec<Arc<CallLimit>> = own.chain(shared).cloned().collect();
        limits.sort_by(|one, other| one.of.cmp(&other.of));
        limits.dedup_by(|one, other| one.of == other.of);
        limits
    };
    callers.iter().map(of).collect()
}

fn of_agents<'a>(
    callers: &[LimitedCaller<'a>],
    problems: &mut Problems,
) -> HashMap<&'a str, Arc<CallLimit>> {
    let mut limits = HashMap::new();
    problems.under("callers", |problems| {
        for (index, caller) in callers.iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                problems.under("limits", |problems| of_entry(&mut limits, caller, problems));
            });
        }
    });
    limits
}

fn of_entry<'a>(
    limits: &mut HashMap<&'a str, Arc<CallLimit>>,
    caller: &LimitedCaller<'a>,
    problems: &mut Problems,
) {
    let written = caller.limits.cloned();
    let Some(rate) = written.and_then(|written| written.compile(problems)) else {
        return;
    };
    let known = limits
        .entry(caller.agent)
        .or_insert_with(|| limit("agent", caller.agent, rate));
    if known.meter.rate() != rate {
        let message = format!(
            "another entry gives the agent `{}` other limits",
            caller.agent.escape_debug()
        );
        problems.error(
            message,
            "write them in one entry: all tokens of an agent share them",
        );
    }
}

fn of_groups<'g>(
    callers: &[LimitedCaller<'_>],
    groups: &'g BTreeMap<String, GroupSettings>,
    problems: &mut Problems,
) -> HashMap<&'g str, Arc<CallLimit>> {
    let mut limits = HashMap::new();
    problems.under("groups", |problems| {
        for (name, group) in groups {
            problems.under(name, |problems| {
                if callers.iter().all(|caller| caller.group != Some(name)) {
                    problems.error(
                        format!("no caller is of the group `{}`", name.escape_debug()),
                        "name a `group` of `callers`",
                    );
                }
                problems.under("limits", |problems| {
                    let written = group.limits.clone();
                    let rate = written.and_then(|written| written.compile(problems));
                    limits.extend(rate.map(|rate| (&**name, limit("group", name, rate))));
                });
            });
        }
    });
    limits
}

fn limit(kind: &str, name: &str, rate: Rate) -> Arc<CallLimit> {
    Arc::new(CallLimit {
        of: format!("{kind} {name}"),
        meter: Meter::new(rate),
    })
}

// === impl Rule ===

impl<'a> Rule<'a> {
    /// What counts for `caller`.
    pub(crate) fn of(caller: &'a Caller) -> Self {
        Self(&caller.limits)
    }

    /// Counts one call at `now`, on the steady clock, if it fits everywhere; else counts nothing,
    /// but where another call was quicker, and says when one will fit.
    pub(crate) fn take(self, now: Duration) -> Result<Paced, Refusal> {
        let waits = self.0.iter().map(|limit| limit.meter.wait(now));
        let mut wait = waits.max().unwrap_or_default();
        if wait.is_zero() {
            let taken = self.0.iter().try_for_each(|limit| limit.meter.take(now));
            wait = taken.err().unwrap_or_default();
        }
        if wait.is_zero() {
            return Ok(Paced::mint());
        }
        Err(rate_exceeded(
            millis(wait + Duration::from_micros(999)).max(1),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1_000);

    fn settings(calls: u64) -> Settings {
        Settings {
            calls,
            per: "1m".to_owned(),
        }
    }

    fn entry<'a>(agent: &'a str, limits: Option<&'a Settings>) -> LimitedCaller<'a> {
        LimitedCaller {
            agent,
            parent: None,
            group: None,
            limits,
        }
    }

    fn caller(limits: &[Arc<CallLimit>]) -> Caller {
        Caller {
            limits: limits.to_vec(),
            ..Caller::named("a")
        }
    }

    fn after(refused: Result<Paced, Refusal>) -> u64 {
        match refused {
            Err(refusal) => match refusal.retry() {
                Retry::AfterMs(after_ms) => after_ms,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// A burst of all, then one by one; the time that a refusal names is neither too short nor a
    /// step too long.
    #[test]
    fn a_caller_reads_when_its_next_call_fits() {
        let limits = settings(3);
        let mut problems = Problems::default();
        let made = compile(
            &[entry("a", Some(&limits))],
            &BTreeMap::new(),
            &mut problems,
        );
        assert_eq!(problems.into_found(), []);
        let caller = caller(&made[0]);
        for _ in 0..3 {
            let _ = Rule::of(&caller).take(START).unwrap();
        }
        let wait = after(Rule::of(&caller).take(START));
        assert_eq!(wait, 20_000);
        let early = START + Duration::from_millis(wait - 1);
        assert_eq!(after(Rule::of(&caller).take(early)), 1);
        let _ = Rule::of(&caller)
            .take(START + Duration::from_millis(wait))
            .unwrap();
    }

    /// 001-13: what an agent starts uses its agent's limits, and the groups' of both; a refusal of
    /// one limit uses nothing of the others.
    #[test]
    fn children_and_groups_share_what_they_have() {
        let (two, three, four) = (settings(2), settings(3), settings(4));
        let callers = [
            LimitedCaller {
                group: Some("g"),
                ..entry("parent", Some(&three))
            },
            LimitedCaller {
                parent: Some("parent"),
                ..entry("child", Some(&two))
            },
            LimitedCaller {
                group: Some("g"),
                ..entry("other", None)
            },
            entry("free", None),
        ];
        let group = GroupSettings {
            limits: Some(four.clone()),
        };
        let groups = BTreeMap::from([("g".to_owned(), group)]);
        let mut problems = Problems::default();
        let made = compile(&callers, &groups, &mut problems);
        assert_eq!(problems.into_found(), []);
        let names = |limits: &[Arc<CallLimit>]| -> Vec<String> {
            limits.iter().map(|limit| limit.of.clone()).collect()
        };
        assert_eq!(names(&made[0]), ["agent parent", "group g"]);
        assert_eq!(names(&made[1]), ["agent child", "agent parent", "group g"]);
        assert_eq!(names(&made[2]), ["group g"]);
        assert_eq!(names(&made[3]), [""; 0]);
        let [parent, child, other, free] = [0, 1, 2, 3].map(|index| caller(&made[index]));
        for _ in 0..2 {
            let _ = Rule::of(&child).take(START).unwrap();
        }
        after(Rule::of(&child).take(START));
        let _ = Rule::of(&parent).take(START).unwrap();
        after(Rule::of(&parent).take(START));
        let _ = Rule::of(&other).take(START).unwrap();
        after(Rule::of(&other).take(START));
        for _ in 0..100 {
            let _ = Rule::of(&free).take(START).unwrap();
        }
    }

    /// What a later limit refuses uses nothing of the earlier ones.
    #[test]
    fn a_refused_call_uses_nothing() {
        let (five, one) = (settings(5), settings(1));
        let of_group = |agent, limits| LimitedCaller {
            group: Some("g"),
            ..entry(agent, limits)
        };
        let group = GroupSettings { limits: Some(one) };
        let groups = BTreeMap::from([("g".to_owned(), group)]);
        let callers = [of_group("a", Some(&five)), of_group("b", None)];
        let made = compile(&callers, &groups, &mut Problems::default());
        let _ = Rule::of(&caller(&made[1])).take(START).unwrap();
        for _ in 0..3 {
            after(Rule::of(&caller(&made[0])).take(START));
        }
        assert_eq!(made[0][0].of, "agent a");
        assert!(made[0][0].meter.is_unused(START));
    }

    /// A circle of parents, which is an error elsewhere, ends here.
    #[test]
    fn what_is_written_wrong_is_named() {
        let (one, two, none) = (settings(1), settings(2), settings(0));
        let callers = [
            LimitedCaller {
                parent: Some("b"),
                ..entry("a", Some(&one))
            },
            LimitedCaller {
                parent: Some("a"),
                ..entry("b", Some(&none))
            },
            entry("a", Some(&two)),
        ];
        let groups = BTreeMap::from([("g".to_owned(), GroupSettings::default())]);
        let mut problems = Problems::default();
        let made = compile(&callers, &groups, &mut problems);
        assert_eq!(made.len(), 3);
        let found: Vec<String> = problems
            .into_found()
            .into_iter()
            .map(|problem| problem.message)
            .collect();
        assert_eq!(
            found,
            [
                "no call would ever pass",
                "another entry gives the agent `a` other limits",
                "no caller is of the group `g`",
            ]
        );
    }
}

//! Refuses a call of a caller that calls faster than it may.
//!
//! First of all steps: nothing else of the call is judged. A call counts when it comes, also one that
//! is refused for something else, or that comes again. What an agent starts (`parent`) counts
//! as its own, and as its group's.

use super::Section;
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::AgentId;
use crate::model::rate::RateSettings;
use crate::model::refusal::{Refusal, RefusalCode, RefusalFacts, RefusalKind, Retry};
use crate::model::times::millis;
use crate::model::window::WindowMeter;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

mod each_user;

use each_user::UserLimits;

/// How many calls, of one agent or of all agents of a group together: `{ calls: 600, per: 1m }`.
#[derive(Debug, Default)]
pub(super) struct Settings<'a> {
    /// The limits of each entry of `callers`, by its agent; all entries of an agent share them.
    pub agents: Vec<(&'a str, Option<&'a RateSettings>)>,
    /// The limits of each user of an agent, likewise.
    pub users: Vec<(&'a str, Option<&'a RateSettings>)>,
    /// The limits of each of `groups`, by its name.
    pub groups: Vec<(&'a str, Option<&'a RateSettings>)>,
}

/// As run. The default limits no caller.
#[derive(Debug, Default, Clone)]
pub(super) struct Rule {
    agents: HashMap<AgentId, Arc<CallLimit>>,
    users: HashMap<AgentId, Arc<UserLimits>>,
    groups: HashMap<String, Arc<CallLimit>>,
}

/// What some callers may still call together.
#[derive(Debug)]
struct CallLimit {
    /// Whose it is, such as `agent NAME`.
    of: String,
    /// What of it was used.
    meter: WindowMeter,
}

/// The caller calls no faster than it may.
#[must_use]
#[derive(Debug)]
pub(super) struct Paced(());

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

impl Section for Settings<'_> {
    type Rule = Rule;
    const NAME: &'static str = "limits";

    fn compile(self, problems: &mut Problems) -> Rule {
        let mut rule = Rule::default();
        problems.under("callers", |problems| {
            for (index, (agent, written)) in self.agents.into_iter().enumerate() {
                problems.under(index.to_string(), |problems| {
                    rule.limit_agent(agent, written, problems);
                });
            }
            for (index, (agent, written)) in self.users.into_iter().enumerate() {
                problems.under(index.to_string(), |problems| {
                    problems.under("user_limits", |problems| {
                        rule.limit_users(agent, written, problems);
                    });
                });
            }
        });
        problems.under("groups", |problems| {
            for (group, written) in self.groups {
                let limit =
                    problems.under(group, |problems| limit("group", group, written, problems));
                rule.groups
                    .extend(limit.map(|limit| (group.to_owned(), limit)));
            }
        });
        rule
    }
}

fn limit(
    kind: &str,
    name: &str,
    written: Option<&RateSettings>,
    problems: &mut Problems,
) -> Option<Arc<CallLimit>> {
    let written = written.cloned()?;
    let rate = problems.under(Settings::NAME, |problems| written.compile(problems))?;
    Some(Arc::new(CallLimit {
        of: format!("{kind} {name}"),
        meter: WindowMeter::new(rate),
    }))
}

// === impl Rule ===

impl Rule {
    fn limit_agent(
        &mut self,
        agent: &str,
        written: Option<&RateSettings>,
        problems: &mut Problems,
    ) {
        let Some(limit) = limit("agent", agent, written, problems) else {
            return;
        };
        let known = self
            .agents
            .entry(AgentId::new(agent))
            .or_insert_with(|| limit.clone());
        if known.meter.rate() != limit.meter.rate() {
            let message = format!(
                "another entry gives the agent `{}` other limits",
                agent.escape_debug()
            );
            problems.under(Settings::NAME, |problems| {
                problems.error(
                    message,
                    "write them in one entry: all tokens of an agent share them",
                );
            });
        }
    }

    fn limit_users(
        &mut self,
        agent: &str,
        written: Option<&RateSettings>,
        problems: &mut Problems,
    ) {
        let Some(rate) = written.and_then(|written| written.clone().compile(problems)) else {
            return;
        };
        let limits = || Arc::new(UserLimits::new(rate));
        let known = self.users.entry(AgentId::new(agent));
        if known.or_insert_with(limits).rate() != rate {
            let agent = agent.escape_debug();
            problems.error(
                format!("another entry gives the users of `{agent}` other limits"),
                "write them in one entry: all tokens of an agent share them",
            );
        }
    }

    /// What counts for `caller`, each once, by name: its own limits and its group's, and those of
    /// every agent that started it.
    fn limits(&self, caller: &Caller) -> Vec<&CallLimit> {
        if self.agents.is_empty() && self.groups.is_empty() {
            return Vec::new();
        }
        let mut family = vec![caller];
        let mut next = 0;
        while let Some(&one) = family.get(next) {
            next += 1;
            for parent in &one.parents {
                if family
                    .iter()
                    .all(|known| !std::ptr::eq(*known, Arc::as_ptr(parent)))
                {
                    family.push(parent);
                }
            }
        }
        let own = family.iter().filter_map(|one| self.agents.get(&one.agent));
        let shared = family
            .iter()
            .filter_map(|one| self.groups.get(one.group.as_ref()?));
        let mut limits: Vec<&CallLimit> = own.chain(shared).map(|limit| &**limit).collect();
        limits.sort_by(|one, other| one.of.cmp(&other.of));
        limits.dedup_by(|one, other| one.of == other.of);
        limits
    }

    /// Counts one call at `now`, on the steady clock, if it fits everywhere; else counts nothing,
    /// but where another call was quicker, and says when one will fit.
    pub(super) fn take(&self, caller: &Caller, now: Duration) -> Result<Paced, Refusal> {
        let limits = self.limits(caller);
        let own = self.users.get(&caller.agent);
        let own = own.map(|users| users.of(caller, now));
        let meters = || {
            let shared = limits.iter().map(|limit| &limit.meter);
            own.as_deref().into_iter().chain(shared)
        };
        let mut wait = meters()
            .map(|meter| meter.wait(now))
            .max()
            .unwrap_or_default();
        if wait.is_zero() {
            let taken = meters().try_for_each(|meter| meter.take(now));
            wait = taken.err().unwrap_or_default();
        }
        if wait.is_zero() {
            return Ok(Paced(()));
        }
        Err(rate_exceeded(
            millis(wait + Duration::from_micros(999)).max(1),
        ))
    }

    /// What counts for `caller`, in words, for `explain`.
    pub(super) fn explain(&self, caller: &Caller) -> impl Iterator<Item = String> {
        let each = self.users.get(&caller.agent);
        let each = each.map(|users| format!("{}, of each user", users.rate().words("call")));
        let limits = self.limits(caller).into_iter();
        let shared =
            limits.map(|limit| format!("{}, of {}", limit.meter.rate().words("call"), limit.of));
        each.into_iter().chain(shared)
    }

    /// Takes the place of `before`: what was used of that is used of this, also where the limits
    /// are others now, so that a reload gives no agent its calls back.
    pub(super) fn succeed(&self, before: &Self) {
        take_over(&self.agents, &before.agents);
        take_over(&self.groups, &before.groups);
        for (agent, limits) in &self.users {
            if let Some(had) = before.users.get(agent) {
                limits.take_over(had);
            }
        }
    }
}

fn take_over<N: Eq + Hash>(
    limits: &HashMap<N, Arc<CallLimit>>,
    before: &HashMap<N, Arc<CallLimit>>,
) {
    for (name, limit) in limits {
        if let Some(had) = before.get(name) {
            limit.meter.take_over(&had.meter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::UserId;

    const START: Duration = Duration::from_secs(1_000);

    fn settings(calls: u64) -> RateSettings {
        RateSettings {
            calls,
            per: "1m".to_owned(),
        }
    }

    fn compiled(settings: Settings<'_>) -> Rule {
        let mut problems = Problems::default();
        let rule = settings.compile(&mut problems);
        assert_eq!(problems.into_found(), []);
        rule
    }

    fn of_group(agent: &str) -> Caller {
        Caller {
            group: Some("g".to_owned()),
            ..Caller::named(agent)
        }
    }

    fn after(refused: Result<Paced, Refusal>) -> u64 {
        match refused.map_err(|refusal| refusal.retry()) {
            Err(Retry::AfterMs(after_ms)) => after_ms,
            other => panic!("{other:?}"),
        }
    }

    /// As many as fit, and the next once the first is out of the window; the time that a refusal
    /// names is neither too short nor too long.
    #[test]
    fn a_caller_reads_when_its_next_call_fits() {
        let rule = compiled(Settings {
            agents: vec![("a", Some(&settings(3)))],
            ..Settings::default()
        });
        let caller = Caller::named("a");
        for _ in 0..3 {
            let _ = rule.take(&caller, START).unwrap();
        }
        let wait = after(rule.take(&caller, START));
        assert_eq!(wait, 60_000);
        let early = START + Duration::from_millis(wait - 1);
        assert_eq!(after(rule.take(&caller, early)), 1);
        let _ = rule
            .take(&caller, START + Duration::from_millis(wait))
            .unwrap();
    }

    /// 001-13: what an agent starts uses its agent's limits, and the groups' of both; a refusal of
    /// one limit uses nothing of the others.
    #[test]
    fn children_and_groups_share_what_they_have() {
        let (two, three, four) = (settings(2), settings(3), settings(4));
        let rule = compiled(Settings {
            agents: vec![
                ("parent", Some(&three)),
                ("child", Some(&two)),
                ("other", None),
                ("free", None),
            ],
            groups: vec![("g", Some(&four))],
            ..Settings::default()
        });
        let (parent, other, free) = (of_group("parent"), of_group("other"), Caller::named("free"));
        let child = Caller {
            parents: vec![Arc::new(parent.clone())],
            ..Caller::named("child")
        };
        let names = |caller: &Caller| -> Vec<&str> {
            let limits = rule.limits(caller).into_iter();
            limits.map(|limit| &*limit.of).collect()
        };
        assert_eq!(names(&parent), ["agent parent", "group g"]);
        assert_eq!(names(&child), ["agent child", "agent parent", "group g"]);
        assert_eq!(names(&other), ["group g"]);
        assert_eq!(names(&free), [""; 0]);
        for _ in 0..2 {
            let _ = rule.take(&child, START).unwrap();
        }
        after(rule.take(&child, START));
        let _ = rule.take(&parent, START).unwrap();
        after(rule.take(&parent, START));
        let _ = rule.take(&other, START).unwrap();
        after(rule.take(&other, START));
        for _ in 0..100 {
            let _ = rule.take(&free, START).unwrap();
        }
    }

    /// One person uses up no other's share, nor what the agent has for all.
    #[test]
    fn each_user_has_its_own_share() {
        let (three, two) = (settings(3), settings(2));
        let rule = compiled(Settings {
            agents: vec![("a", Some(&three))],
            users: vec![("a", Some(&two))],
            ..Settings::default()
        });
        let agent = Caller::named("a");
        let ada = agent.for_user(UserId::new("ada"));
        for _ in 0..2 {
            let _ = rule.take(&ada, START).unwrap();
        }
        assert_eq!(after(rule.take(&ada, START)), 60_000);
        let again = compiled(Settings {
            users: vec![("a", Some(&two))],
            ..Settings::default()
        });
        again.succeed(&rule);
        after(again.take(&ada, START));
        let _ = rule.take(&agent, START).unwrap();
        after(rule.take(&agent.for_user(UserId::new("bob")), START));
    }

    /// What a later limit refuses uses nothing of the earlier ones.
    #[test]
    fn a_refused_call_uses_nothing() {
        let rule = compiled(Settings {
            agents: vec![("a", Some(&settings(5))), ("b", None)],
            groups: vec![("g", Some(&settings(1)))],
            ..Settings::default()
        });
        let (one, other) = (of_group("a"), of_group("b"));
        let _ = rule.take(&other, START).unwrap();
        for _ in 0..3 {
            after(rule.take(&one, START));
        }
        let limits = rule.limits(&one);
        assert_eq!(limits[0].of, "agent a");
        assert_eq!(limits[0].meter.wait(START), Duration::ZERO);
        let _ = (0..5).map(|_| limits[0].meter.take(START).unwrap()).count();
    }

    #[test]
    fn what_is_written_wrong_is_named() {
        let mut problems = Problems::default();
        let (one, two, none) = (settings(1), settings(2), settings(0));
        let written = Settings {
            agents: vec![("a", Some(&one)), ("b", Some(&none)), ("a", Some(&two))],
            ..Settings::default()
        };
        written.compile(&mut problems);
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
            ]
        );
    }
}

//! Operators who are away, and who decides about held calls meanwhile.

use crate::config::Operator;
use crate::config::settings::AbsenceSettings;
use crate::mcp::json::fold::is_same_name;
use crate::model::absence::Absence;
use crate::model::diagnostic::Problems;
use crate::model::ids::AgentId;
use crate::policy::shape::suggest;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The absences, each by the name of who is away.
pub(super) fn compile(
    written: BTreeMap<String, AbsenceSettings>,
    known: &[Operator],
    agents: &[AgentId],
    problems: &mut Problems,
) -> Vec<Absence> {
    let names: Vec<String> = known.iter().map(|one| one.name.clone()).collect();
    let away: Vec<String> = written.keys().cloned().collect();
    let mut absences = Vec::new();
    for (
        name,
        AbsenceSettings {
            away_until,
            delegate,
        },
    ) in written
    {
        problems.under(name.clone(), |problems| {
            let operator = known.iter().find(|one| one.name == name);
            if operator.is_none() {
                problems.error("is no operator of `admin.tokens`", suggest(&name, &names));
            }
            problems.under("delegate", |problems| {
                judge_delegate(&delegate, &away, &names, agents, problems);
            });
            let until: Option<Timestamp> = away_until.parse().ok();
            if until.is_none() {
                problems.under("away_until", |problems| {
                    let hint =
                        "write date, time and difference to UTC, such as 2026-12-24T08:00:00+01:00";
                    problems.error("is no time", hint);
                });
            }
            let until = until.and_then(|until| u64::try_from(until.as_millisecond()).ok());
            absences.extend(operator.zip(until).map(|(operator, until)| Absence {
                name,
                roles: operator.roles.clone(),
                delegate,
                until,
            }));
        });
    }
    absences
}

/// A delegate is another operator, who is there; whom that one stands in for is nobody else's to decide.
fn judge_delegate(
    delegate: &str,
    away: &[String],
    names: &[String],
    agents: &[AgentId],
    problems: &mut Problems,
) {
    if !names.iter().any(|name| name == delegate) {
        problems.error("is no operator of `admin.tokens`", suggest(delegate, names));
    } else if away.iter().any(|name| is_same_name(name, delegate)) {
        problems.error(
            "is away, too, and a delegate has no delegate",
            "name an operator who is there",
        );
    }
    if agents
        .iter()
        .any(|agent| is_same_name(agent.as_str(), delegate))
    {
        problems.error(
            "counts as the name of an agent, which must not decide for a person",
            "name another operator",
        );
    }
}

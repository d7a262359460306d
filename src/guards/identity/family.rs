//! Which agent started which: every caller with its parents (001-13).

use super::CallerSettings;
use super::behind::{UsersBehind, needs_user};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::TenantId;
use crate::model::rate::{Meter, Rate};
use std::collections::HashMap;
use std::sync::Arc;

/// Messages of one agent, if nothing is said: more than any model sends.
pub(super) const DEFAULT_MESSAGE_RATE: Rate = Rate {
    calls: 60_000,
    per: 60_000,
};
/// Generations at most.
const MAX_GENERATIONS: usize = 8;

/// The callers of `settings`, in their order.
pub(super) fn callers(settings: &[CallerSettings], problems: &mut Problems) -> Vec<Arc<Caller>> {
    let mut entries: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut reads = Vec::with_capacity(settings.len());
    let paces = paces(settings, problems);
    for (index, one) in settings.iter().enumerate() {
        entries.entry(&one.agent).or_default().push(index);
        reads.push(problems.under(index.to_string(), |problems| {
            judge_model(one.model.as_deref(), problems);
            problems.under("schemas", |problems| {
                one.schemas.clone().compile(one.model.as_deref(), problems)
            })
        }));
    }
    let mut made: Vec<Option<Arc<Caller>>> = vec![None; settings.len()];
    for _ in 0..MAX_GENERATIONS {
        let before = made.clone();
        for (index, one) in settings
            .iter()
            .enumerate()
            .filter(|(index, _)| before[*index].is_none())
        {
            let parents = one.parent.as_deref().map_or(Some(Vec::new()), |parent| {
                let entries = entries.get(parent).map_or(&[][..], Vec::as_slice);
                entries
                    .iter()
                    .map(|entry| before[*entry].clone())
                    .collect::<Option<Vec<_>>>()
            });
            made[index] = parents.map(|parents| {
                Arc::new(Caller {
                    reads: reads[index],
                    pace: Some(paces[&*one.agent].clone()),
                    ..caller(one, distinct(parents))
                })
            });
        }
    }
    let judged = settings
        .iter()
        .zip(made)
        .enumerate()
        .map(|(index, (one, made))| {
            problems.under(index.to_string(), |problems| {
                judge(one, made.as_deref(), &entries, problems);
            });
            made.unwrap_or_else(|| {
                Arc::new(Caller {
                    reads: reads[index],
                    ..caller(one, Vec::new())
                })
            })
        });
    judged.collect()
}

/// What each agent may still send, whichever of its tokens it shows.
fn paces<'s>(
    settings: &'s [CallerSettings],
    problems: &mut Problems,
) -> HashMap<&'s str, Arc<Meter>> {
    let mut rates: HashMap<&str, Option<Rate>> = HashMap::new();
    for (index, one) in settings.iter().enumerate() {
        let known = rates.entry(&one.agent).or_default();
        let Some(rate) = one.rate.clone() else {
            continue;
        };
        problems.under(index.to_string(), |problems| {
            problems.under("rate", |problems| {
                let Some(rate) = rate.compile(problems) else {
                    return;
                };
                if known.get_or_insert(rate) != &rate {
                    let message = format!(
                        "another entry gives the agent `{}` another rate",
                        one.agent.escape_debug()
                    );
                    problems.error(
                        message,
                        "write the rate in one of them: all tokens of an agent share it",
                    );
                }
            });
        });
    }
    let meter = |rate: Option<Rate>| Arc::new(Meter::new(rate.unwrap_or(DEFAULT_MESSAGE_RATE)));
    rates
        .into_iter()
        .map(|(agent, rate)| (agent, meter(rate)))
        .collect()
}

/// What does not name both is of no provider that is known, for layers and for schemas.
fn judge_model(model: Option<&str>, problems: &mut Problems) {
    let names_both = |model: &str| {
        model
            .split_once('/')
            .is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty())
    };
    let Some(model) = model.filter(|model| !names_both(model)) else {
        return;
    };
    problems.under("model", |problems| {
        let message = format!("`{}` is no provider and its model", model.escape_debug());
        problems.warning(
            message,
            "write `provider/model`, such as `openai/gpt-5`: the provider decides what it is shown",
        );
    });
}

/// Several tokens of one agent make it no other.
fn distinct(parents: Vec<Arc<Caller>>) -> Vec<Arc<Caller>> {
    let mut distinct: Vec<Arc<Caller>> = Vec::new();
    for parent in parents {
        if !distinct.contains(&parent) {
            distinct.push(parent);
        }
    }
    distinct
}

/// What the entry alone says of its caller.
fn caller(settings: &CallerSettings, parents: Vec<Arc<Caller>>) -> Caller {
    let named = Caller::named(&settings.agent);
    Caller {
        tenant: settings.tenant.as_deref().map(TenantId::new),
        roles: settings.roles.clone(),
        group: settings.group.clone(),
        model: settings.model.clone(),
        owner: settings.owner,
        profile: settings.profile.clone(),
        environment: settings.environment.clone(),
        certificate: None,
        names_users: settings.users == Some(UsersBehind::Meta),
        needs_user: settings
            .needs_user
            .unwrap_or_else(|| needs_user(settings.users, false)),
        parents,
        ..named
    }
}

fn judge(
    settings: &CallerSettings,
    made: Option<&Caller>,
    entries: &HashMap<&str, Vec<usize>>,
    problems: &mut Problems,
) {
    let Some(parent) = settings.parent.as_deref() else {
        return;
    };
    if !entries.contains_key(parent) {
        let hint = "name the agent of another entry of `callers`";
        return problems.under("parent", |problems| {
            problems.error(format!("no caller is the agent `{parent}`"), hint);
        });
    }
    let Some(made) = made else {
        let message = format!(
            "its parents go round in a circle, or over more than {MAX_GENERATIONS} generations"
        );
        return problems.under("parent", |problems| {
            problems.error(message, "take one `parent` away");
        });
    };
    for above in &made.parents {
        if made.owner && !above.owner {
            let hint = "take it away, or make the parent an owner, too";
            problems.under("owner", |problems| {
                problems.error("the parent is no owner", hint);
            });
        }
        if above.tenant.is_some() && made.tenant != above.tenant {
            let hint = "give it the parent's tenant";
            problems.under("tenant", |problems| {
                problems.error("the parent acts for another tenant", hint);
            });
        }
        for role in made.roles.iter().filter(|role| !above.roles.contains(role)) {
            let hint = "take it away, or give it to the parent, too";
            problems.under("roles", |problems| {
                problems.error(format!("the parent has no role `{role}`"), hint);
            });
        }
    }
}

//! One contract as written → as run.

use crate::guards::{Section, ToolRules, approval, arguments, budget, idempotency};
use crate::guards::{results, rewrite, rules};
use crate::model::diagnostic::Problems;
use crate::model::digest::Digest;
use crate::model::ids::{self, ServerName};
use crate::model::pointer::{is_pointer, steps};
use crate::policy::file::Contract;
use crate::policy::shape::suggest;
use serde_json::Value;
use std::time::Duration;

mod audit;
mod effect;
mod lint;
mod providers;
mod required;
mod roles;
mod undo_arguments;
mod undo_check;
mod variants;

/// What a call can do.
const KNOWN_ACTIONS: &[&str] = &["read", "write", "delete", "pay", "grant", "notify"];

/// What a contract stands in.
#[derive(Clone, Copy)]
pub(super) struct ContractEnvironment<'a> {
    /// The servers that the configuration declares.
    pub(super) servers: &'a [ServerName],
    /// How long one call of the tool's server may take.
    pub(super) timeout: Duration,
    /// The roles that callers have.
    pub(super) roles: &'a [String],
    /// The models that callers have, and their providers.
    pub(super) models: &'a [String],
    /// SHA-256 over the contract as it is written.
    pub(super) written: Digest,
    /// The file and line on which it begins.
    pub(super) place: &'a str,
}

impl ContractEnvironment<'_> {
    /// Rules that know where they are written, and nothing else.
    fn placed_rules(self) -> ToolRules {
        ToolRules {
            written: Some(self.written),
            place: self.place.into(),
            ..ToolRules::default()
        }
    }
}

/// Is `name` the name of one tool of a declared server, or a pattern over the tools of one?
pub(super) fn judge_name(name: &str, servers: &[ServerName], problems: &mut Problems) -> bool {
    if ids::server_of(name, servers).is_some() {
        return true;
    }
    match ids::parts(name) {
        Some((server, _)) if server.contains('*') => {
            problems.error(
                "a contract is for the tools of one server",
                "write out the server: `server__get_*`",
            );
        }
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            let known: Vec<String> = servers.iter().map(ToString::to_string).collect();
            problems.error(
                format!("the server `{server}` is not declared"),
                suggest(server, &known),
            );
        }
        _ => problems.error(
            format!("`{name}` is no name of a tool"),
            "name it `server__tool`",
        ),
    }
    false
}

/// Compiles every section, for the contract and for each of its variants.
pub(super) fn compile(
    contract: &Contract,
    around: ContractEnvironment<'_>,
    problems: &mut Problems,
) -> ToolRules {
    lint::judge(contract, problems);
    let whole = section_by_section(contract.clone(), around, problems);
    if contract.variants.is_some() {
        variants::compile(contract, whole, around, problems)
    } else {
        effect::judge_said(contract, problems);
        whole
    }
}

/// A section that is added to the format and not here does not build.
fn section_by_section(
    contract: Contract,
    around: ContractEnvironment<'_>,
    problems: &mut Problems,
) -> ToolRules {
    judge_words(&contract, around, problems);
    let (budget, idempotency, approval) = compile_times(&contract, around.timeout, problems);
    let rewrite = compile_rewrite(&contract, problems);
    let Contract {
        purpose,
        not_for,
        actions,
        permission,
        arguments,
        rules,
        strip_empty_optionals,
        rewrite: _,     // compiled with what it may change
        idempotency: _, // compiled with its times, and so are
        confirms,
        budget: _,
        approval: _,
        output,
        side_effect,
        irreversible,
        additive,
        variants,
        secrets,
        results,
        audit,
        audit_fields: _, // all are kept
        owner_only,
        providers_allowed,
    } = contract;
    let rules = compile_rules(rules, &arguments, around.roles, problems);
    let (bounded, secrets) = (required::bounded(&arguments), section(secrets, problems));
    let (arguments, permission) = (section(arguments, problems), section(permission, problems));
    let confirms = confirms.map(|written| section(written, problems));
    let needs = required::deciding(&permission, confirms.as_ref(), variants.as_ref());
    let judged = required::judged_paths(&needs, idempotency.as_ref(), &rules, &rewrite);
    let arguments = arguments.beside(&judged, &required::named(audit.plain(), &rewrite, &secrets));
    ToolRules {
        purpose,
        not_for,
        side_effect: effect::changes(&actions),
        actions,
        undo: effect::undo(side_effect.as_ref(), additive, irreversible),
        writes: side_effect.map(|effect| effect.writes),
        needs: [needs, required::changed(&rewrite), bounded].concat(),
        owner_only,
        providers_allowed: providers_allowed.unwrap_or_default(),
        arguments: arguments.stripping(strip_empty_optionals),
        permission,
        rules,
        rewrite,
        idempotency,
        confirms,
        output: section(output, problems),
        budget,
        approval,
        secrets,
        results: results.map_or_else(results::Rule::usual, |written| section(written, problems)),
        audit: section(audit, problems),
        ..around.placed_rules()
    }
}

fn section<S: Section>(written: S, problems: &mut Problems) -> S::Rule {
    problems.under(S::NAME, |problems| written.compile(problems))
}

fn compile_rules(
    written: rules::Settings,
    arguments: &arguments::Settings,
    roles: &[String],
    problems: &mut Problems,
) -> rules::Rule {
    problems.under(rules::Settings::NAME, |problems| {
        written.compile_beside(&arguments.0, roles, problems)
    })
}

/// What needs no compiling.
fn judge_words(contract: &Contract, around: ContractEnvironment<'_>, problems: &mut Problems) {
    roles::judge(&contract.permission, around.roles, problems);
    if contract.purpose.trim().is_empty() {
        problems.under("purpose", |problems| {
            problems.error("is blank", "say what the tool is for");
        });
    }
    problems.under("actions", |problems| {
        judge_actions(&contract.actions, problems);
    });
    let providers = contract.providers_allowed.as_deref().unwrap_or_default();
    providers::judge(providers, around.models, problems);
    audit::judge(
        contract.audit.plain(),
        contract.audit_fields.as_deref(),
        problems,
    );
    effect::judge(contract, around.servers, problems);
}

/// How long a call may take and be held, and how long its key is known: one limits the other.
fn compile_times(
    contract: &Contract,
    timeout: Duration,
    problems: &mut Problems,
) -> (
    budget::Rule,
    Option<idempotency::Rule>,
    Option<approval::Rule>,
) {
    let written = contract.budget.clone();
    let budget = problems.under(budget::Settings::NAME, |problems| {
        compile_budget(written, timeout, problems)
    });
    let timeout = budget.timeout().unwrap_or(timeout).min(timeout);
    let keys = keys(contract).map(|written| {
        problems.under(idempotency::Settings::NAME, |problems| {
            judge_pointers(&written, &contract.arguments, problems);
            let rule = written.compile(problems);
            judge_times(&rule, timeout, problems);
            rule
        })
    });
    // What changes something is told apart whether its contract says how or not (004-53).
    let keys = keys.or_else(|| effect::changes(&contract.actions).then(idempotency::Rule::default));
    let approval = compile_approval(contract, keys.as_ref(), problems);
    (budget, keys, approval)
}

/// Which calls are the same: as written, and a draft is confirmed once where nothing is.
fn keys(contract: &Contract) -> Option<idempotency::Settings> {
    let confirms = contract
        .confirms
        .as_ref()
        .filter(|confirms| is_pointer(&confirms.draft));
    contract
        .idempotency
        .clone()
        .or_else(|| confirms.map(|confirms| idempotency::Settings::by(&confirms.draft)))
}

fn compile_rewrite(contract: &Contract, problems: &mut Problems) -> rewrite::Rule {
    problems.under(rewrite::Settings::NAME, |problems| {
        let rule = contract.rewrite.clone().compile(problems);
        rule.judge_by(
            &Value::Object(contract.arguments.0.clone()),
            &holders(contract),
            problems,
        );
        rule
    })
}

/// The arguments, by name, that can hold a call's key: nobody but its agent says what a call is
/// known by (guarantees §3).
fn holders(contract: &Contract) -> Vec<&str> {
    let cases = contract
        .variants
        .iter()
        .flat_map(|variants| variants.cases.values());
    let written = contract
        .idempotency
        .iter()
        .chain(cases.filter_map(|case| case.idempotency.as_ref()));
    let named = written
        .clone()
        .filter_map(|written| written.upstream.as_ref()?.argument.as_deref());
    let is_keyed = effect::changes(&contract.actions)
        || contract.confirms.is_some()
        || written.clone().next().is_some();
    if is_keyed {
        named.chain([idempotency::KEY_ARGUMENT_NAME]).collect()
    } else {
        Vec::new()
    }
}

/// When a person is asked. Only a call with a key can be held, and its key has to be known for as
/// long (guarantees §3).
fn compile_approval(
    contract: &Contract,
    keys: Option<&idempotency::Rule>,
    problems: &mut Problems,
) -> Option<approval::Rule> {
    let rule = problems.under(approval::Settings::NAME, |problems| {
        approval::compile(
            contract.approval.clone(),
            &contract.actions,
            contract.irreversible,
            problems,
        )
    })?;
    problems.under(approval::Settings::NAME, |problems| match keys {
        None => {
            let hint =
                "add `idempotency`, so that the call which comes again is known to be the same";
            problems.error(
                "a call that changes nothing is held only if it has a key",
                hint,
            );
        }
        Some(keys) if rule.approve_for.saturating_add(rule.execute_for) > keys.ttl() => {
            let message = format!(
                "`approve_by` and `execute_by` are longer than the call's key is known ({} s)",
                keys.ttl().as_secs()
            );
            problems.error(message, "shorten them, or raise `idempotency.ttl`");
        }
        Some(_) => {}
    });
    Some(rule)
}

fn compile_budget(
    written: budget::Settings,
    timeout: Duration,
    problems: &mut Problems,
) -> budget::Rule {
    let rule = written.compile(problems);
    if rule.timeout().is_some_and(|own| own > timeout) {
        let message = format!(
            "is longer than the server's `timeout` ({} ms), which ends the call",
            timeout.as_millis()
        );
        problems.under("timeout_ms", |problems| {
            problems.warning(message, "raise the server's `timeout`");
        });
    }
    rule
}

/// A key that is forgotten while its call is still tried protects nothing (004-55).
fn judge_times(rule: &idempotency::Rule, timeout: Duration, problems: &mut Problems) {
    let tried = timeout.saturating_mul(rule.attempts());
    if tried > rule.ttl() {
        let message = format!(
            "is shorter than what a call can take: {} times {} s",
            rule.attempts(),
            timeout.as_secs()
        );
        problems.under("ttl", |problems| {
            problems.error(message, "raise `ttl`, or lower `attempts` or the time-out");
        });
    }
}

/// Where the contract's own schema is closed, it says which arguments there are.
fn judge_pointers(
    written: &idempotency::Settings,
    arguments: &arguments::Settings,
    problems: &mut Problems,
) {
    let Some(idempotency::Derive::Pointers(pointers)) = &written.derive else {
        return;
    };
    let declared = arguments.0.get("properties").and_then(Value::as_object);
    if arguments.0.get("additionalProperties") != Some(&Value::Bool(false)) {
        return;
    }
    let known: Vec<String> = declared
        .into_iter()
        .flat_map(|names| names.keys().cloned())
        .collect();
    for (index, pointer) in pointers.iter().enumerate() {
        let first = steps(pointer).into_iter().next().unwrap_or_default();
        if !first.is_empty() && !known.contains(&first) {
            problems.under("derive", |problems| {
                let message = format!("the contract allows no argument `{first}`");
                problems.under(index.to_string(), |problems| {
                    problems.error(message, suggest(&first, &known));
                });
            });
        }
    }
}

fn judge_actions(actions: &[String], problems: &mut Problems) {
    let known: Vec<String> = KNOWN_ACTIONS
        .iter()
        .map(|action| (*action).to_owned())
        .collect();
    for (index, action) in actions
        .iter()
        .enumerate()
        .filter(|(_, action)| !known.contains(action))
    {
        problems.under(index.to_string(), |problems| {
            if action.trim().is_empty() {
                problems.error("is blank", "name an action");
            } else {
                problems.error(format!("`{action}` is no action"), suggest(action, &known));
            }
        });
    }
}

//! A contract with variants → one contract for each (002-32). A case only narrows: what the
//! contract asks of everybody, it asks of the caller that chooses the case.

use super::{ContractEnvironment, effect, keys, section_by_section};
use crate::guards::{
    RequiredArgument, Section as _, ToolRules, arguments, idempotency, rules, variants,
};
use crate::model::diagnostic::Problems;
use crate::model::pointer::is_pointer;
use crate::policy::file::{Contract, ContractVariants, VariantCase};
use crate::policy::shape::suggest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cases of one contract.
const MAX_VARIANT_CASES: usize = 64;
/// Characters of a case's name: it stands in ledger entries.
const CASE_NAME_CHARS_MAX: usize = 64;

/// `whole`, the contract as such, with its cases: what a call is judged by that chooses none of
/// them is refused.
pub(super) fn compile(
    contract: &Contract,
    whole: ToolRules,
    around: ContractEnvironment<'_>,
    problems: &mut Problems,
) -> ToolRules {
    let Some(ContractVariants { by, absent, cases }) = &contract.variants else {
        return whole;
    };
    problems.under("variants", |problems| {
        judge(contract, problems);
        let one = |(name, case): (&String, &VariantCase)| {
            let rules = problems.under("cases", |problems| {
                problems.under(name.clone(), |problems| {
                    let merged = merge(contract, case, name);
                    compile_case(name, case, merged, around, problems)
                })
            });
            (name.clone(), Arc::new(rules))
        };
        let rules: BTreeMap<String, Arc<ToolRules>> = cases.iter().map(one).collect();
        let needs = needs(&whole, &rules);
        let names: Vec<&str> = cases.keys().map(String::as_str).collect();
        ToolRules {
            arguments: whole.arguments.undecided(by, &names),
            variants: Some(variants::Rule::new(by.clone(), absent.clone(), rules)),
            needs,
            ..whole
        }
    })
}

/// What the contract needs, and what its cases need besides.
fn needs(whole: &ToolRules, cases: &BTreeMap<String, Arc<ToolRules>>) -> Vec<RequiredArgument> {
    let mut all = whole.needs.clone();
    for (name, rules) in cases {
        for needed in &rules.needs {
            // What may be missing in an open tool does not stand for what must be there.
            let is_known = |known: &RequiredArgument| {
                (&known.path, &known.patterns) == (&needed.path, &needed.patterns)
                    && (!known.is_bound || needed.is_bound)
            };
            if !all.iter().any(is_known) {
                let around = ["variants", "cases", name].map(str::to_owned);
                all.push(RequiredArgument {
                    key: [&around[..], &needed.key[..]].concat(),
                    ..needed.clone()
                });
            }
        }
    }
    all
}

/// The schemas of a contract and of a case are parts of one; its keys are as each has written them.
fn as_written(needed: &mut RequiredArgument) {
    if let [arguments::Settings::NAME, "allOf", _, ..] =
        &needed.key.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        needed.key.drain(1..3);
    }
}

fn judge(contract: &Contract, problems: &mut Problems) {
    let Some(ContractVariants { by, absent, cases }) = &contract.variants else {
        return;
    };
    if !is_pointer(by) {
        let hint = "write `/` and the argument's name, such as `/action`";
        problems.under("by", |problems| {
            problems.error("not a JSON pointer to an argument", hint);
        });
    }
    let names: Vec<String> = cases.keys().cloned().collect();
    if let Some(absent) = absent.as_ref().filter(|absent| !names.contains(absent)) {
        problems.under("absent", |problems| {
            problems.error(
                format!("there is no case `{absent}`"),
                suggest(absent, &names),
            );
        });
    }
    problems.under("cases", |problems| {
        if names.is_empty() || names.len() > MAX_VARIANT_CASES {
            problems.error(
                format!("not between 1 and {MAX_VARIANT_CASES} cases"),
                "name the values of the argument",
            );
        }
        for (name, case) in cases {
            problems.under(name.clone(), |problems| {
                judge_case(contract, name, case, problems);
            });
        }
    });
}

fn judge_case(contract: &Contract, name: &str, case: &VariantCase, problems: &mut Problems) {
    if name.is_empty()
        || name.chars().count() > CASE_NAME_CHARS_MAX
        || name.chars().any(char::is_control)
    {
        problems.error(
            "is no value of an argument that can be named",
            "1 to 64 characters that can be seen",
        );
    }
    problems.under("actions", |problems| {
        for (index, action) in case
            .actions
            .iter()
            .enumerate()
            .filter(|(_, one)| !contract.actions.contains(one))
        {
            let message = format!("`{action}` is not among the contract's `actions`");
            problems.under(index.to_string(), |problems| {
                problems.error(message, suggest(action, &contract.actions));
            });
        }
    });
    let Some(own) = &case.idempotency else { return };
    problems.under("idempotency", |problems| {
        for (key, is_there) in [("require", own.require), ("expose", own.expose.is_some())] {
            if is_there {
                let hint = "write it in the contract's `idempotency`: agents give keys to a tool, not to its variants";
                problems.under(key, |problems| problems.error("holds for all variants or for none", hint));
            }
        }
    });
}

/// `merged`: the contract that a call is judged by which chooses `case`.
fn compile_case(
    name: &str,
    case: &VariantCase,
    merged: Contract,
    around: ContractEnvironment<'_>,
    problems: &mut Problems,
) -> ToolRules {
    effect::judge_said(&merged, problems);
    // What the case says itself is judged where it stands; what it has from the contract was judged
    // there.
    section_by_section(alone(case, &merged), around, problems);
    let is_laid_over = !case.arguments.0.is_empty() && case.arguments != merged.arguments;
    let mut rules = section_by_section(merged, around, &mut Problems::default());
    if is_laid_over {
        rules.needs.iter_mut().for_each(as_written);
    }
    rules.variant = Some(name.to_owned());
    if case
        .budget
        .as_ref()
        .is_some_and(crate::guards::budget::Settings::counts)
    {
        rules.budget = rules.budget.apart(name);
    }
    rules
}

/// The contract that a call is judged by which chooses `case`.
fn merge(contract: &Contract, case: &VariantCase, name: &str) -> Contract {
    let VariantCase {
        actions,
        permission,
        arguments,
        rules,
        idempotency,
        confirms,
        budget,
        approval,
        output,
        side_effect,
        additive,
        irreversible,
    } = case.clone();
    let is_changing = effect::changes(&actions);
    let is_told = side_effect.is_some() || additive || irreversible;
    let (side_effect, additive, irreversible) = if is_changing && !is_told {
        (
            contract.side_effect.clone(),
            contract.additive,
            contract.irreversible,
        )
    } else {
        (side_effect, additive, irreversible)
    };

    let idempotency = idempotency.map(|own| own.within(contract.idempotency.as_ref()));
    let mut merged = Contract {
        actions,
        permission: permission.within(&contract.permission),
        arguments: arguments::Settings::and(arguments, &contract.arguments),
        rules: rules::Settings([contract.rules.0.clone(), rules.0].concat()),
        idempotency: idempotency.or_else(|| contract.idempotency.clone()),
        confirms: confirms.or_else(|| contract.confirms.clone()),
        budget: budget.unwrap_or_default().over(&contract.budget),
        approval: approval.or_else(|| contract.approval.clone().filter(|_| is_changing)),
        output: output.before(&contract.output),
        side_effect,
        additive,
        irreversible,
        ..contract.clone()
    };
    // Calls that choose different cases are never the same; those without the argument have none to
    // be told apart by.
    if let Some(variants) = contract
        .variants
        .as_ref()
        .filter(|variants| variants.absent.as_deref() != Some(name))
    {
        merged.idempotency = keys(&merged).map(|keys| keys.told_apart(&variants.by));
    }
    merged
}

/// What `case` says itself, with what its times are judged by.
fn alone(case: &VariantCase, merged: &Contract) -> Contract {
    let VariantCase {
        actions,
        permission,
        arguments,
        rules,
        idempotency,
        confirms,
        budget,
        approval,
        output,
        side_effect,
        additive,
        irreversible: _, // what counts is what the contract says, where the case says nothing
    } = case.clone();
    // It is held to the contract's key, of which only the time counts here, and to what the
    // contract says of its effect.
    let lasting = |keys: idempotency::Settings| idempotency::Settings {
        ttl: keys.ttl,
        ..Default::default()
    };
    let approval = approval.or_else(|| merged.approval.clone());
    let idempotency = idempotency.or_else(|| approval.as_ref().and(keys(merged)).map(lasting));
    let is_timed = budget.is_some() || idempotency.is_some();
    Contract {
        purpose: merged.purpose.clone(),
        actions,
        permission,
        arguments,
        rules,
        idempotency,
        confirms,
        approval,
        budget: if is_timed {
            merged.budget.clone()
        } else {
            crate::guards::budget::Settings::default()
        },
        output,
        side_effect,
        additive,
        irreversible: merged.irreversible,
        ..Contract::default()
    }
}

//! Does a contract fit what its tool server says of the tool? Asked at load of tools that are
//! pinned, and by `check --connect` of those that are listed; what a tool is withheld for is
//! [`ToolRules::lacks`].

use crate::guards::{Section as _, ToolRules, idempotency, rules, variants};
use crate::model::diagnostic::{Problem, Problems};
use crate::model::pointer::steps;
use crate::model::spelling::suggest;
use crate::schema::{Schema, choices, flags};

/// Everything that does not fit, as problems of the contract.
pub(crate) fn judge(rules: &ToolRules, schema: &Schema, problems: &mut Problems) {
    for needed in rules
        .needs
        .iter()
        .filter(|needed| needed.is_lacking(schema))
    {
        at(&needed.key, problems, |problems| {
            let message = format!(
                "the tool's input schema has {}, so the tool is withheld",
                needed.words()
            );
            problems.error(message, spelling(&needed.path, schema));
        });
    }
    judge_rules(rules, schema, problems);
    judge_named(rules, schema, problems);
    judge_cases(rules, schema, problems);
    problems.under("arguments", |problems| {
        rules.arguments.check_against(schema, problems);
    });
    let source = schema.source();
    if let (true, None, Some((name, values))) =
        (rules.side_effect, &rules.variants, flags::of(&source))
    {
        let hint = format!("split the contract by `variants: {{ by: /{name}, cases: … }}`");
        problems.warning(
            format!(
                "`{name}` ({}) says what is done, and all of it is judged alike",
                values.join(", ")
            ),
            hint,
        );
    }
}

/// The arguments that the contract names without judging calls by them.
fn judge_named(rules: &ToolRules, schema: &Schema, problems: &mut Problems) {
    let derived = rules
        .idempotency
        .as_ref()
        .map(idempotency::Rule::reads)
        .unwrap_or_default();
    let derive = ["idempotency", "derive"].map(str::to_owned);
    lost(&derive, &derived, schema, problems);
    let compared = rules.idempotency.as_ref();
    let compared = compared
        .map(idempotency::Rule::compares)
        .unwrap_or_default();
    let near = ["idempotency", "near", "by"].map(str::to_owned);
    lost(&near, &compared, schema, problems);
    let audited: Vec<Vec<String>> = rules
        .audit
        .plain
        .iter()
        .map(|name| vec![name.clone()])
        .collect();
    lost(&["audit".to_owned()], &audited, schema, problems);
    let secrets: Vec<Vec<String>> = rules
        .secrets
        .pointers()
        .iter()
        .map(|one| steps(one))
        .collect();
    lost(&["secrets".to_owned()], &secrets, schema, problems);
    let upstream = rules
        .idempotency
        .as_ref()
        .and_then(idempotency::Rule::upstream_argument);
    let upstream: Vec<Vec<String>> = upstream
        .map(|name| vec![name.to_owned()])
        .into_iter()
        .collect();
    let key = ["idempotency", "upstream", "argument"].map(str::to_owned);
    lost(&key, &upstream, schema, problems);
}

/// Judges what the cases say of arguments, and notes those that no call can choose: the tool's
/// schema lists other values of the argument.
fn judge_cases(rules: &ToolRules, schema: &Schema, problems: &mut Problems) {
    let Some(variants) = &rules.variants else {
        return;
    };
    for (name, case) in variants.cases() {
        let key = ["variants", "cases", name, "arguments"].map(str::to_owned);
        at(&key, problems, |problems| {
            case.arguments
                .check_case_against(&rules.arguments, schema, problems);
        });
    }
    let Some(values) = choices::choices_at(&schema.source(), &variants.path()) else {
        return;
    };
    for (name, _) in variants.cases() {
        if values.iter().any(|value| value == name) || variants.is_absent(name) {
            continue;
        }
        let key = ["variants", "cases", name].map(str::to_owned);
        at(&key, problems, |problems| {
            let message = format!(
                "the tool's input schema has no value `{}` there, so no call chooses this case",
                name.escape_debug()
            );
            let hint = if values.is_empty() {
                "choose `by` an argument that is text, or true or false".to_owned()
            } else {
                suggest(name, &values)
            };
            problems.error(message, hint);
        });
    }
}

/// Notes arguments that the tool does not have: what is told apart or kept by them is not.
fn lost(key: &[String], named: &[Vec<String>], schema: &Schema, problems: &mut Problems) {
    for path in named.iter().filter(|path| schema.names().lack(path)) {
        at(key, problems, |problems| {
            let message = format!("the tool's input schema has no `{}`", path.join("."));
            let hint = spelling(path, schema);
            if schema.names().exclude(path) {
                problems.error(message, hint);
            } else {
                problems.warning(message, hint);
            }
        });
    }
}

/// What the tool's schema has instead.
fn spelling(path: &[String], schema: &Schema) -> String {
    let last = path.last().map_or("", String::as_str);
    // A pattern of names, as of one name.
    let last = last.trim_start_matches('^').trim_end_matches('$');
    suggest(last, &schema.names().beside(path))
}

/// The rules of the contract and of its variants, in which those of the contract come first.
fn judge_rules(rules: &ToolRules, schema: &Schema, problems: &mut Problems) {
    problems.under(rules::Settings::NAME, |problems| {
        rules
            .rules
            .check_against(rules.arguments.declared(schema), 0, problems);
    });
    let own = rules.rules.written_count();
    let cases = rules.variants.iter().flat_map(variants::Rule::cases);
    for (name, case) in cases {
        let key = ["variants", "cases", name, rules::Settings::NAME].map(str::to_owned);
        at(&key, problems, |problems| {
            let declared = case.arguments.declared(schema);
            case.rules.check_against(declared, own, problems);
        });
    }
}

fn at(key: &[String], problems: &mut Problems, note: impl FnOnce(&mut Problems)) {
    match key.split_first() {
        Some((first, rest)) => problems.under(first.clone(), |problems| at(rest, problems, note)),
        None => note(problems),
    }
}

/// The same as [`judge`], with each path beginning at the root of a policy file.
pub(super) fn problems(name: &str, rules: &ToolRules, schema: &Schema) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.under("contracts", |problems| {
        problems.under(name, |problems| judge(rules, schema, problems));
    });
    problems.into_found()
}

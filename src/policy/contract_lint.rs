//! Does a contract fit what its tool server says of the tool? For `check --connect` and `doctor`;
//! what a tool is withheld for is [`ToolRules::lacks`].

use crate::guards::{RequiredArgument, ToolRules, idempotency};
use crate::model::diagnostic::{Problem, Problems};
use crate::schema::{Schema, flags};

/// Everything that does not fit, as problems of the contract.
pub(crate) fn judge(rules: &ToolRules, schema: &Schema, problems: &mut Problems) {
    for RequiredArgument { key, path } in rules
        .needs
        .iter()
        .filter(|needed| schema.names().lack(&needed.path))
    {
        at(key, problems, |problems| {
            let message = format!(
                "the tool's input schema has no `{}`, so the tool is withheld",
                path.join(".")
            );
            problems.error(message, "compare the spelling with the tool's listing");
        });
    }
    let derived = rules
        .idempotency
        .as_ref()
        .map(idempotency::Rule::reads)
        .unwrap_or_default();
    let derive = ["idempotency", "derive"].map(str::to_owned);
    lost(&derive, &derived, schema, problems);
    let audited: Vec<Vec<String>> = rules.audit.iter().map(|name| vec![name.clone()]).collect();
    lost(&["audit".to_owned()], &audited, schema, problems);
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

/// Warns of arguments that the tool does not have, where that makes the contract stricter and no
/// weaker.
fn lost(key: &[String], named: &[Vec<String>], schema: &Schema, problems: &mut Problems) {
    for path in named.iter().filter(|path| schema.names().lack(path)) {
        at(key, problems, |problems| {
            let message = format!("the tool's input schema has no `{}`", path.join("."));
            problems.warning(message, "compare the spelling with the tool's listing");
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
pub(crate) fn problems(name: &str, rules: &ToolRules, schema: &Schema) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.under("contracts", |problems| {
        problems.under(name, |problems| judge(rules, schema, problems));
    });
    problems.into_found()
}

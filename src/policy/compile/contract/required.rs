//! The arguments that a contract decides by, bounds or changes, and those that it only names.

use crate::guards::{
    RequiredArgument, Section, arguments, confirms, idempotency, permission, rewrite, rules,
    secrets,
};
use crate::model::pointer::steps;
use crate::policy::file::ContractVariants;
use crate::schema::mentions::Mention;

/// The arguments that the contract names besides those it judges by.
pub(super) fn named(
    audit: &[String],
    rewrite: &rewrite::Rule,
    secrets: &secrets::Rule,
) -> Vec<String> {
    [audit.to_vec(), rewrite.brings(), secrets.names().collect()].concat()
}

/// The arguments that decide what a call may do.
pub(super) fn deciding(
    permission: &permission::Rule,
    confirms: Option<&confirms::Rule>,
    variants: Option<&ContractVariants>,
) -> Vec<RequiredArgument> {
    let one = |section: &str, keys: &[&str], pointer: &str| {
        let key = std::iter::once(section)
            .chain(keys.iter().copied())
            .map(str::to_owned)
            .collect();
        RequiredArgument {
            key,
            path: steps(pointer),
            is_bound: false,
            patterns: Vec::new(),
        }
    };
    let judged = permission
        .pointers()
        .map(|(keys, pointer)| one(permission::Settings::NAME, keys, pointer));
    let draft =
        confirms.map(|confirms| one(confirms::Settings::NAME, &["draft"], confirms.draft()));
    judged
        .chain(draft)
        .chain(variants.map(|variants| one("variants", &["by"], &variants.by)))
        .collect()
}

/// The arguments that its steps change: in a tool that calls them otherwise, nothing would be
/// changed.
pub(super) fn changed(rewrite: &rewrite::Rule) -> Vec<RequiredArgument> {
    let key = |key: Vec<String>| [vec![rewrite::Settings::NAME.to_owned()], key].concat();
    rewrite
        .places()
        .into_iter()
        .map(|(at, path)| RequiredArgument {
            key: key(at),
            path,
            is_bound: false,
            patterns: Vec::new(),
        })
        .collect()
}

/// The arguments that its schema bounds: in a tool that calls them otherwise, nothing would be
/// bounded.
pub(super) fn bounded(arguments: &arguments::Settings) -> Vec<RequiredArgument> {
    let one = |mention: Mention| RequiredArgument {
        key: [vec![arguments::Settings::NAME.to_owned()], mention.key].concat(),
        path: mention.path,
        is_bound: true,
        patterns: mention.patterns,
    };
    arguments.bounded().into_iter().map(one).collect()
}

/// All arguments that a call is judged by: those it needs, those by which calls are told apart, and
/// those that rules and rewriting steps read.
pub(super) fn judged_paths(
    needs: &[RequiredArgument],
    keys: Option<&idempotency::Rule>,
    rules: &rules::Rule,
    rewrite: &rewrite::Rule,
) -> Vec<Vec<String>> {
    let keyed = keys.map(idempotency::Rule::reads).unwrap_or_default();
    needs
        .iter()
        .map(|needed| needed.path.clone())
        .chain(keyed)
        .chain(rules.reads().to_vec())
        .chain(rewrite.reads())
        .collect()
}

//! Do a contract's key and the word of who writes go to a tool server in two headers? Of two of one
//! name a server reads either.

use crate::guards::idempotency::{self, Placement};
use crate::guards::{ToolRules, variants};
use crate::model::diagnostic::Problems;

/// Notes an error where the key goes in the header that the server's `fence_header` names.
pub(super) fn judge(rules: &ToolRules, fence: Option<&String>, problems: &mut Problems) {
    let Some(fence) = fence else { return };
    judge_key(rules, fence, problems);
    let cases = rules.variants.iter().flat_map(variants::Rule::cases);
    for (name, case) in cases.filter(|(_, case)| header(case) != header(rules)) {
        problems.under("variants", |problems| {
            problems.under("cases", |problems| {
                problems.under(name, |problems| judge_key(case, fence, problems));
            });
        });
    }
}

fn judge_key(rules: &ToolRules, fence: &str, problems: &mut Problems) {
    if header(rules).is_none_or(|name| !name.eq_ignore_ascii_case(fence)) {
        return;
    }
    problems.under("idempotency", |problems| {
        problems.under("upstream", |problems| {
            problems.under("header", |problems| {
                problems.error(
                    format!("`{fence}` is the server's `fence_header`, so each call would have two of it"),
                    "name another header, in one of the two places",
                );
            });
        });
    });
}

fn header(rules: &ToolRules) -> Option<&str> {
    let upstream = rules
        .idempotency
        .as_ref()
        .and_then(idempotency::Rule::upstream);
    match &upstream?.place {
        Placement::Header(name) => Some(name),
        Placement::Argument(_) | Placement::Meta(_) => None,
    }
}

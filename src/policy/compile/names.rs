//! Do the names of contracts say which one counts? Known once all files are read.

use super::compiler::Compiler;
use crate::guards::allowlist::ToolPattern;
use crate::model::diagnostic::{Diagnostic, PROBLEMS_AT_MOST, Problem, Problems, Severity};
use crate::policy::file::Contract;
use std::collections::HashMap;

/// What a contract for several tools must not hold: a tool that comes later would get what nobody
/// chose for it (002-30).
pub(super) fn judge_shared(name: &str, contract: &Contract, problems: &mut Problems) {
    if !name.contains('*') {
        return;
    }
    let _ = ToolPattern::compile(name, problems);
    if !contract.secrets.0.is_empty() {
        let hint =
            "write `secrets: []` here, and a contract of its own for each tool that takes secrets";
        problems.under("secrets", |problems| {
            problems.error("a contract for several tools takes no secrets", hint);
        });
    }
}

/// A problem of a contract as a whole names its tool: not every reader sees the line.
pub(super) fn tell(problem: Problem) -> Problem {
    match problem.path.as_slice() {
        [section, name] if section == "contracts" && problem.message.starts_with("missing") => {
            Problem {
                message: format!("{}, in the contract of `{name}`", problem.message),
                ..problem
            }
        }
        _ => problem,
    }
}

/// Of two patterns that can meet, one lies within the other (the narrower counts); and no two names
/// differ in case only (003-44).
pub(super) fn judge(stock: &mut Compiler) {
    let mut folded: HashMap<String, &str> = HashMap::new();
    let mut patterns: Vec<ToolPattern> = Vec::new();
    let mut found = Vec::new();
    for (name, held) in &stock.contracts {
        // Of n patterns n² pairs may meet.
        if found.len() > PROBLEMS_AT_MOST {
            break;
        }
        let mut note = |message: String, hint: &str| {
            found.push(Diagnostic {
                severity: Severity::Error,
                message,
                hint: Some(hint.to_owned()),
                ..held.place.clone()
            });
        };
        if let Some(other) = folded.insert(name.as_str().to_lowercase(), name.as_str()) {
            note(
                format!("`{name}` and `{other}` differ in case only"),
                "keep the one that the tool server lists",
            );
        }
        // What is no pattern was reported where it was compiled.
        let pattern = ToolPattern::compile(name.as_str(), &mut Problems::default())
            .filter(ToolPattern::is_wild);
        let Some(pattern) = pattern else { continue };
        for other in patterns.iter().filter(|other| pattern.meets(other)) {
            let (here, there) = (pattern.is_within(other), other.is_within(&pattern));
            if here == there {
                let message = format!(
                    "`{name}` and `{}` can match the same tool, and neither is narrower",
                    other.as_str()
                );
                note(
                    message,
                    "narrow one of them, so that it lies within the other or beside it",
                );
            }
        }
        patterns.push(pattern);
    }
    stock.diagnostics.append(&mut found);
}

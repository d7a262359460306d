//! Can two contracts be taken for each other (003-44)? Known once the contracts of all files are.

use super::compiler::Compiler;
use crate::mcp::skeleton;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::ToolName;

/// Tools of such names are both withheld, so two contracts for them are a slip of the author of
/// one.
pub(super) fn judge(stock: &mut Compiler) {
    let names: Vec<&str> = stock.contracts.keys().map(ToolName::as_str).collect();
    let twins = skeleton::twins(&names);
    for ((name, held), other) in stock.contracts.iter().zip(twins) {
        let Some(other) = other.map(|other| names[other]) else {
            continue;
        };
        // Those that differ in case only, and patterns, are judged by their names as such.
        if name.as_str().eq_ignore_ascii_case(other)
            || name.as_str().contains('*')
            || other.contains('*')
        {
            continue;
        }
        stock.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            message: format!(
                "`{name}` has a contract, and so has `{other}`, which can be taken for it"
            ),
            hint: Some(
                "tools of such names are not offered: keep the one that the server has".to_owned(),
            ),
            ..held.place.clone()
        });
    }
}

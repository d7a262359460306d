//! Does every secret of the configuration go where a contract lets one stand? Known once all files
//! are read.

use super::compiler::Compiler;
use crate::guards::secrets::SecretTarget;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::ToolName;

/// An argument that a secret of the configuration may go to.
#[derive(Debug)]
pub(crate) struct BoundArgument {
    /// The argument.
    pub place: SecretTarget,
    /// Where that is written; without words yet.
    pub at: Diagnostic,
}

/// Warns of places that no contract lists: what was meant to go there is refused, or has no use any
/// more.
pub(super) fn judge(stock: &mut Compiler, bound: Vec<BoundArgument>) {
    // A contract that cannot be used is no missing one.
    let is_whole = stock
        .diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error);
    for BoundArgument {
        place: SecretTarget {
            server,
            tool,
            pointer,
        },
        at,
    } in bound
    {
        let tool = ToolName::of(&server, &tool);
        let hint = match stock.contracts.get(&tool) {
            Some(held) if held.rules.secrets.takes(&pointer) => continue,
            Some(_) => {
                format!("add `{pointer}` to `secrets` of the contract, or take the place away")
            }
            None if !is_whole => continue,
            None => format!(
                "write a contract for `{tool}` with `secrets: [{pointer}]`, or take the place away"
            ),
        };
        let message =
            format!("no contract lists `{pointer}` of `{tool}`, so the secret does not go there");
        stock.diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            message,
            hint: Some(hint),
            ..at
        });
    }
}

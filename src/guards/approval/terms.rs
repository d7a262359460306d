//! What operators may do with a held call beside allowing and denying it, and what they have to say.

use super::judge_named;
use crate::mcp::readable::is_misleading;
use crate::model::decision_terms::DecisionTerms;
use crate::model::diagnostic::Problems;

/// Bytes of a reason for a denial.
const DENY_REASON_BYTES_MAX: usize = 120;

/// As a contract has them, with what is wrong about them; how many there may be is said by the schema.
pub(super) fn compile(
    may_edit: Vec<String>,
    deny_reasons: Vec<String>,
    needs_why: bool,
    problems: &mut Problems,
) -> DecisionTerms {
    let editable = may_edit.iter().map(String::as_str);
    judge_named("approver_may_edit", editable, problems);
    problems.under("deny_reasons", |problems| {
        let unfit = deny_reasons
            .iter()
            .enumerate()
            .filter(|(_, reason)| !is_reason(reason));
        for (index, _) in unfit {
            let hint = format!(
                "write it on one line, without characters that do not print, in at most {DENY_REASON_BYTES_MAX} bytes"
            );
            problems.under(index.to_string(), |problems| {
                problems.error("is no reason that an operator could give", hint);
            });
        }
    });
    DecisionTerms {
        may_edit,
        deny_reasons,
        needs_why,
    }
}

fn is_reason(text: &str) -> bool {
    let is_plain = !text
        .chars()
        .any(|letter| letter.is_control() || is_misleading(letter));
    is_plain && text.trim() == text && !text.is_empty() && text.len() <= DENY_REASON_BYTES_MAX
}

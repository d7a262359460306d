//! What the ledger keeps of a call (003-53, 003-65 … 003-72).

use crate::model::diagnostic::Problems;
use crate::model::entry::{MANDATORY_FIELDS, OPTIONAL_FIELDS};
use crate::policy::shape::suggest;

/// `audit` names arguments; `audit_fields`, where it is written, has everything that every entry
/// has.
pub(super) fn judge(audit: &[String], fields: Option<&[String]>, problems: &mut Problems) {
    problems.under("audit", |problems| judge_arguments(audit, problems));
    let Some(fields) = fields else { return };
    problems.under("audit_fields", |problems| {
        let missing: Vec<&str> = MANDATORY_FIELDS
            .into_iter()
            .filter(|field| !fields.iter().any(|one| one == field))
            .collect();
        if !missing.is_empty() {
            let hint = "add them: every entry has them; or take `audit_fields` away";
            problems.error(format!("missing {}", missing.join(", ")), hint);
        }
        let known: Vec<String> = MANDATORY_FIELDS
            .iter()
            .chain(OPTIONAL_FIELDS)
            .map(|field| (*field).to_owned())
            .collect();
        for (index, field) in fields.iter().enumerate() {
            if !known.contains(field) && !audit.contains(field) {
                let hint = format!(
                    "{}; an argument is named in `audit`, too",
                    suggest(field, &known)
                );
                let message = format!("no entry has `{field}`");
                problems.under(index.to_string(), |problems| problems.error(message, hint));
            }
        }
    });
}

fn judge_arguments(audit: &[String], problems: &mut Problems) {
    for (index, name) in audit.iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            if name.trim().is_empty() {
                problems.error("is blank", "name an argument");
            } else if name.contains('/') {
                problems.error(
                    "is no name of an argument",
                    "name a top-level argument, without `/`",
                );
            } else if audit[..index].contains(name) {
                problems.warning("is named twice", "take one away");
            }
        });
    }
}

//! Does a caller have the roles that a contract asks for?

use crate::guards::{Section as _, permission};
use crate::model::diagnostic::Problems;
use crate::model::spelling::{nearest, suggest};

/// Notes each role that is not among `known`, those of the callers: no call would pass by it. One
/// that is nearly spelt as another is misspelt; others may wait for their first caller. As long as
/// no caller has any role, nothing is said.
pub(super) fn judge(written: &permission::Settings, known: &[String], problems: &mut Problems) {
    let lacking = |role: &String| !role.is_empty() && !known.contains(role);
    problems.under(permission::Settings::NAME, |problems| {
        problems.under("roles", |problems| {
            for (index, role) in written.roles().iter().enumerate() {
                if !known.is_empty() && lacking(role) {
                    problems.under(index.to_string(), |problems| {
                        let message = format!("no caller has the role `{role}`");
                        let hint = suggest(role, known);
                        if nearest(role, known).is_some() {
                            problems.error(message, hint);
                        } else {
                            problems.warning(message, hint);
                        }
                    });
                }
            }
        });
    });
}

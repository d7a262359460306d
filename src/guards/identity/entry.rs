//! What one entry of `callers` says, judged by itself.

use super::{CallerSettings, behind};
use crate::model::diagnostic::Problems;
use std::collections::HashMap;

impl CallerSettings {
    /// `front_ends`: by name, and whether they name users. Gives back whether its own does.
    pub(super) fn judge(&self, front_ends: &HashMap<&str, bool>, problems: &mut Problems) -> bool {
        let of = self.front_end.as_deref();
        let has_header = of.and_then(|name| front_ends.get(name)) == Some(&true);
        behind::judge(self, has_header, problems);
        if self.agent.trim() != self.agent || self.agent.is_empty() {
            let hint = "write the agent's name, without blanks around it";
            problems.under("agent", |problems| {
                problems.error("is blank or has blanks around it", hint);
            });
        }
        if self.token.is_none() && self.front_end.is_none() && self.certificate.is_none() {
            problems.error(
                "nothing proves this caller",
                "give it a `token`, a `certificate`, or the `front_end` that speaks for it",
            );
        }
        if self
            .front_end
            .as_deref()
            .is_some_and(|name| !front_ends.contains_key(name))
        {
            let hint = "declare it under `front_ends`";
            problems.under("front_end", |problems| {
                problems.error("unknown front end", hint);
            });
        }
        for (key, name) in [
            ("group", &self.group),
            ("profile", &self.profile),
            ("environment", &self.environment),
        ] {
            if name
                .as_deref()
                .is_some_and(|name| name.trim() != name || name.is_empty())
            {
                let hint = "write the name, or take the key away";
                problems.under(key, |problems| {
                    problems.error("is blank or has blanks around it", hint);
                });
            }
        }
        for (index, role) in self
            .roles
            .iter()
            .enumerate()
            .filter(|(_, role)| role.trim().is_empty())
        {
            let at = format!("roles[{index}]");
            problems.under(at, |problems| {
                problems.error(format!("the role `{role}` is blank"), "take it away");
            });
        }
        has_header
    }
}

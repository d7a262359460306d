//! What one entry of `callers` says, judged by itself, and the token that proves it.

use super::{CallerSettings, behind, hash};
use crate::model::diagnostic::Problems;
use crate::model::secret::Secret;
use std::collections::{HashMap, HashSet};

/// Bytes below which a token can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

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
        if self.token.is_none() && self.front_end.is_none() {
            problems.error(
                "nothing proves this caller",
                "give it a `token`, or the `front_end` that speaks for it",
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

/// SHA-256 of a token that no other entry has.
pub(super) fn digest(
    token: &Secret,
    seen: &mut HashSet<[u8; 32]>,
    problems: &mut Problems,
) -> [u8; 32] {
    let bytes = token.expose().len();
    let digest = hash(token.expose());
    problems.under("token", |problems| {
        if bytes == 0 {
            problems.error("the token is empty", "make one: `openssl rand -hex 32`");
        } else if bytes < MIN_TOKEN_BYTES {
            problems.warning(
                format!("the token is shorter than {MIN_TOKEN_BYTES} bytes"),
                "make one: `openssl rand -hex 32`",
            );
        }
        if !seen.insert(digest) {
            problems.error(
                "another entry has the same token",
                "a token proves one caller: make a new one",
            );
        }
    });
    digest
}

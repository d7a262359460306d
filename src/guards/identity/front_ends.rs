//! What a front end is known by: its token, and the headers in which it names agents and users.

use super::tokens::{self, TokenEnds, digest};
use super::{FrontEndSettings, TokenHolder};
use crate::mcp::headers::{IDEMPOTENCY_KEY_HEADER, is_reserved};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::AgentId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl FrontEndSettings {
    /// Its tokens, and the agents that it speaks for, which are taken out of `spoken`.
    pub(super) fn compile(
        self,
        spoken: &mut HashMap<String, HashMap<AgentId, Arc<Caller>>>,
        seen: &mut HashSet<[u8; 32]>,
        ends: &mut TokenEnds,
        problems: &mut Problems,
    ) -> Vec<([u8; 32], TokenHolder)> {
        let Self {
            name,
            token,
            previous,
            header,
            user_header,
        } = self;
        let Some(agents) = spoken.remove(&name) else {
            let hint = "give one agent `front_end` with this name, and each name to one front end";
            problems.error("speaks for no agent", hint);
            return Vec::new();
        };
        let header = problems.under("header", |problems| {
            header_name(&header, "x-agent-id", problems)
        });
        let user_header = user_header.map(|name| {
            problems.under("user_header", |problems| {
                let name = header_name(&name, "x-user-id", problems);
                if name == header || name == IDEMPOTENCY_KEY_HEADER || is_reserved(&name) {
                    let hint = "take a header that says nothing else, such as x-user-id";
                    problems.error("says something else already", hint);
                }
                name
            })
        });
        let digest = digest(&token, seen, problems);
        let holder = TokenHolder::FrontEnd {
            header,
            user_header,
            agents,
        };
        let before = tokens::previous(previous, seen, ends, problems);
        let all = std::iter::once(digest).chain(before);
        all.map(|digest| (digest, holder.clone())).collect()
    }
}

fn header_name(name: &str, example: &str, problems: &mut Problems) -> String {
    let mut letters = name.bytes();
    if name.is_empty() || !letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let hint = format!("use letters, digits and `-`, such as {example}");
        problems.error("is no name of a header", hint);
    }
    name.to_ascii_lowercase()
}

//! The person behind an agent: how that person is named, and who may say it.
//!
//! Two sources are believed: the header of a front end that has proved itself, and `_meta` of an
//! agent that the configuration trusts with it. What cannot be a name, or is said by an agent that is
//! not trusted, is refused and never dropped: a call that was meant for one person would run as
//! another's.

use super::CallerSettings;
use crate::mcp::json::Text;
use crate::mcp::seen::is_seen;
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::UserId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Where a trusted agent names the user in `_meta`.
pub(crate) const USER_META: &str = "dev.toolgate/user";
/// Longest name of a user, in bytes.
const MAX_USER_BYTES: usize = 256;
/// Requests that do nothing for a person: they open a conversation, or show what there is.
const UNNAMED_METHODS: &[&str] = &[
    "initialize",
    "server/discover",
    "ping",
    "logging/setLevel",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];

/// Who is behind an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum UsersBehind {
    /// One person, or a program for itself.
    One,
    /// Several people: the agent is trusted to name one of them in `_meta["dev.toolgate/user"]` of
    /// each request.
    Meta,
}

/// Why the user of a request is not known for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UserRefused {
    /// What stands there is no name.
    #[error(
        "{0} must name the user once, in 1 to {MAX_USER_BYTES} bytes of characters that can be seen, without blanks around them; nothing was done"
    )]
    Unusable(&'static str),
    /// The agent may not say it.
    #[error(
        "this agent is not trusted to name users, and nothing was done: leave `_meta` member `{USER_META}` out, or have an operator set `users: meta` at its entry of `callers`"
    )]
    Untrusted,
    /// A session is its agent's, and its requests are for one user each.
    #[error(
        "`initialize` names no user, and no session was opened: send `_meta` member `{USER_META}` with each request instead"
    )]
    Opening,
    /// Header and message name two.
    #[error(
        "the front end's header and `_meta` member `{USER_META}` name two users; nothing was done: send one of them, or the same in both"
    )]
    Contradicted,
    /// Nobody is named, and this caller has to.
    #[error(
        "the request names no user, and this agent needs one (`needs_user`); nothing was done: send the user in `_meta` member `{USER_META}`, or in the header of the front end"
    )]
    Missing,
}

/// Reads what names a user, as `place` has it.
fn read(name: Option<&str>, place: &'static str) -> Result<UserId, UserRefused> {
    let is_unusable = |name: &&str| {
        name.is_empty()
            || name.len() > MAX_USER_BYTES
            || name.starts_with(char::is_whitespace)
            || name.ends_with(char::is_whitespace)
            || !is_seen(name)
    };
    name.filter(|name| !is_unusable(name))
        .map(UserId::new)
        .ok_or(UserRefused::Unusable(place))
}

/// The user of that name; none if it cannot be one.
pub(crate) fn user_named(name: &str) -> Option<UserId> {
    read(Some(name), "it").ok()
}

/// `caller`, acting for whom the header of its front end names; none names nobody. `values`: each
/// that came.
pub(crate) fn of_header<'h>(
    caller: Arc<Caller>,
    values: impl Iterator<Item = &'h [u8]>,
) -> Result<Arc<Caller>, UserRefused> {
    let mut values = values;
    let Some(first) = values.next() else {
        return Ok(caller);
    };
    let name = std::str::from_utf8(first).ok();
    let name = name.filter(|_| values.next().is_none());
    let named = read(name, "the header of the front end")?;
    Ok(Arc::new(caller.for_user(named)))
}

/// `caller`, acting for whom its message names, if it is trusted to; `said`: the member of `_meta`;
/// `is_opening`: it opens a session.
pub(crate) fn of_message(
    caller: &Arc<Caller>,
    said: Option<&Text>,
    is_opening: bool,
) -> Result<Arc<Caller>, UserRefused> {
    let Some(said) = said else {
        return Ok(caller.clone());
    };
    if is_opening {
        return Err(UserRefused::Opening);
    }
    if !caller.names_users {
        return Err(UserRefused::Untrusted);
    }
    let named = read(
        said.as_str().as_deref(),
        "`_meta` member `dev.toolgate/user`",
    )?;
    match &caller.user {
        Some(user) if *user != named => Err(UserRefused::Contradicted),
        Some(_) => Ok(caller.clone()),
        None => Ok(Arc::new(caller.for_user(named))),
    }
}

/// Refuses a request of `method` for which `caller` has to name a user and names none.
pub(crate) fn judge_request(caller: &Caller, method: &str) -> Result<(), UserRefused> {
    let is_missing = caller.needs_user && caller.user.is_none();
    if is_missing && !UNNAMED_METHODS.contains(&method) {
        return Err(UserRefused::Missing);
    }
    Ok(())
}

/// Whether a request has to name its user, where the entry of its caller does not say it: yes where the
/// agent, or the front end through which it came, can name one. A name that was lost or misspelt must
/// not make all people one. `has_header`: came it through a front end that names users?
pub(super) fn needs_user(users: Option<UsersBehind>, has_header: bool) -> bool {
    match users {
        Some(UsersBehind::Meta) => true,
        Some(UsersBehind::One) => false,
        None => has_header,
    }
}

/// `caller` as its front end speaks for it; `has_header`: which names users.
pub(super) fn spoken_for(
    caller: &Arc<Caller>,
    settings: &CallerSettings,
    has_header: bool,
) -> Arc<Caller> {
    let needs_user = settings
        .needs_user
        .unwrap_or_else(|| needs_user(settings.users, has_header));
    if needs_user == caller.needs_user {
        return caller.clone();
    }
    Arc::new(Caller {
        needs_user,
        ..Caller::clone(caller)
    })
}

/// Notes a caller that has to name users and cannot: `has_header`: does its front end name them?
pub(super) fn judge(settings: &CallerSettings, has_header: bool, problems: &mut Problems) {
    if settings.needs_user != Some(true) {
        return;
    }
    if settings.users == Some(UsersBehind::One) {
        let hint = "take `needs_user` away, or write `users: meta`";
        problems.under("needs_user", |problems| {
            problems.error("one person is behind this agent, and nobody names it", hint);
        });
    } else if settings.users.is_none() && (settings.token.is_some() || !has_header) {
        let hint = "write `users: meta`, or give the front end that speaks for it a `user_header`";
        problems.under("needs_user", |problems| {
            problems.error("nothing could name the user, so no call would pass", hint);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two spellings are two people, and what hides or misleads is nobody.
    #[test]
    fn a_user_is_named_byte_for_byte() {
        let longest = "a".repeat(MAX_USER_BYTES);
        for name in [
            "ada",
            "Ada",
            "Ada Lovelace",
            "ada@example.com",
            "\u{e9}",
            "e\u{301}",
            &longest,
        ] {
            assert_eq!(read(Some(name), "it").unwrap().as_str(), name);
        }
        let too_long = "a".repeat(MAX_USER_BYTES + 1);
        let odd = [
            "",
            " ",
            "ada ",
            " ada",
            "ada\n",
            "a\tb",
            "a\0b",
            "\u{202e}ada",
            "a\u{200b}da",
            "a\u{2028}b",
            "a\u{a0}b",
            "\u{feff}ada",
            "a\u{ad}da",
            "ada\u{fe0f}",
            "ada\u{1bca0}",
            "ada\u{1107f}",
            "ada\u{fffc}",
            "ada\u{fdd0}",
            "ada\u{e000}",
            &too_long,
        ];
        for name in odd {
            let refused = read(Some(name), "it");
            assert_eq!(refused, Err(UserRefused::Unusable("it")), "{name:?}");
        }
        assert_eq!(read(None, "it"), Err(UserRefused::Unusable("it")));
    }
}

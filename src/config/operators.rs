//! The operators' door: its address, who may come in, and for what.

mod absences;
mod issuers;

use super::doors::{address, judge_hosts, judge_reach};
use super::entrance::WrittenEntrance;
use super::settings::{AdminSettings, OperatorSettings, VerbSettings};
use super::{Admin, EndingToken, Operator};
use crate::admin::operators::in_force::OperatorsInForce;
use crate::guards::identity::tokens::{self, MIN_TOKEN_BYTES, PreviousTokenSettings};
use crate::mcp::json::fold::is_same_name;
use crate::mcp::seen::is_seen;
use crate::model::diagnostic::Problems;
use crate::model::ids::AgentId;
use crate::model::listen::ListenAddress;
use crate::model::secret::Secret;
use crate::model::verbs::{MAX_VERB_ROLES, OperatorVerb, OperatorVerbs};
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// Letters of an operator's name or role.
const OPERATOR_NAME_CHARS_MAX: usize = 128;
const PRINTED_NAME_HINT: &str =
    "write 1 to 128 characters on one line that print, without blanks around them";

/// The agents beside the operators.
#[derive(Clone, Copy)]
pub(super) struct ConfiguredAgents<'a> {
    /// Their tokens, which must not open the operators' door.
    pub(super) tokens: &'a [&'a Secret],
    /// Their names.
    pub(super) names: &'a [AgentId],
    /// Issuer and audience of the tokens that name more of them, which must not open that door either.
    pub(super) issued: &'a [(&'a str, &'a str)],
}

/// The operators' door.
pub(super) fn admin(
    settings: AdminSettings,
    agents: ConfiguredAgents<'_>,
    directory: &Path,
    problems: &mut Problems,
) -> Option<Admin> {
    let AdminSettings {
        listen,
        tls,
        unix,
        unencrypted,
        public_url,
        allowed_hosts,
        tokens,
        operators,
        verbs,
        jwt,
    } = settings;
    let public_url = problems.under("public_url", |problems| {
        public_url.and_then(|written| of_public_url(&written, problems))
    });
    problems.under("allowed_hosts", |problems| {
        judge_hosts(&allowed_hosts, problems);
    });
    let known = problems.under("tokens", |problems| of_tokens(tokens, agents, problems));
    let verbs = problems.under("verbs", |problems| of_verbs(verbs, problems));
    let issued = problems.under("jwt", |problems| {
        issuers::compile(jwt, &known, agents, directory, problems)
    });
    if issued.is_empty() {
        problems.under("tokens", |problems| judge_roles(&known, &verbs, problems));
    }
    let absences = problems.under("operators", |problems| {
        absences::compile(operators, &known, agents.names, problems)
    });
    let reach = Reach {
        is_exempt: unencrypted || tls.is_some(),
        is_open: known.is_empty() && issued.is_empty(),
    };
    let listen = problems.under("listen", |problems| {
        of_listen(&listen, reach, directory, problems)
    });
    let written = WrittenEntrance {
        listen,
        tls,
        unix,
        is_for_agents: false,
    };
    let entrance = written.compile(directory, problems);
    let mut admin = Admin {
        listen: listen?,
        entrance,
        in_force: OperatorsInForce::default(),
        public_url,
        allowed_hosts,
        tokens: known,
        verbs,
        absences,
        issued: Arc::new(issued),
    };
    admin.are_in_force();
    Some(admin)
}

/// What decides whether other machines may reach the door.
#[derive(Clone, Copy)]
struct Reach {
    /// It speaks TLS, or it is said that it need not.
    is_exempt: bool,
    /// No operator is configured, so that each caller at this door is let in.
    is_open: bool,
}

/// Where the door is.
fn of_listen(
    written: &str,
    reach: Reach,
    directory: &Path,
    problems: &mut Problems,
) -> Option<ListenAddress> {
    let listen = address(written, directory, problems)?;
    judge_reach(listen, reach.is_exempt, "admin.", problems);
    if reach.is_open && !listen.is_local() {
        let hint = "configure `admin.tokens`, or listen on 127.0.0.1";
        problems.error(
            "other machines can reach this address, and no tokens are configured",
            hint,
        );
    }
    Some(listen)
}

/// The operators, each judged beside the agents and those before it.
fn of_tokens(
    tokens: Vec<OperatorSettings>,
    agents: ConfiguredAgents<'_>,
    problems: &mut Problems,
) -> Vec<Operator> {
    let mut known: Vec<Operator> = Vec::new();
    for (index, written) in tokens.into_iter().enumerate() {
        let OperatorSettings {
            name,
            token,
            previous,
            roles,
        } = written;
        let previous = problems.under(index.to_string(), |problems| {
            problems.under("name", |problems| {
                judge_name(&name, &roles, &known, agents.names, problems);
            });
            judge_printed(&roles, problems);
            let others = known.iter().flat_map(Operator::tokens);
            let others: Vec<&Secret> = others.chain(agents.tokens.iter().copied()).collect();
            problems.under("token", |problems| judge_token(&token, &others, problems));
            let others: Vec<&Secret> = others.into_iter().chain([&token]).collect();
            of_previous(previous, &others, problems)
        });
        known.push(Operator {
            name,
            token,
            previous,
            roles,
        });
    }
    known
}

/// The tokens that an operator had before, each judged beside `others` and those before it.
fn of_previous(
    written: Vec<PreviousTokenSettings>,
    others: &[&Secret],
    problems: &mut Problems,
) -> Vec<EndingToken> {
    let mut known: Vec<EndingToken> = Vec::new();
    problems.under("previous", |problems| {
        for (index, PreviousTokenSettings { token, until }) in written.into_iter().enumerate() {
            let end = problems.under(index.to_string(), |problems| {
                let before = known.iter().map(|known| &known.token);
                let others: Vec<&Secret> = others.iter().copied().chain(before).collect();
                problems.under("token", |problems| judge_token(&token, &others, problems));
                tokens::end(until.as_deref(), problems)
            });
            known.push(EndingToken { token, end });
        }
    });
    known
}

/// What links begin with: a scheme and a host, perhaps a port, and nothing else.
pub(super) fn of_public_url(written: &str, problems: &mut Problems) -> Option<String> {
    let read = Url::parse(written).ok();
    let is_plain = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none()
    };
    let Some(url) = read.filter(|url| url.has_host() && is_plain(url)) else {
        problems.error(
            "is no address that links can begin with",
            "write scheme://host or scheme://host:port, such as https://toolgate.example.com",
        );
        return None;
    };
    Some(url.origin().ascii_serialization())
}

/// What an operator is called stands in the ledger, and decides who is who: on one line, and nobody
/// else's but for case.
fn judge_name(
    name: &str,
    roles: &[String],
    known: &[Operator],
    agents: &[AgentId],
    problems: &mut Problems,
) {
    if !is_printed(name) {
        problems.error(
            "is no name for an operator",
            format!("{PRINTED_NAME_HINT}: the ledger says who by it"),
        );
        return;
    }
    let is_like = |other: &str| other != name && is_same_name(other, name);
    if let Some(other) = known.iter().find(|other| is_like(&other.name)) {
        let hint = "rename one, or write both in one way: they count as one";
        problems.error(
            format!(
                "differs from the operator `{}` in case or spelling only",
                other.name
            ),
            hint,
        );
    }
    if known
        .iter()
        .any(|other| other.name == name && other.roles != roles)
    {
        let hint = "give both tokens the same roles, or the operators two names: roles are of who has the name";
        problems.error("another token of this operator has other roles", hint);
    }
    if let Some(agent) = agents.iter().find(|agent| is_like(agent.as_str())) {
        let hint = "rename the operator, unless that is meant: nobody decides about the calls of an agent that has their name";
        problems.warning(
            format!(
                "counts as the name of the agent `{}`",
                agent.as_str().escape_debug()
            ),
            hint,
        );
    }
}

/// A token is hard to guess, and says which of agents and operators comes.
fn judge_token(token: &Secret, others: &[&Secret], problems: &mut Problems) {
    // Who guesses one may allow every call: a warning, as for callers, is not enough.
    if token.expose().len() < MIN_TOKEN_BYTES {
        problems.error(
            format!("the token is shorter than {MIN_TOKEN_BYTES} bytes"),
            "make one: `openssl rand -hex 32`",
        );
    }
    if others.iter().any(|other| other.expose() == token.expose()) {
        problems.error(
            "an agent or another operator has the same token",
            "make a new one",
        );
    }
}

fn judge_printed(roles: &[String], problems: &mut Problems) {
    problems.under("roles", |problems| {
        for (index, _) in roles
            .iter()
            .enumerate()
            .filter(|(_, role)| !is_printed(role))
        {
            problems.under(index.to_string(), |problems| {
                problems.error("is no name for a role", PRINTED_NAME_HINT);
            });
        }
    });
}

/// Is it a name that people can read, on one line?
fn is_printed(name: &str) -> bool {
    !name.is_empty()
        && name.trim() == name
        && name.chars().count() <= OPERATOR_NAME_CHARS_MAX
        && is_seen(name)
}

impl Default for VerbSettings {
    fn default() -> Self {
        let OperatorVerbs {
            resolve,
            switch,
            audit,
        } = OperatorVerbs::default();
        Self {
            resolve,
            switch,
            audit,
        }
    }
}

fn of_verbs(settings: VerbSettings, problems: &mut Problems) -> OperatorVerbs {
    let VerbSettings {
        resolve,
        switch,
        audit,
    } = settings;
    let verbs = OperatorVerbs {
        resolve,
        switch,
        audit,
    };
    for verb in OperatorVerb::ALL {
        let roles = verbs.roles(verb);
        if roles.len() > MAX_VERB_ROLES || roles.iter().any(|role| !is_printed(role)) {
            let hint = format!(
                "name up to {MAX_VERB_ROLES} roles of `admin.tokens`, such as [{}]; `[]`: nobody",
                verb.role()
            );
            problems.under(verb.key(), |problems| problems.error("are no roles", hint));
        }
    }
    verbs
}

/// Warns of what none of the operators may do, unless the configuration says that nobody shall.
fn judge_roles(known: &[Operator], verbs: &OperatorVerbs, problems: &mut Problems) {
    let Some(first) = known.first() else { return };
    let nobodys = |verb: &OperatorVerb| {
        !verbs.roles(*verb).is_empty()
            && !known
                .iter()
                .any(|operator| verbs.allow(*verb, &operator.roles))
    };
    let nobodys: Vec<OperatorVerb> = OperatorVerb::ALL.into_iter().filter(nobodys).collect();
    if nobodys.is_empty() {
        return;
    }
    let listed =
        |each: &dyn Fn(&OperatorVerb) -> String| nobodys.iter().map(each).collect::<Vec<_>>();
    let what = listed(&|verb| {
        format!(
            "{} (role {})",
            verb.words(),
            verbs.roles(*verb).join(" or ")
        )
    })
    .join(", ");
    let roles = listed(&|verb| verbs.roles(*verb).first().cloned().unwrap_or_default());
    let keys = listed(&|verb| format!("{}: […]", verb.key()));
    let whole: Vec<&str> = first
        .roles
        .iter()
        .chain(&roles)
        .map(String::as_str)
        .collect();
    let hint = format!(
        "give one of them the role, such as `{}` roles: [{}]; or name other roles under `admin`: verbs: {{ {} }}, `[]` for \
         nobody",
        first.name.escape_debug(),
        whole.join(", ").escape_debug(),
        keys.join(", ")
    );
    problems.warning(format!("no operator may {what}"), hint);
}

#[cfg(test)]
mod tests {
    use super::is_printed;

    /// threat-model §3E E5: no two operators, and no two roles, look the same.
    #[test]
    fn a_name_can_be_seen() {
        for name in ["ann", "Ann Lee", "Ren\u{e9}", "\u{5f20}\u{4f1f}"] {
            assert!(is_printed(name), "{name:?}");
        }
        for name in [
            "",
            " ann",
            "ann\u{a0}lee",
            "ann\u{200b}",
            "ann\u{fe0f}",
            "ann\u{1bca0}",
            "ann\u{1d159}",
            "ann\u{1107f}",
            "ann\u{fffc}",
            "ann\u{ffff}",
            "ann\u{e000}",
        ] {
            assert!(!is_printed(name), "{name:?}");
        }
    }
}

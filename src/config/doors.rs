//! The small keys of the configuration: addresses, hosts, paths, methods.

use super::settings::{AdminSettings, MethodSettings, OperatorSettings, VerbSettings};
use super::{Admin, Operator};
use crate::guards::{Mode, pins};
use crate::mcp::json::fold::is_same_name;
use crate::mcp::readable::is_misleading;
use crate::model::diagnostic::Problems;
use crate::model::ids::AgentId;
use crate::model::secret::Secret;
use crate::model::verbs::{MAX_VERB_ROLES, OperatorVerb, OperatorVerbs};
use crate::policy::pins::PinSource;
use crate::policy::{META_MAX_BYTES, Methods};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use url::Url;

/// Where agents are served, if nothing is said.
pub(super) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7777);
/// Where operators are served, if nothing is said.
pub(super) const DEFAULT_ADMIN_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7778);
/// Bytes of `_meta` that may be allowed: what usual agents need, and what a message has at all.
const META_BYTES_RANGE: RangeInclusive<usize> = (1 << 10)..=(4 << 20);

/// Letters of an operator's name or role.
const OPERATOR_NAME_CHARS_MAX: usize = 128;
const PRINTED_NAME_HINT: &str =
    "write 1 to 128 characters on one line that print, without blanks around them";

fn address(text: &str, problems: &mut Problems) -> Option<SocketAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        problems.error(
            "is no address to listen on",
            "write IP:port, such as 127.0.0.1:7777 or [::1]:7777",
        );
    }
    address
}

/// An error for an address that other machines reach, unless that is said to be meant.
fn judge_reach(listen: SocketAddr, unencrypted: bool, key: &str, problems: &mut Problems) {
    if !unencrypted && !listen.ip().is_loopback() {
        let hint = format!(
            "listen on 127.0.0.1 with a TLS front end on this machine; or, in a container or on a network that nobody else is \
             on, write `{key}: true`"
        );
        problems.error(
            "other machines can reach this address, and toolgate speaks no TLS there",
            hint,
        );
    }
}

/// The agents' door. `open`: nobody is configured, so everybody is let in.
pub(super) fn agents(
    (text, unencrypted): (&str, bool),
    open: bool,
    mode: Mode,
    problems: &mut Problems,
) -> Option<SocketAddr> {
    let listen = address(text, problems)?;
    judge_reach(listen, unencrypted, "unencrypted", problems);
    if open && !listen.ip().is_loopback() {
        problems.error(
            "other machines can reach this address, and no callers are configured",
            "configure `callers`, or listen on 127.0.0.1",
        );
    } else if open && mode == Mode::Enforce {
        problems.warning(
            "no callers are configured: every program on this machine is the agent `anonymous`",
            "configure `callers` with a token each",
        );
    }
    Some(listen)
}

/// The operators' door, beside agents with these tokens and these names.
pub(super) fn admin(
    settings: AdminSettings,
    agents: (&[&Secret], &[AgentId]),
    problems: &mut Problems,
) -> Option<Admin> {
    problems.under("admin", |problems| operators(settings, agents, problems))
}

/// `secrets`: the agents' tokens, which must not open the door.
fn operators(
    settings: AdminSettings,
    (secrets, agents): (&[&Secret], &[AgentId]),
    problems: &mut Problems,
) -> Option<Admin> {
    let AdminSettings {
        listen,
        unencrypted,
        tokens,
        verbs,
    } = settings;
    let none = tokens.is_empty();
    let mut known: Vec<Operator> = Vec::new();
    problems.under("tokens", |problems| {
        for (index, OperatorSettings { name, token, roles }) in tokens.into_iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                problems.under("name", |problems| {
                    judge_name((&name, &roles), &known, agents, problems);
                });
                judge_printed(&roles, problems);
                problems.under("token", |problems| {
                    if token.expose().len() < 16 {
                        problems.error(
                            "the token is shorter than 16 bytes",
                            "make one: `openssl rand -hex 32`",
                        );
                    }
                    let others = known
                        .iter()
                        .map(|other| &other.token)
                        .chain(secrets.iter().copied());
                    if others
                        .into_iter()
                        .any(|other| other.expose() == token.expose())
                    {
                        problems.error(
                            "an agent or another operator has the same token",
                            "make a new one",
                        );
                    }
                });
            });
            known.push(Operator { name, token, roles });
        }
    });
    let verbs = problems.under("verbs", |problems| of_verbs(verbs, problems));
    problems.under("tokens", |problems| judge_roles(&known, &verbs, problems));
    let listen = problems.under("listen", |problems| {
        let listen = address(&listen, problems)?;
        judge_reach(listen, unencrypted, "admin.unencrypted", problems);
        if none && !listen.ip().is_loopback() {
            let hint = "configure `admin.tokens`, or listen on 127.0.0.1";
            problems.error(
                "other machines can reach this address, and no tokens are configured",
                hint,
            );
        }
        Some(listen)
    })?;
    Some(Admin {
        listen,
        tokens: known,
        verbs,
    })
}

/// What an operator is called stands in the ledger, and decides who is who: on one line, and nobody
/// else's but for case.
fn judge_name(
    (name, roles): (&str, &[String]),
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
    let prints = |letter: char| !letter.is_control() && !is_misleading(letter);
    !name.is_empty()
        && name.trim() == name
        && name.chars().count() <= OPERATOR_NAME_CHARS_MAX
        && name.chars().all(prints)
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

/// Who else may ask at the doors.
pub(super) fn judge_allowed(hosts: &[String], origins: &[String], problems: &mut Problems) {
    problems.under("allowed_hosts", |problems| judge_hosts(hosts, problems));
    problems.under("allowed_origins", |problems| {
        judge_origins(origins, problems);
    });
}

fn judge_hosts(hosts: &[String], problems: &mut Problems) {
    for (index, host) in hosts.iter().enumerate() {
        if host.is_empty() || host.contains(['/', '*', ' ', '@']) {
            problems.under(index.to_string(), |problems| {
                problems.error(
                    "is no host",
                    "write name or name:port, one an entry, without a scheme",
                );
            });
        }
    }
}

fn judge_origins(origins: &[String], problems: &mut Problems) {
    for (index, origin) in origins.iter().enumerate() {
        let read = Url::parse(origin).ok().filter(Url::has_host);
        if read.is_none_or(|url| url.origin().ascii_serialization() != *origin) {
            problems.under(index.to_string(), |problems| {
                problems.error(
                    "is no origin",
                    "write scheme://host or scheme://host:port, without a path",
                );
            });
        }
    }
}

/// The directory of the store.
pub(super) fn data_dir(text: &str, directory: &Path, problems: &mut Problems) -> PathBuf {
    if text.contains("://") {
        problems.error(
            "a store that is not a directory is not enforced by this version",
            "name a directory",
        );
    } else if text.trim().is_empty() {
        problems.error("is blank", "name a directory");
    }
    directory.join(text)
}

pub(super) fn policies(
    written: &[String],
    mode: Mode,
    directory: &Path,
    problems: &mut Problems,
) -> Vec<PathBuf> {
    if written.is_empty() && mode == Mode::Enforce {
        problems.warning(
            "no policies: every call will be refused",
            "name a file or a directory under `policies`",
        );
    }
    let mut found = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let path = directory.join(text);
        if text.trim().is_empty() || !path.exists() {
            problems.under(index.to_string(), |problems| {
                problems.error(
                    format!("`{}` does not exist", path.display()),
                    "name a file or a directory",
                );
            });
        } else {
            found.push(path);
        }
    }
    found
}

pub(super) fn pins(
    written: pins::Settings,
    directory: &Path,
    problems: &mut Problems,
) -> Option<PinSource> {
    let (file, require) = written.into_parts();
    if file.trim().is_empty() {
        problems.error(
            "is blank",
            format!("name a file, such as {}", pins::PIN_FILE_NAME),
        );
        return None;
    }
    Some(PinSource {
        file: directory.join(file),
        require,
    })
}

pub(super) fn session_header(name: &str, problems: &mut Problems) -> String {
    let name = name.to_ascii_lowercase();
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    problems.under("session_header", |problems| {
        if name.is_empty() || !plain {
            problems.error(
                "is no name of a header",
                "use letters, digits and `-`, such as x-session-id",
            );
        } else if name.starts_with("mcp-")
            || ["authorization", "host", "content-length", "cookie"].contains(&&*name)
        {
            problems.error(
                "is a header with a meaning of its own",
                "use another, such as x-session-id",
            );
        }
    });
    name
}

pub(super) fn meta_max_bytes(most: usize, problems: &mut Problems) -> usize {
    if !META_BYTES_RANGE.contains(&most) {
        let hint = format!(
            "between {} and {}; without it, {META_MAX_BYTES}",
            META_BYTES_RANGE.start(),
            META_BYTES_RANGE.end()
        );
        problems.under("meta_max_bytes", |problems| {
            problems.error("is no number of bytes that `_meta` may have", hint);
        });
    }
    most
}

pub(super) fn methods(settings: MethodSettings, problems: &mut Problems) -> Methods {
    let MethodSettings { deny, allow } = settings;
    for (key, list) in [("deny", &deny), ("allow", &allow)] {
        for (index, method) in list.iter().enumerate() {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.$".contains(&byte);
            if method.is_empty() || !method.bytes().all(plain) {
                problems.under(key, |problems| {
                    problems.under(index.to_string(), |problems| {
                        problems.error(
                            "is no name of a method",
                            "write it whole, such as resources/read",
                        );
                    });
                });
            }
        }
    }
    Methods { deny, allow }
}

//! The small keys of the configuration: addresses, hosts, paths, methods.

use super::settings::MethodSettings;
use crate::guards::{Mode, pins};
use crate::mcp::headers::is_reserved;
use crate::model::diagnostic::Problems;
use crate::model::listen::{ListenAddress, NoListenAddress};
use crate::policy::pins::PinSource;
use crate::policy::{META_MAX_BYTES, Methods};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use url::Url;

/// Bytes of `_meta` that may be allowed: what usual agents need, and what a message has at all.
const META_BYTES_RANGE: RangeInclusive<usize> = (1 << 10)..=(4 << 20);

/// An address; the path of a socket starts at `directory`.
pub(super) fn address(
    text: &str,
    directory: &Path,
    problems: &mut Problems,
) -> Option<ListenAddress> {
    let address = text.parse::<ListenAddress>();
    let address = address.and_then(|address| address.within(directory));
    let wrong = match address {
        Ok(address) => return Some(address),
        Err(wrong) => wrong,
    };
    let hint = match wrong {
        NoListenAddress::Unreadable => {
            "write IP:port, such as 127.0.0.1:7777 or [::1]:7777, or unix:/path/of/a.sock"
        }
        NoListenAddress::NoPath | NoListenAddress::TooLong => {
            "write unix: and a short path, such as unix:/run/toolgate/agents.sock"
        }
    };
    problems.error(wrong.to_string(), hint);
    None
}

/// An error for an address that other machines reach, unless that is said to be meant; `prefix` is what the
/// keys of its door begin with.
pub(super) fn judge_reach(
    listen: ListenAddress,
    is_exempt: bool,
    prefix: &str,
    problems: &mut Problems,
) {
    if !is_exempt && !listen.is_local() {
        let hint = format!(
            "write `{prefix}tls: {{ cert: …, key: … }}`, or listen on 127.0.0.1; in a container, or on a network that nobody else is \
             on, write `{prefix}unencrypted: true`"
        );
        problems.error(
            "other machines can reach this address, and toolgate speaks no TLS there",
            hint,
        );
    }
}

/// The agents' door. `is_open`: no caller is configured, so every agent is let in.
pub(super) fn judge_agents(
    listen: ListenAddress,
    is_open: bool,
    mode: Mode,
    problems: &mut Problems,
) {
    if is_open && !listen.is_local() {
        problems.error(
            "other machines can reach this address, and no callers are configured",
            "configure `callers`, or listen on 127.0.0.1",
        );
    } else if is_open && mode == Mode::Enforce {
        problems.warning(
            "no callers are configured: every program on this machine is the agent `anonymous`",
            "configure `callers` with a token each",
        );
    }
}

/// Who else may ask at the agents' door.
pub(super) fn judge_allowed(hosts: &[String], origins: &[String], problems: &mut Problems) {
    problems.under("allowed_hosts", |problems| judge_hosts(hosts, problems));
    problems.under("allowed_origins", |problems| {
        judge_origins(origins, problems);
    });
}

/// Names by which a door may be called, each with its port or without.
pub(super) fn judge_hosts(hosts: &[String], problems: &mut Problems) {
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
        problems.error(
            "no policies: enforce mode would refuse everything, so it does not start",
            "name a file or a directory with contracts, or write `mode: observe` until there are some",
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

/// The header that the operator names under `key`, such as `example`.
pub(super) fn named_header(
    key: &str,
    name: &str,
    example: &str,
    problems: &mut Problems,
) -> String {
    let name = name.to_ascii_lowercase();
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    problems.under(key, |problems| {
        if name.is_empty() || !plain {
            problems.error(
                "is no name of a header",
                format!("use letters, digits and `-`, such as {example}"),
            );
        } else if is_reserved(&name) {
            problems.error(
                "is a header with a meaning of its own",
                format!("use another, such as {example}"),
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

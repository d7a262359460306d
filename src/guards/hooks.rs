//! Which of the operator's hooks hear of a call: `hooks` in toolgate.yaml, in the order in which
//! they stand there.

use super::Section;
use crate::model::address::Address;
use crate::model::diagnostic::Problems;
use crate::model::ids::{NAME_SEPARATOR, ServerName, ToolName};
use crate::model::secret::Secret;
use crate::model::times::between;
use crate::upstream::hook::{Hook, key_of};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Hooks at most.
const MAX_HOOKS: usize = 16;
/// Bytes of a hook's name at most.
const HOOK_NAME_BYTES_MAX: usize = 32;
/// The time of one request: usual, least, most.
const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(2);
const MIN_HOOK_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// The hooks, as written.
#[derive(Debug, Default)]
pub(crate) struct Settings(pub Vec<HookSettings>);

/// One hook: a program that is told of calls over HTTP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Hook")]
pub(crate) struct HookSettings {
    /// what the ledger calls it: letters, digits, `_` and `-`, at most 32
    pub name: String,
    /// the address that is told, by POST
    pub url: String,
    /// the key that signs what it is told (Standard Webhooks): `whsec_` and 24 to 64 bytes in
    /// base64
    pub secret: Secret,
    /// `before`: it may change or block a call; `after`: it hears what came of one
    pub on: HookPhase,
    /// the tools whose calls it hears of: `server__tool`; a `*` at the end stands for any text
    #[schemars(length(min = 1))]
    pub tools: Vec<String>,
    /// How long it may take: `2s` if absent, `30s` at most. A call whose before-hook takes longer
    /// is refused.
    pub timeout: Option<String>,
    /// The address may be one of another machine without TLS.
    #[serde(default)]
    pub unencrypted: bool,
}

/// When a hook is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum HookPhase {
    /// Before the call is sent.
    Before,
    /// After it has ended.
    After,
}

/// As run. The default has no hooks.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    hooks: Vec<(HookPhase, Vec<HookPattern>, Arc<Hook>)>,
}

/// A name, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HookPattern {
    Whole(String),
    Beginning(String),
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "hooks";

    fn compile(self, problems: &mut Problems) -> Rule {
        if self.0.len() > MAX_HOOKS {
            problems.error(
                format!("more than {MAX_HOOKS} hooks"),
                "let one program do the work of several",
            );
        }
        let mut names = HashSet::new();
        let numbered = self.0.into_iter().enumerate();
        let hooks = numbered.filter_map(|(index, written)| {
            problems.under(index.to_string(), |problems| {
                problems.under("name", |problems| {
                    judge_name(&written.name, &mut names, problems);
                });
                written.compile(problems)
            })
        });
        Rule {
            hooks: hooks.collect(),
        }
    }
}

impl Settings {
    /// Compiles them, and judges which tools they name by the declared servers.
    pub(crate) fn compile_for(self, servers: &[ServerName], problems: &mut Problems) -> Rule {
        self.judge(servers, problems);
        self.compile(problems)
    }

    /// Notes the patterns under which no tool of a declared server can be.
    fn judge(&self, servers: &[ServerName], problems: &mut Problems) {
        for (index, written) in self.0.iter().enumerate() {
            for (nth, text) in written.tools.iter().enumerate() {
                let reaches = |server: &ServerName| {
                    HookPattern::of(text).reaches(&format!("{server}{NAME_SEPARATOR}"))
                };
                if servers.iter().any(reaches) {
                    continue;
                }
                let message = format!("`{}` is no tool of a declared server", text.escape_debug());
                let path = [index.to_string(), "tools".to_owned(), nth.to_string()];
                under(problems, &path, |problems| {
                    problems.error(message, "name it `server__tool` or `server__*`");
                });
            }
        }
    }
}

fn under(problems: &mut Problems, path: &[String], note: impl FnOnce(&mut Problems)) {
    match path.split_first() {
        Some((first, rest)) => {
            problems.under(first.clone(), |problems| under(problems, rest, note));
        }
        None => note(problems),
    }
}

impl HookSettings {
    fn compile(self, problems: &mut Problems) -> Option<(HookPhase, Vec<HookPattern>, Arc<Hook>)> {
        let Self {
            name,
            url,
            secret,
            on,
            tools,
            timeout,
            unencrypted,
        } = self;
        let timeout = between(
            "timeout",
            timeout.as_deref(),
            MIN_HOOK_TIMEOUT..=MAX_HOOK_TIMEOUT,
            problems,
        )
        .unwrap_or(DEFAULT_HOOK_TIMEOUT);
        if key_of(&secret).is_none() {
            let hint = "make one: `echo whsec_$(openssl rand -base64 32)`";
            problems.under("secret", |problems| problems.error("is no key", hint));
        }
        for (nth, text) in tools
            .iter()
            .enumerate()
            .filter(|(_, text)| inner_star(text))
        {
            let message = format!("`{}` has a `*` that is not at its end", text.escape_debug());
            let path = ["tools".to_owned(), nth.to_string()];
            under(problems, &path, |problems| {
                problems.error(message, "write several names");
            });
        }
        let url = problems.under("url", |problems| address(&url, unencrypted, problems))?;
        let hook = Hook::new(name, &url, secret, timeout)?;
        Some((
            on,
            tools.iter().map(|text| HookPattern::of(text)).collect(),
            Arc::new(hook),
        ))
    }
}

fn inner_star(text: &str) -> bool {
    text.strip_suffix('*').unwrap_or(text).contains('*')
}

fn judge_name(name: &str, names: &mut HashSet<String>, problems: &mut Problems) {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if name.is_empty() || name.len() > HOOK_NAME_BYTES_MAX || !plain {
        let hint = format!("use 1 to {HOOK_NAME_BYTES_MAX} letters, digits, `_` and `-`");
        problems.error("is no name for a hook", hint);
    }
    if !names.insert(name.to_owned()) {
        problems.error(
            format!("`{}` is the name of two hooks", name.escape_debug()),
            "rename one",
        );
    }
}

fn address(text: &str, unencrypted: bool, problems: &mut Problems) -> Option<Url> {
    let Address { url, is_exposed } =
        Address::read(text, "the hook knows us by the signature", problems)?;
    if is_exposed && !unencrypted {
        let hint = "use https, or say `unencrypted: true`";
        problems.error("arguments would leave this machine unencrypted", hint);
    }
    Some(url)
}

/// Whether hooks that name these tools, as written, hear of calls of `tool`.
pub(crate) fn is_heard(tools: &[String], tool: &ToolName) -> bool {
    let mut patterns = tools.iter().map(|text| HookPattern::of(text));
    patterns.any(|pattern| pattern.matches(tool.as_str()))
}

impl HookPattern {
    fn of(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(beginning) => Self::Beginning(beginning.to_owned()),
            None => Self::Whole(text.to_owned()),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Whole(whole) => whole == name,
            Self::Beginning(beginning) => name.starts_with(beginning.as_str()),
        }
    }

    /// Could it match a name with this beginning?
    fn reaches(&self, prefix: &str) -> bool {
        match self {
            Self::Whole(whole) => whole.len() > prefix.len() && whole.starts_with(prefix),
            Self::Beginning(beginning) => {
                beginning.starts_with(prefix) || prefix.starts_with(beginning.as_str())
            }
        }
    }
}

// === impl Rule ===

impl Rule {
    /// Those that hear of the tool's calls `on` this side, in order.
    pub fn of(&self, on: HookPhase, tool: &ToolName) -> impl Iterator<Item = &Arc<Hook>> {
        let hears = move |patterns: &[HookPattern]| {
            patterns
                .iter()
                .any(|pattern| pattern.matches(tool.as_str()))
        };
        let fits = move |(side, patterns, _): &&(HookPhase, Vec<HookPattern>, Arc<Hook>)| {
            *side == on && hears(patterns)
        };
        self.hooks.iter().filter(fits).map(|(_, _, hook)| hook)
    }
}

#[cfg(test)]
mod tests;

//! Who may use what besides tools: the sections `resources`, `prompts`, `completions`, `sampling`,
//! `elicitation`, `roots` and `logging` of the layers (threat-model §3C C3, C6, §5). Deny before
//! allow in each layer, all layers together, a child within its parents, as for tools. What no
//! layer allows is closed.

use super::LayerVerdict;
use super::listed::{GROUP_PREFIX, ListedPattern};
use super::pattern::ToolPattern;
use crate::mcp::readable::composed;
use crate::mcp::uri::{self, Unclear, Uri};
use crate::model::diagnostic::Problems;
use crate::model::ids::{NAME_SEPARATOR, ServerName};
use crate::model::side::SideDoor;
use schemars::JsonSchema;
use serde::Deserialize;

/// Who may go through one side door, as a section of a layer. `deny` is looked at first and is
/// final. An absent section says nothing; what no layer's `allow` names is closed.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SideDoor")]
pub(crate) struct SideSettings {
    /// Patterns of which one must match: `server__uri`, `server__prompt`, or servers. `*` stands
    /// for any text, also for `/`.
    pub allow: Option<Vec<String>>,
    /// Patterns of which none may match.
    pub deny: Vec<String>,
}

/// One section as run.
#[derive(Debug, Clone)]
pub(super) struct SideSection {
    pub(super) door: SideDoor,
    allow: Option<Vec<ListedPattern>>,
    deny: Vec<DenyPattern>,
}

/// A pattern of `deny`. It holds against every reading of what is wanted, so it is read in every
/// way itself.
#[derive(Debug, Clone)]
struct DenyPattern {
    listed: ListedPattern,
    /// As a server reads it that decodes first, where that differs ([`uri::loose`]).
    loose: Option<ToolPattern>,
}

/// What a caller wants to reach at a server.
#[derive(Debug, Clone)]
pub struct SideTarget {
    /// Through which door.
    pub door: SideDoor,
    /// What all must be allowed.
    whole: Vec<String>,
    /// What must all not be denied.
    parts: Vec<String>,
    pub(super) how: SideMatching,
}

/// How patterns are held against what is wanted.
#[derive(Debug, Clone)]
pub(super) enum SideMatching {
    /// Texts that patterns match.
    Text,
    /// A template in a list: some URI of it may be allowed.
    Listed(Option<ToolPattern>),
    /// A template that is completed: all URIs of it are allowed.
    Covered(Option<ToolPattern>),
    /// Anything of a server.
    Any(ServerName),
    /// It has no strict reading.
    Unclear(Unclear),
}

impl SideTarget {
    /// A resource, by its URI.
    pub fn resource(door: SideDoor, server: &ServerName, uri: &str) -> Self {
        match Uri::read(uri) {
            Ok(uri) => {
                let of =
                    |texts: Vec<String>| texts.iter().map(|text| named(server, text)).collect();
                Self {
                    door,
                    whole: of(uri.whole()),
                    parts: of(uri.parts()),
                    how: SideMatching::Text,
                }
            }
            Err(unclear) => Self {
                door,
                whole: Vec::new(),
                parts: Vec::new(),
                how: SideMatching::Unclear(unclear),
            },
        }
    }

    /// A template of resources that is listed.
    pub fn listed(server: &ServerName, template: &str) -> Self {
        Self::template(
            SideDoor::Resources,
            SideMatching::Listed(pattern_of(server, template)),
        )
    }

    /// A template of resources that is completed; a URI is one that has nothing open.
    pub fn completed(door: SideDoor, server: &ServerName, template: &str) -> Self {
        if template.contains('{') {
            return Self::template(door, SideMatching::Covered(pattern_of(server, template)));
        }
        Self::resource(door, server, template)
    }

    fn template(door: SideDoor, how: SideMatching) -> Self {
        Self {
            door,
            whole: Vec::new(),
            parts: Vec::new(),
            how,
        }
    }

    /// A prompt, by its name at its server.
    pub fn prompt(door: SideDoor, server: &ServerName, name: &str) -> Self {
        let name = named(server, name);
        Self {
            door,
            whole: vec![name.clone()],
            parts: vec![name],
            how: SideMatching::Text,
        }
    }

    /// The server, for the doors that are opened for whole servers.
    pub fn server(door: SideDoor, server: &ServerName) -> Self {
        let name = server.to_string();
        Self {
            door,
            whole: vec![name.clone()],
            parts: vec![name],
            how: SideMatching::Text,
        }
    }

    /// Anything of the server at all.
    pub fn any(door: SideDoor, server: &ServerName) -> Self {
        if door.is_of_servers() {
            return Self::server(door, server);
        }
        Self {
            door,
            whole: Vec::new(),
            parts: Vec::new(),
            how: SideMatching::Any(server.clone()),
        }
    }
}

fn named(server: &ServerName, text: &str) -> String {
    [server.as_str(), NAME_SEPARATOR, text].concat()
}

/// What URIs of a template look like; none if its own text has several readings.
fn pattern_of(server: &ServerName, template: &str) -> Option<ToolPattern> {
    let mut text = named(server, "");
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (_, after) = after.split_once('}')?;
        text.push_str(before);
        text.push('*');
        rest = after;
    }
    text.push_str(rest);
    let own = &text[server.as_str().len() + NAME_SEPARATOR.len()..];
    let is_clear = !own.contains(['\\', '%'])
        && !own
            .split(['/', '?', '#'])
            .any(|part| matches!(part, "." | ".."));
    // Where a part that is open leaves no URI to read, its letters are compared.
    let form = Uri::read_pattern(own).map_or_else(
        |_| composed(own).into_owned(),
        |read| read.as_str().to_owned(),
    );
    (is_clear && text.len() <= uri::MAX_URI_BYTES)
        .then(|| ToolPattern::of_text(&named(server, &form)))
}

impl SideSection {
    /// Compiles the section of `door`.
    pub(super) fn compile(door: SideDoor, written: &SideSettings, problems: &mut Problems) -> Self {
        let mut list = |key: &str, written: &[String]| -> Vec<ListedPattern> {
            problems.under(key, |problems| {
                let each = written.iter().enumerate().filter_map(|(index, text)| {
                    let pattern =
                        problems.under(index.to_string(), |problems| pattern(door, text, problems));
                    pattern.map(ListedPattern::own)
                });
                each.collect()
            })
        };
        let deny = list("deny", &written.deny)
            .into_iter()
            .map(|listed| DenyPattern::of(door, listed))
            .collect();
        let allow = written.allow.as_deref().map(|allow| list("allow", allow));
        Self { door, allow, deny }
    }

    pub(super) fn judge(&self, wanted: &SideTarget) -> LayerVerdict<'_> {
        if let Some(denied) = self.deny.iter().find(|denying| denying.holds(wanted)) {
            return LayerVerdict::Denied(denied.listed.shown());
        }
        let Some(allow) = &self.allow else {
            return LayerVerdict::Passed;
        };
        wanted
            .allowed_by(allow)
            .map_or(LayerVerdict::NotAllowed, |listed| {
                LayerVerdict::Allowed(listed.shown())
            })
    }
}

impl DenyPattern {
    fn of(door: SideDoor, listed: ListedPattern) -> Self {
        let is_of_uris = matches!(door, SideDoor::Resources | SideDoor::Completions);
        let loose = is_of_uris
            .then(|| uri::loose(listed.pattern().as_str()))
            .flatten();
        Self {
            loose: loose.map(|text| ToolPattern::of_text(&text)),
            listed,
        }
    }

    fn holds(&self, wanted: &SideTarget) -> bool {
        [Some(self.listed.pattern()), self.loose.as_ref()]
            .into_iter()
            .flatten()
            .any(|one| wanted.is_denied_by(one))
    }
}

impl SideTarget {
    fn is_denied_by(&self, pattern: &ToolPattern) -> bool {
        match &self.how {
            SideMatching::Text => self.parts.iter().any(|text| pattern.matches(text)),
            SideMatching::Listed(Some(template)) => template.is_within(pattern),
            SideMatching::Covered(Some(template)) => template.meets(pattern),
            SideMatching::Listed(None) | SideMatching::Covered(None) | SideMatching::Unclear(_) => {
                true
            }
            SideMatching::Any(server) => {
                ToolPattern::of_text(&named(server, "*")).is_within(pattern)
            }
        }
    }

    /// The first that allows it, if all of it is allowed.
    fn allowed_by<'l>(&self, allow: &'l [ListedPattern]) -> Option<&'l ListedPattern> {
        let find = |fits: &dyn Fn(&ToolPattern) -> bool| {
            allow.iter().find(|listed| fits(listed.pattern()))
        };
        match &self.how {
            SideMatching::Text => {
                let found: Option<Vec<_>> = self
                    .whole
                    .iter()
                    .map(|text| find(&|pattern| pattern.matches(text)))
                    .collect();
                found?.first().copied()
            }
            SideMatching::Listed(Some(template)) => find(&|pattern| template.meets(pattern)),
            SideMatching::Covered(Some(template)) => find(&|pattern| template.is_within(pattern)),
            SideMatching::Any(server) => find(&|pattern| pattern.reaches(server)),
            SideMatching::Listed(None) | SideMatching::Covered(None) | SideMatching::Unclear(_) => {
                None
            }
        }
    }
}

/// The pattern that `text` is for `door`.
pub(crate) fn pattern(door: SideDoor, text: &str, problems: &mut Problems) -> Option<ToolPattern> {
    if text.starts_with(GROUP_PREFIX) {
        problems.error(
            "groups are of tools",
            format!("write the patterns of {} themselves", door.word()),
        );
        return None;
    }
    match door {
        SideDoor::Resources => uris(text, problems),
        SideDoor::Prompts | SideDoor::Completions => {
            // A completion is of a prompt or of a template.
            if text.contains(':') {
                uris(text, problems)
            } else {
                ToolPattern::compile(text, problems)
            }
        }
        SideDoor::Sampling | SideDoor::Elicitation | SideDoor::Roots | SideDoor::Logging => {
            if text.contains(NAME_SEPARATOR) {
                problems.error(
                    format!("`{}` is opened for whole servers", door.word()),
                    format!(
                        "write `{}`",
                        text.split(NAME_SEPARATOR).next().unwrap_or_default()
                    ),
                );
                return None;
            }
            ToolPattern::compile(text, problems)
        }
    }
}

/// A pattern of URIs: it must be in the form that URIs are compared in, or it would match none.
fn uris(text: &str, problems: &mut Problems) -> Option<ToolPattern> {
    if text.trim() != text || text.is_empty() || text.len() > SIDE_PATTERN_BYTES_MAX {
        problems.error(
            format!(
                "is blank, has blanks around it, or is longer than {SIDE_PATTERN_BYTES_MAX} bytes"
            ),
            "write `server__` and a URI, such as docs__file:///srv/docs/*",
        );
        return None;
    }
    let (server, uri) = text.split_once(NAME_SEPARATOR).unwrap_or(("", text));
    // Nothing stands before the first `*` that could be written in another way.
    let is_open = uri
        .split('*')
        .next()
        .is_some_and(|head| !head.contains(':'))
        && uri.contains('*');
    let is_plain = |letter: char| {
        !letter.is_control() && !letter.is_whitespace() && !"\\{}\"'<>^`|%".contains(letter)
    };
    let read = if is_open && uri.chars().all(is_plain) {
        Ok(composed(uri).into_owned())
    } else {
        Uri::read_pattern(uri).map(|read| read.as_str().to_owned())
    };
    let written = |form: &str| {
        if server.is_empty() {
            form.to_owned()
        } else {
            [server, NAME_SEPARATOR, form].concat()
        }
    };
    match read {
        Ok(form) if form == uri => return Some(ToolPattern::of_text(text)),
        Ok(form) => problems.error(
            "is not in the form that URIs are compared in, so it would match none",
            format!("write `{}`", written(&form)),
        ),
        Err(unclear) => problems.error(
            format!("is no pattern of URIs: {unclear}"),
            "write `server__` and a URI, such as docs__file:///srv/docs/*; only `*` is special",
        ),
    }
    None
}

/// Bytes of a pattern.
const SIDE_PATTERN_BYTES_MAX: usize = 1 << 10;

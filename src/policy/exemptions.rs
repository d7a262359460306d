//! An exemption file: which calls may have been executed although they are forbidden, who answers
//! for each, and until when (003-104). No gate reads it: it explains what has happened, and permits
//! nothing.

use super::locate::{self, YamlDocument};
use super::shape;
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::model::ids::{self, ActionId, ToolName};
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// Exemptions of a file at most: each call is compared with all of them.
const MAX_EXEMPTIONS: usize = 1000;

/// Calls that were executed although they are forbidden, and who answers for them. `toolgate test
/// --replay ledger --violations --exemptions FILE` reads it; nothing is permitted by it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "toolgate exemptions", rename = "ExemptionFile")]
pub(crate) struct ExemptionFile {
    /// the exemptions, at most 1000; the first that holds explains a call
    pub exemptions: Vec<WrittenExemption>,
}

/// One exemption: of one call by its `action`, or of all calls of a `tool` that are forbidden with
/// a `code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Exemption")]
pub(crate) struct WrittenExemption {
    /// The action id of the call, as the ledger has it.
    pub action: Option<String>,
    /// The tool: `server__tool`.
    pub tool: Option<String>,
    /// The code of the refusal.
    pub code: Option<String>,
    /// who answers for it
    #[schemars(length(min = 1, max = 100))]
    pub owner: String,
    /// the last day on which it holds, in UTC, such as 2026-12-31; after that it explains nothing
    pub until: String,
    /// why the calls are explained
    #[schemars(length(min = 1, max = 500))]
    pub because: String,
}

/// One exemption.
#[derive(Debug)]
pub(crate) struct Exemption {
    /// Which calls.
    pub of: ExemptedCalls,
    /// Who answers for it.
    pub owner: String,
    /// The last day on which it holds, in UTC.
    pub until: Date,
    /// Why the calls are explained.
    pub because: String,
}

/// Which calls an exemption is of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExemptedCalls {
    /// This one.
    One(ActionId),
    /// All of the tool that are forbidden with the code.
    Like(ToolName, String),
}

/// What an exemption file says.
pub(crate) struct Exemptions {
    /// In the order of the file.
    pub all: Vec<Exemption>,
    document: YamlDocument,
}

impl Exemptions {
    /// Reads the file at `path`: everything there is to say of it, and what it says if there is no
    /// error among it.
    pub(crate) fn read(path: &Path) -> (Option<Self>, Vec<Diagnostic>) {
        let document = match YamlDocument::read(path) {
            Ok(document) => document,
            Err(unreadable) => return (None, vec![unreadable]),
        };
        let mut problems = Problems::default();
        let written = match shape::read::<ExemptionFile>(document.tree().clone(), &mut problems) {
            Some(file) => file.exemptions.into_iter().enumerate().collect(),
            // The shape is wrong; what else is wrong is said as well.
            None => rest(document.tree()),
        };
        let all = problems.under("exemptions", |problems| judge(written, problems));
        let found = problems.into_found().into_iter();
        let mut found: Vec<Diagnostic> = found.map(|problem| document.locate(problem)).collect();
        found.extend(locate::too_open(path));
        let usable = found
            .iter()
            .all(|problem| problem.severity != Severity::Error);
        (usable.then_some(Self { all, document }), found)
    }

    /// A warning about the exemption at `index`, or about its `key`.
    pub(crate) fn about(
        &self,
        index: usize,
        key: Option<&str>,
        message: &str,
        hint: &str,
    ) -> Diagnostic {
        let steps = ["exemptions", &index.to_string()]
            .map(str::to_owned)
            .into_iter();
        let path = steps.chain(key.map(str::to_owned)).collect();
        let (message, hint) = (message.to_owned(), Some(hint.to_owned()));
        self.document.locate(Problem {
            part: None,
            severity: Severity::Warning,
            path,
            message,
            hint,
        })
    }
}

impl Exemption {
    /// Is it of the call `action` of `tool`, which is forbidden with `code`?
    pub(crate) fn fits(&self, action: &str, tool: &str, code: &str) -> bool {
        match &self.of {
            ExemptedCalls::One(wanted) => action.parse() == Ok(*wanted),
            ExemptedCalls::Like(wanted, refused) => wanted.as_str() == tool && refused == code,
        }
    }

    /// Was its last day before `today`?
    pub(crate) fn has_expired(&self, today: Date) -> bool {
        self.until < today
    }
}

/// What is left of a file whose shape is wrong, with the places in the file.
fn rest(tree: &Value) -> Vec<(usize, WrittenExemption)> {
    let listed = tree["exemptions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate();
    listed
        .filter_map(|(index, written)| Some((index, serde_json::from_value(written.clone()).ok()?)))
        .collect()
}

fn judge(written: Vec<(usize, WrittenExemption)>, problems: &mut Problems) -> Vec<Exemption> {
    if written.len() > MAX_EXEMPTIONS {
        problems.error(
            format!("more than {MAX_EXEMPTIONS} exemptions"),
            "name a tool and a code for calls that are alike",
        );
        return Vec::new();
    }
    let mut all: Vec<Exemption> = Vec::new();
    for (index, written) in written {
        problems.under(index.to_string(), |problems| {
            let Some(exemption) = read(written, problems) else {
                return;
            };
            if all.iter().any(|other| other.of == exemption.of) {
                problems.warning("these calls are exempted before", "keep one of them");
            }
            all.push(exemption);
        });
    }
    all
}

fn read(written: WrittenExemption, problems: &mut Problems) -> Option<Exemption> {
    let WrittenExemption {
        action,
        tool,
        code,
        owner,
        until,
        because,
    } = written;
    for (key, text) in [("owner", &owner), ("because", &because)] {
        if text.trim().is_empty() {
            problems.under(key, |problems| {
                problems.error("is blank", "say who answers for it, and why");
            });
        }
    }
    let until = problems.under("until", |problems| day(&until, problems));
    let of = match (action, tool, code) {
        (Some(action), None, None) => problems.under("action", |problems| one(&action, problems)),
        (None, Some(tool), Some(code)) => {
            problems.under("tool", |problems| like(&tool, code, problems))
        }
        _ => {
            problems.error(
                "says not which calls",
                "name one by its `action`, or those alike by `tool` and `code`",
            );
            None
        }
    };
    Some(Exemption {
        of: of?,
        owner,
        until: until?,
        because,
    })
}

fn one(action: &str, problems: &mut Problems) -> Option<ExemptedCalls> {
    let read = action.parse().ok().map(ExemptedCalls::One);
    if read.is_none() {
        problems.error(
            "is no action id",
            "write it as `toolgate ledger list` shows it, whole",
        );
    }
    read
}

fn like(tool: &str, code: String, problems: &mut Problems) -> Option<ExemptedCalls> {
    if !ids::parts(tool).is_some_and(|(server, own)| !server.is_empty() && !own.is_empty())
        || tool.contains('*')
    {
        problems.error(
            format!("`{tool}` is no name of one tool"),
            "name it `server__tool`",
        );
        return None;
    }
    Some(ExemptedCalls::Like(ToolName::new(tool), code))
}

/// RFC 3339 `full-date`, and nothing else that a date may be written as.
fn day(text: &str, problems: &mut Problems) -> Option<Date> {
    let read = text
        .parse()
        .ok()
        .filter(|date: &Date| date.to_string() == text);
    if read.is_none() {
        problems.error(
            "is no day",
            "write the last day on which it holds, such as 2026-12-31",
        );
    }
    read
}

#[cfg(test)]
mod tests {
    use super::{ActionId, ExemptedCalls, Exemption, ToolName};
    use jiff::civil::date;

    /// 003-104: an exemption holds to the end of its last day, and is of the calls it names and of
    /// no other.
    #[test]
    fn an_exemption_is_of_its_calls_until_its_day_is_over() {
        let (action, other) = (ActionId::generate(), ActionId::generate());
        let of = |of: ExemptedCalls| Exemption {
            of,
            owner: "ann".to_owned(),
            until: date(2026, 12, 31),
            because: "a trial".to_owned(),
        };
        let one = of(ExemptedCalls::One(action));
        for (today, expired) in [
            (date(2026, 12, 30), false),
            (date(2026, 12, 31), false),
            (date(2027, 1, 1), true),
        ] {
            assert_eq!(one.has_expired(today), expired, "{today}");
        }
        let like = of(ExemptedCalls::Like(
            ToolName::new("bank__pay"),
            "too_much".to_owned(),
        ));
        let (action, other) = (action.to_string(), other.to_string());
        for (id, tool, code, fits_one, fits_like) in [
            (&*action, "bank__pay", "too_much", true, true),
            (&action, "bank__look", "rbac_denied", true, false),
            (&other, "bank__pay", "too_much", false, true),
            (&other, "bank__pay", "rbac_denied", false, false),
            (&other, "bank__pay_all", "too_much", false, false),
            (&action[..8], "bank__look", "too_much", false, false),
        ] {
            assert_eq!(
                (one.fits(id, tool, code), like.fits(id, tool, code)),
                (fits_one, fits_like),
                "{id} {tool} {code}"
            );
        }
    }
}

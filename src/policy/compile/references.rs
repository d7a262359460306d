//! Do the tools that a contract names to go with its own exist, and can they do what they are named
//! for? Known once the contracts of all files are.

use crate::guards::allowlist::Contracts;
use crate::guards::{ToolRules, confirms, idempotency};
use crate::model::diagnostic::{Diagnostic, Problems, Severity};
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::spelling::nearest;
use crate::policy::file::{Contract, SideEffect};
use crate::policy::locate::YamlDocument;

/// A tool that a contract names.
pub(super) struct ToolReference {
    of: ToolName,
    tool: ToolName,
    role: ReferenceRole,
    place: Diagnostic,
}

/// What for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceRole {
    /// It takes a call back (003-64).
    Rollback,
    /// It makes what a call confirms (003-P4d).
    Draft,
    /// It finds out what became of a call: it must change nothing itself (guarantees §4).
    Probe,
}

impl ReferenceRole {
    /// Where it stands in a contract.
    fn path(self) -> &'static [&'static str] {
        match self {
            Self::Rollback => &["side_effect", "rollback", "tool"],
            Self::Draft => &["confirms", "tool"],
            Self::Probe => &["idempotency", "probe", "tool"],
        }
    }

    /// What is wrong with `rules`, those of the tool, and what to do.
    fn judge(self, tool: &ToolName, rules: Option<&ToolRules>) -> Option<(String, &'static str)> {
        let changes = self != Self::Probe;
        let hint = match self {
            Self::Rollback => {
                "name a tool of the same server that changes something, and write its contract"
            }
            Self::Draft => {
                "name the tool of the same server that makes the draft, and write its contract"
            }
            Self::Probe => "name a tool whose contract has `actions: [read]`",
        };
        match rules {
            None => Some((format!("`{tool}` has no contract"), hint)),
            Some(rules) if rules.side_effect == changes => None,
            Some(_) if changes => Some((format!("`{tool}` changes nothing"), hint)),
            Some(_) => Some((format!("`{tool}` changes something"), hint)),
        }
    }
}

/// The tools that `contract` and its variants name.
pub(super) fn references_in(
    document: &YamlDocument,
    name: &str,
    contract: &Contract,
) -> Vec<ToolReference> {
    let whole = ReferencingSections {
        case: None,
        side_effect: contract.side_effect.as_ref(),
        confirms: contract.confirms.as_ref(),
        idempotency: contract.idempotency.as_ref(),
    };
    let cases = contract
        .variants
        .iter()
        .flat_map(|variants| &variants.cases)
        .map(|(case, said)| ReferencingSections {
            case: Some(case),
            side_effect: said.side_effect.as_ref(),
            confirms: said.confirms.as_ref(),
            idempotency: said.idempotency.as_ref(),
        });
    let mut named = Vec::new();
    for sections in std::iter::once(whole).chain(cases) {
        for (role, tool) in sections.named() {
            named.push(ToolReference {
                of: ToolName::new(name),
                tool: ToolName::new(tool),
                role,
                place: place(document, name, sections.case, role),
            });
        }
    }
    named
}

/// The sections of a contract, or of one case of it, that name tools.
struct ReferencingSections<'a> {
    case: Option<&'a str>,
    side_effect: Option<&'a SideEffect>,
    confirms: Option<&'a confirms::Settings>,
    idempotency: Option<&'a idempotency::Settings>,
}

impl<'a> ReferencingSections<'a> {
    fn named(&self) -> impl Iterator<Item = (ReferenceRole, &'a str)> + use<'a> {
        let rollback = self
            .side_effect
            .and_then(|effect| effect.rollback.as_ref()?.tool.as_deref())
            // Told of where the contract was compiled.
            .filter(|tool| !tool.contains('*'));
        let draft = self.confirms.map(|confirms| &*confirms.tool);
        let probe = self
            .idempotency
            .and_then(|idempotency| idempotency.probe.as_ref())
            .map(|probe| &*probe.tool);
        [
            (ReferenceRole::Rollback, rollback),
            (ReferenceRole::Draft, draft),
            (ReferenceRole::Probe, probe),
        ]
        .into_iter()
        .filter_map(|(role, tool)| Some((role, tool?)))
    }
}

fn place(
    document: &YamlDocument,
    name: &str,
    case: Option<&str>,
    role: ReferenceRole,
) -> Diagnostic {
    let around: Vec<&str> = case
        .into_iter()
        .flat_map(|case| ["variants", "cases", case])
        .collect();
    let path: Vec<&str> = ["contracts", name]
        .into_iter()
        .chain(around)
        .chain(role.path().iter().copied())
        .collect();
    let mut problems = Problems::default();
    note_at(&path, &mut problems);
    document.locate(problems.into_found().remove(0))
}

fn note_at(path: &[&str], problems: &mut Problems) {
    match path.split_first() {
        Some((first, rest)) => problems.under(*first, |problems| note_at(rest, problems)),
        None => problems.error("", ""),
    }
}

/// The tool with a contract that a contract of `of` may have meant by `tool`.
fn meant(tool: &ToolName, of: &ToolName, names: &[ToolName]) -> Option<ToolName> {
    let (server, own) = ids::parts(tool.as_str())?;
    let others = names.iter().filter(|name| *name != of);
    let others = others.filter_map(|name| ids::parts(name.as_str()));
    let others: Vec<String> = others
        .filter(|(home, _)| *home == server)
        .map(|(_, own)| own.to_owned())
        .collect();
    let near = nearest(own, &others)?;
    Some(ToolName::of(&ServerName::new(server), near))
}

/// Judges what was named; `contracts` are those of all files.
pub(super) fn judge(
    references: Vec<ToolReference>,
    servers: &[ServerName],
    contracts: &Contracts,
    is_complete: bool,
) -> Vec<Diagnostic> {
    let names: Vec<ToolName> = contracts.named().map(|(name, _)| name.clone()).collect();
    let server = |name: &ToolName| ids::server_of(name.as_str(), servers);
    let wrong = |reference: ToolReference| {
        let ToolReference {
            of,
            tool,
            role,
            place,
        } = reference;
        let found = match server(&tool) {
            // Said where the contract was compiled.
            None if role == ReferenceRole::Rollback => None,
            home if role != ReferenceRole::Probe && home != server(&of) => Some((
                format!("`{tool}` is a tool of another server"),
                "name a tool of the same server",
            )),
            // What writes a state can write the one before.
            _ if tool == of && role != ReferenceRole::Rollback => Some((
                format!("`{tool}` is the tool itself"),
                "name another tool of the same server",
            )),
            // Its contract may stand where nothing could be read.
            _ if !is_complete
                && contracts.get(&tool).is_none()
                && meant(&tool, &of, &names).is_none() =>
            {
                None
            }
            _ => role.judge(&tool, contracts.get(&tool).map(|rules| &**rules)),
        };
        let meant = contracts
            .get(&tool)
            .is_none()
            .then(|| meant(&tool, &of, &names));
        found.map(|(message, hint)| Diagnostic {
            severity: Severity::Error,
            message,
            hint: Some(match meant.flatten() {
                Some(near) => format!("did you mean `{near}`? If not, {hint}"),
                None => hint.to_owned(),
            }),
            ..place
        })
    };
    references.into_iter().filter_map(wrong).collect()
}

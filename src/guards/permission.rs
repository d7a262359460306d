//! Refuses a call that its caller may not make: role, then tenant, then resource.
//!
//! After arguments, so that the pointers lead to values of a known shape; before rules, so that who
//! may not call at all learns nothing about the contract's values.

use super::Section;
use super::evidence::{Checked, Permit};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::TenantId;
use crate::model::pointer::{at, is_pointer, steps};
use crate::model::refusal::{Refusal, RefusalCode, RefusalFacts, RefusalKind};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;

mod grounds;
mod reach;

use reach::ReachPattern;

/// What a contract writes where every caller may who sees the tool.
pub(crate) const ANYONE_WORD: &str = "anyone";

/// Who may call the tool, and on what: limits, or the word `anyone`. Said of everything that
/// changes something, so that a forgotten line opens nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenPermission")]
pub(crate) struct Settings {
    /// A word in place of limits.
    word: Option<String>,
    /// All of them must hold.
    limits: PermissionLimits,
    /// What must hold besides: the contract's own, for a variant of it.
    besides: Option<Box<Self>>,
}

/// As the section is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenPermission {
    Word(String),
    Limits(PermissionLimits),
}

/// Who may call the tool, and on what.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct PermissionLimits {
    /// The caller needs one of these; empty: none.
    roles: Vec<String>,
    /// JSON pointer to the argument that must equal the caller's tenant.
    tenant: Option<String>,
    /// The argument that names what the call works on.
    resource: Option<Resource>,
}

/// Which resources are within the caller's reach.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resource {
    /// JSON pointer to the argument: text, or a list of texts that must all be within reach.
    pub pointer: String,
    /// Patterns of which one must match: `*` stands for any text, `{tenant}`, `{user}` and
    /// `{agent}` for the caller's.
    pub allow: Vec<String>,
}

/// As run: all of it must hold. The default allows every caller.
#[derive(Debug, Default)]
pub struct Rule {
    /// Of each list the caller needs one.
    roles: Vec<Vec<String>>,
    tenants: Vec<String>,
    resources: Vec<(String, Vec<ReachPattern>)>,
}

pub(super) const RBAC_DENIED: RefusalCode = RefusalCode {
    code: "rbac_denied",
    meaning: "the caller has none of the roles that the contract asks for",
    remedy: "ask an operator for one of the roles, or use another tool",
    kind: RefusalKind::Violation,
};

/// 003-22: the caller has none of the roles of which one is needed.
pub(super) fn rbac_denied(needed: &[String]) -> Refusal {
    let needed = needed.join(", ");
    let facts = RefusalFacts::new(
        &RBAC_DENIED,
        format!("the caller needs one of the roles: {needed}"),
        "Ask an operator for the role, or use another tool.",
    );
    facts.into()
}

pub(super) const TENANT_MISMATCH: RefusalCode = RefusalCode {
    code: "tenant_mismatch",
    meaning: "the call names another tenant than the caller's",
    remedy: "use the caller's own tenant",
    kind: RefusalKind::Violation,
};

/// 003-23: the argument at `pointer` is another tenant than the caller's `own`.
pub(super) fn tenant_mismatch(pointer: &str, own: Option<&TenantId>) -> Refusal {
    let (expected, then) = match own {
        Some(own) => (
            format!(
                "expected the caller's own tenant, `{}`",
                shown(own.as_str())
            ),
            "Call again with the caller's own tenant.",
        ),
        None => (
            "expected the caller's own tenant, and the caller has none".to_owned(),
            "Ask an operator for a tenant, or use another tool.",
        ),
    };
    let facts = RefusalFacts {
        pointer: Some(pointer.to_owned()),
        ..RefusalFacts::new(&TENANT_MISMATCH, expected, then)
    };
    facts.into()
}

pub(super) const RESOURCE_DENIED: RefusalCode = RefusalCode {
    code: "resource_denied",
    meaning: "the call names a resource outside the caller's reach",
    remedy: "use a resource of the caller's own",
    kind: RefusalKind::Violation,
};

/// Patterns that a refusal names at most, and characters of each.
const MAX_PATTERNS_NAMED: usize = 4;
const MAX_PATTERN_CHARS: usize = 100;

/// 003-100: the argument at `pointer` is outside the caller's reach, which is what matches one of
/// the patterns `within` it: those that mean something for this caller, with its own names.
pub(super) fn resource_denied(pointer: &str, within: &[String]) -> Refusal {
    let named: Vec<String> = within
        .iter()
        .take(MAX_PATTERNS_NAMED)
        .map(|pattern| format!("`{}`", shown(pattern)))
        .collect();
    let more = within.len().saturating_sub(MAX_PATTERNS_NAMED);
    let more = if more > 0 {
        format!(", or {more} more")
    } else {
        String::new()
    };
    let (expected, then) = if named.is_empty() {
        (
            "expected a resource of the caller's own, and it has none here".to_owned(),
            "Ask an operator what this caller may reach, or use another tool.",
        )
    } else {
        (
            format!(
                "expected a resource of the caller's own: {}{more}",
                named.join(" or ")
            ),
            "Call again with one of those; `*` is any text.",
        )
    };
    let facts = RefusalFacts {
        pointer: Some(pointer.to_owned()),
        ..RefusalFacts::new(&RESOURCE_DENIED, expected, then)
    };
    facts.into()
}

/// A name or a pattern as a refusal has it.
fn shown(text: &str) -> String {
    let mut letters = text.chars();
    let head: String = letters.by_ref().take(MAX_PATTERN_CHARS).collect();
    let tail = letters.next().map_or("", |_| "…");
    format!("{}{tail}", head.escape_debug())
}

// === impl Settings ===

impl From<WrittenPermission> for Settings {
    fn from(written: WrittenPermission) -> Self {
        match written {
            WrittenPermission::Word(word) => Self {
                word: Some(word),
                ..Self::default()
            },
            WrittenPermission::Limits(limits) => Self {
                limits,
                ..Self::default()
            },
        }
    }
}

/// Limits or a word: both as one type, so that what is wrong with either is told by itself.
impl JsonSchema for Settings {
    fn schema_name() -> Cow<'static, str> {
        "Permission".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        let mut schema = PermissionLimits::json_schema(generator);
        schema.insert("type".to_owned(), json!(["object", "string"]));
        let description = "Who may call the tool, and on what; or `anyone`.";
        schema.insert("description".to_owned(), json!(description));
        schema
    }
}

impl Settings {
    /// The roles that it asks for itself: those of the contract around a variant are the contract's.
    pub(crate) fn roles(&self) -> &[String] {
        &self.limits.roles
    }

    /// Does it say who may call? Without a limit and without the word, nothing is said.
    pub(crate) fn says_who(&self) -> bool {
        let besides = self.besides.as_ref();
        self.word.is_some() || !self.is_open() || besides.is_some_and(|other| other.says_who())
    }

    /// May every caller call, whatever it is about?
    pub(crate) fn is_open(&self) -> bool {
        let besides = self.besides.as_ref();
        self.limits == PermissionLimits::default() && besides.is_none_or(|other| other.is_open())
    }

    /// The same where `contract` must hold besides.
    #[must_use]
    pub(crate) fn within(self, contract: &Self) -> Self {
        Self {
            besides: Some(Box::new(contract.clone())),
            ..self
        }
    }
}

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "permission";

    fn compile(self, problems: &mut Problems) -> Rule {
        let Self {
            word,
            limits,
            besides,
        } = self;
        let PermissionLimits {
            roles,
            tenant,
            resource,
        } = limits;
        if let Some(word) = word.filter(|word| word != ANYONE_WORD) {
            let hint =
                format!("write `{ANYONE_WORD}`, or `roles`, a `tenant` or a `resource` below it");
            problems.error(format!("`{word}` does not say who may call"), hint);
        }
        if roles.iter().any(String::is_empty) {
            problems.under("roles", |problems| {
                problems.error("a role without a name", "remove it or name the role");
            });
        }
        if let Some(tenant) = &tenant {
            problems.under("tenant", |problems| pointer(tenant, problems));
        }
        let resource = resource
            .map(|resource| problems.under("resource", |problems| compile(resource, problems)));
        let mut rule = besides
            .map(|besides| besides.compile(problems))
            .unwrap_or_default();
        rule.roles.extend((!roles.is_empty()).then_some(roles));
        rule.tenants.extend(tenant);
        rule.resources.extend(resource);
        rule
    }
}

fn compile(resource: Resource, problems: &mut Problems) -> (String, Vec<ReachPattern>) {
    let Resource {
        pointer: place,
        allow,
    } = resource;
    problems.under("pointer", |problems| pointer(&place, problems));
    let patterns = problems.under("allow", |problems| {
        if allow.is_empty() {
            problems.error(
                "no pattern, so that no call is ever allowed",
                "list the resources, such as `{tenant}/*`",
            );
        }
        let compile = |(index, pattern): (usize, &String)| {
            problems.under(index.to_string(), |problems| {
                ReachPattern::compile(pattern, problems)
            })
        };
        allow.iter().enumerate().filter_map(compile).collect()
    });
    (place, patterns)
}

fn pointer(pointer: &str, problems: &mut Problems) {
    if !is_pointer(pointer) {
        problems.error(
            "not a JSON pointer to an argument",
            "write `/` and the argument's name, such as `/tenant_id`",
        );
    }
}

// === impl Rule ===

impl Rule {
    /// The pointers to arguments that are judged, each with its key in the contract.
    pub fn pointers(&self) -> impl Iterator<Item = (&'static [&'static str], &str)> {
        let tenants = self
            .tenants
            .iter()
            .map(|pointer| (&["tenant"][..], pointer.as_str()));
        tenants.chain(
            self.resources
                .iter()
                .map(|(pointer, _)| (&["resource", "pointer"][..], pointer.as_str())),
        )
    }

    /// The arguments that are judged, as paths from the root.
    pub fn reads(&self) -> Vec<Vec<String>> {
        self.pointers().map(|(_, pointer)| steps(pointer)).collect()
    }

    /// What it can refuse with.
    pub fn codes(&self) -> impl Iterator<Item = &'static str> {
        let roles = (!self.roles.is_empty()).then_some(RBAC_DENIED.code);
        let tenant = (!self.tenants.is_empty()).then_some(TENANT_MISMATCH.code);
        let resource = (!self.resources.is_empty()).then_some(RESOURCE_DENIED.code);
        [roles, tenant, resource].into_iter().flatten()
    }

    /// Refuses `caller` whatever the call is on; none: that depends.
    pub fn refuses(&self, caller: &Caller) -> Option<Refusal> {
        let lacks = |needed: &&Vec<String>| !needed.iter().any(|role| caller.roles.contains(role));
        self.roles
            .iter()
            .find(lacks)
            .map(|needed| rbac_denied(needed))
    }

    /// Judges who calls, and on what.
    pub fn allow(
        &self,
        caller: &Caller,
        arguments: &Value,
        checked: &Checked,
    ) -> Result<Permit, Refusal> {
        if let Some(refusal) = self.refuses(caller) {
            return Err(refusal);
        }
        for pointer in &self.tenants {
            let named = at(arguments, pointer).and_then(Value::as_str);
            if named.is_none() || named != caller.tenant.as_ref().map(TenantId::as_str) {
                return Err(tenant_mismatch(pointer, caller.tenant.as_ref()));
            }
        }
        for (pointer, patterns) in &self.resources {
            let within = |text: &str| patterns.iter().any(|pattern| pattern.matches(text, caller));
            let allowed = match at(arguments, pointer) {
                Some(Value::String(text)) => within(text),
                Some(Value::Array(all)) => {
                    !all.is_empty() && all.iter().all(|one| one.as_str().is_some_and(&within))
                }
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                    false
                }
            };
            if !allowed {
                let meant = patterns.iter().filter_map(|one| one.meant_for(caller));
                return Err(resource_denied(pointer, &meant.collect::<Vec<_>>()));
            }
        }
        Ok(Permit::mint(checked))
    }
}

#[cfg(test)]
mod tests;

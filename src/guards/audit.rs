//! Says what the ledger keeps of a call besides hashes: named arguments in its entry, or arguments
//! and result in records of their own (003-53, 003-71).
//!
//! Refuses nothing. Values of secrets are in none of it: they are put in place of their references
//! after the arguments were kept.

use super::Section;
use crate::model::content::ContentForm;
use crate::model::diagnostic::Problems;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What the ledger keeps of a call: `full`, `redacted` or `digest`, or top-level arguments by name
/// that stand in the entry as they were sent.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenAudit")]
pub(crate) struct Settings {
    /// In which form arguments and result are kept.
    form: Option<String>,
    /// Arguments that are kept as sent.
    plain: Vec<String>,
    /// The section is there.
    is_written: bool,
}

/// As the section is written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Audit")]
enum WrittenAudit {
    /// `full`: arguments and result as they were; `redacted`: their shape without texts and numbers;
    /// `digest`: hashes.
    Form(String),
    /// Arguments that the ledger keeps as sent, and hashes of the rest.
    Plain(Vec<String>),
    Both(AuditParts),
}

/// A form, and arguments that are kept as sent whatever the form.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditParts {
    /// `full`, `redacted` or `digest`
    keep: String,
    /// Arguments that the ledger keeps as sent.
    #[serde(default)]
    plain: Vec<String>,
}

/// As run. The default keeps hashes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rule {
    /// In which form arguments and result are kept.
    pub form: ContentForm,
    /// Top-level arguments that stand in the entry as they were sent.
    pub plain: Vec<String>,
    /// Whether the contract says it; else what is only observed may be kept in another form.
    pub is_said: bool,
}

const FORMS: [ContentForm; 3] = [
    ContentForm::Full,
    ContentForm::Redacted,
    ContentForm::Digest,
];

// === impl Settings ===

impl From<WrittenAudit> for Settings {
    fn from(written: WrittenAudit) -> Self {
        let (form, plain) = match written {
            WrittenAudit::Form(form) => (Some(form), Vec::new()),
            WrittenAudit::Plain(plain) => (None, plain),
            WrittenAudit::Both(AuditParts { keep, plain }) => (Some(keep), plain),
        };
        Self {
            form,
            plain,
            is_written: true,
        }
    }
}

impl JsonSchema for Settings {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        WrittenAudit::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        WrittenAudit::json_schema(generator)
    }
}

impl Settings {
    /// The arguments that are named.
    pub(crate) fn plain(&self) -> &[String] {
        &self.plain
    }
}

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "audit";

    fn compile(self, problems: &mut Problems) -> Rule {
        let form = match self.form.as_deref() {
            None => ContentForm::default(),
            Some(word) => FORMS
                .into_iter()
                .find(|form| form.word() == word)
                .unwrap_or_else(|| {
                    let hint = "write `full`, `redacted` or `digest`, or a list of arguments";
                    problems.error(format!("there is no form `{}`", word.escape_debug()), hint);
                    ContentForm::default()
                }),
        };
        Rule {
            form,
            plain: self.plain,
            is_said: self.is_written,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// What no contract says: all of a call in this form.
    pub fn unsaid(form: ContentForm) -> Self {
        Self {
            form,
            ..Self::default()
        }
    }

    /// The named arguments, as sent.
    pub fn named(&self, arguments: &Value) -> Map<String, Value> {
        self.plain
            .iter()
            .filter_map(|name| Some((name.clone(), arguments.get(name)?.clone())))
            .collect()
    }

    /// `content` in the form in which it is kept; none where only its hash is.
    pub fn kept(&self, content: &Value) -> Option<Value> {
        match self.form {
            ContentForm::Digest => None,
            ContentForm::Full => Some(content.clone()),
            ContentForm::Redacted => Some(self.redacted(content)),
        }
    }

    /// The shape of `content`, with the named members as they are.
    fn redacted(&self, content: &Value) -> Value {
        let Value::Object(members) = content else {
            return shape(content);
        };
        let member = |(name, value): (&String, &Value)| {
            let value = if self.plain.contains(name) {
                value.clone()
            } else {
                shape(value)
            };
            (name.clone(), value)
        };
        Value::Object(members.iter().map(member).collect())
    }

    /// Whether anything is kept besides the entry.
    pub fn keeps_contents(&self) -> bool {
        self.form != ContentForm::Digest
    }

    /// In words, for `explain`; none where hashes alone are kept.
    pub fn describe(&self) -> Option<String> {
        let form = self
            .keeps_contents()
            .then(|| format!("arguments and result, {}", self.form.word()));
        let plain = (!self.plain.is_empty()).then(|| self.plain.join(", "));
        let parts: Vec<String> = form.into_iter().chain(plain).collect();
        (!parts.is_empty()).then(|| parts.join("; as sent: "))
    }
}

/// Names, `true`, `false` and `null` stay; a text or a number becomes a word for what it is. The
/// strict reader has bounded how deep it is.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(_) => "[number]".into(),
        Value::String(text) => format!("[text, {} bytes]", text.len()).into(),
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), shape(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(written: Value) -> (Rule, usize) {
        let settings: Settings = serde_json::from_value(written).unwrap();
        let mut problems = Problems::default();
        let rule = settings.compile(&mut problems);
        (rule, problems.into_found().len())
    }

    /// 003-53: each way to write it, and what is kept then.
    #[test]
    fn each_form_keeps_what_it_says() {
        let sent = json!({ "id": "c-7", "amount": 12.5, "deep": { "list": ["abc", null, true] } });
        let redacted = json!({ "id": "[text, 3 bytes]", "amount": "[number]",
            "deep": { "list": ["[text, 3 bytes]", null, true] } });
        let mut named = redacted.clone();
        named["id"] = json!("c-7");
        for (written, kept, plain) in [
            (json!([]), None, json!({})),
            (json!("digest"), None, json!({})),
            (json!(["id"]), None, json!({ "id": "c-7" })),
            (json!("full"), Some(sent.clone()), json!({})),
            (json!("redacted"), Some(redacted), json!({})),
            (
                json!({ "keep": "redacted", "plain": ["id", "none"] }),
                Some(named),
                json!({ "id": "c-7" }),
            ),
        ] {
            let (rule, problems) = rule(written.clone());
            assert_eq!(problems, 0, "{written}");
            assert_eq!(rule.kept(&sent), kept, "{written}");
            assert_eq!(Value::Object(rule.named(&sent)), plain, "{written}");
        }
        assert_eq!(rule(json!("fulll")).1, 1);
    }
}

//! Refuses a call whose arguments choose none of a contract's variants; for every other call, says
//! which contract counts.
//!
//! With the arguments, before permission: what a call needs depends on what it asks a tool with
//! several uses to do (002-32). The refusal itself is [`super::arguments`]'s, in its turn.

use super::ToolRules;
use crate::model::pointer::{at, steps};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The variants of a contract, as run.
#[derive(Debug)]
pub struct Rule {
    by: String,
    absent: Option<String>,
    cases: BTreeMap<String, Arc<ToolRules>>,
}

impl Rule {
    /// By the argument that the JSON pointer `by` leads to; `absent`: the case of calls without it.
    pub fn new(
        by: String,
        absent: Option<String>,
        cases: BTreeMap<String, Arc<ToolRules>>,
    ) -> Self {
        Self { by, absent, cases }
    }

    /// The case that these arguments choose. Text chooses the case of that name, `true` and `false`
    /// those of theirs. The text "true" chooses none: a tool server may read it as either.
    pub fn choose(&self, arguments: &Value) -> Option<&Arc<ToolRules>> {
        match at(arguments, &self.by) {
            None => self.cases.get(self.absent.as_ref()?),
            Some(Value::Bool(flag)) => self.cases.get(if *flag { "true" } else { "false" }),
            Some(Value::String(text)) if !matches!(&**text, "true" | "false") => {
                self.cases.get(text)
            }
            Some(
                Value::String(_)
                | Value::Null
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_),
            ) => None,
        }
    }

    /// JSON pointer to the argument that chooses.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The argument that chooses, as a path from the root.
    pub fn path(&self) -> Vec<String> {
        steps(&self.by)
    }

    /// Is `case` that of calls without the argument?
    pub fn is_absent(&self, case: &str) -> bool {
        self.absent.as_deref() == Some(case)
    }

    /// The cases by name.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &Arc<ToolRules>)> {
        self.cases
            .iter()
            .map(|(name, rules)| (name.as_str(), rules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 002-32: only what is spelt like a case chooses it.
    #[test]
    fn only_what_is_spelt_like_a_case_chooses_it() {
        let cases = ["list", "delete", "true", "false"].map(|name| {
            let rules = ToolRules {
                purpose: name.to_owned(),
                ..ToolRules::default()
            };
            (name.to_owned(), Arc::new(rules))
        });
        let rule = |absent: Option<&str>| {
            Rule::new(
                "/do/what".into(),
                absent.map(str::to_owned),
                cases.clone().into(),
            )
        };
        let chosen = |absent: Option<&str>, what: Value| {
            rule(absent)
                .choose(&json!({ "do": { "what": what } }))
                .map(|rules| rules.purpose.clone())
        };
        for (what, expected) in [
            (json!("delete"), Some("delete")),
            (json!("Delete"), None),
            (json!("delete "), None),
            (json!(true), Some("true")),
            (json!("true"), None),
            (json!(1), None),
            (json!(null), None),
            (json!(["delete"]), None),
        ] {
            assert_eq!(chosen(None, what.clone()).as_deref(), expected, "{what}");
            assert_eq!(
                chosen(Some("list"), what.clone()).as_deref(),
                expected,
                "{what}: absent is not unknown"
            );
        }
        let without = json!({ "do": {} });
        assert!(rule(None).choose(&without).is_none());
        assert_eq!(rule(Some("list")).choose(&without).unwrap().purpose, "list");
    }
}

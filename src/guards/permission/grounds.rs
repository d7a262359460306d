//! What a call names and what its permission rests on, in words for the record; never for agents.

use super::{ANYONE_WORD, Rule};
use crate::model::caller::Caller;
use crate::model::pointer::at;
use serde_json::Value;

/// Resources of one call that are named.
const MAX_RESOURCES_NAMED: usize = 16;
/// Characters of one that are kept.
const MAX_RESOURCE_CHARS: usize = 256;

impl Rule {
    /// The resources that the call names, also one that is refused.
    pub(crate) fn named(&self, arguments: &Value) -> Vec<String> {
        let mut named: Vec<String> = Vec::new();
        for (pointer, _) in &self.resources {
            for text in texts(at(arguments, pointer)) {
                let kept: String = text.chars().take(MAX_RESOURCE_CHARS).collect();
                if named.len() < MAX_RESOURCES_NAMED && !named.contains(&kept) {
                    named.push(kept);
                }
            }
        }
        named
    }

    /// On what it rests that `caller` may call with these arguments.
    pub(crate) fn grounds(&self, caller: &Caller, arguments: &Value) -> Vec<String> {
        let held = |needed: &Vec<String>| {
            let role = needed.iter().find(|role| caller.roles.contains(role));
            role.map(|role| ["role ", role].concat())
        };
        let mut grounds: Vec<String> = self.roles.iter().filter_map(held).collect();
        let tenant = caller.tenant.as_ref().filter(|_| !self.tenants.is_empty());
        grounds.extend(tenant.map(|tenant| format!("tenant {tenant}")));
        for (pointer, patterns) in &self.resources {
            for text in texts(at(arguments, pointer)).take(MAX_RESOURCES_NAMED) {
                let pattern = patterns
                    .iter()
                    .find(|pattern| pattern.matches(text, caller));
                let ground = pattern.map(|pattern| format!("resource {}", pattern.written()));
                grounds.extend(ground.filter(|ground| !grounds.contains(ground)));
            }
        }
        if grounds.is_empty() {
            grounds.push(ANYONE_WORD.to_owned());
        }
        grounds
    }
}

/// The text that stands there, or those of the list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice);
    let one = value.and_then(Value::as_str);
    let all = list.unwrap_or_default().iter().filter_map(Value::as_str);
    one.into_iter().chain(all)
}

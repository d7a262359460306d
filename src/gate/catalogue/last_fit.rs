//! Whether a tool can be held to its contract: found once for both, and not call by call, because a
//! server's schema may take long to compare.

use crate::guards::{RequiredArgument, ToolRules};
use crate::schema::Schema;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// What was found of the contract that was asked for last.
#[derive(Debug, Default)]
pub struct LastFit(Mutex<Option<FoundFit>>);

#[derive(Debug)]
struct FoundFit {
    /// Held, so that no other contract comes to stand where it stood.
    rules: Weak<ToolRules>,
    /// Which of its needs the tool lacks, the first of them.
    lacking: Option<usize>,
}

impl LastFit {
    /// As [`ToolRules::lacks`], for a tool whose schema never changes.
    pub(in crate::gate) fn lacks<'r>(
        &self,
        rules: &'r Arc<ToolRules>,
        schema: &Schema,
    ) -> Option<&'r RequiredArgument> {
        let mut last = self.0.lock();
        let known = last
            .as_ref()
            .filter(|found| found.rules.as_ptr() == Arc::as_ptr(rules));
        let lacking = if let Some(found) = known {
            found.lacking
        } else {
            let lacking = rules.lacking(schema);
            let rules = Arc::downgrade(rules);
            *last = Some(FoundFit { rules, lacking });
            lacking
        };
        rules.needs.get(lacking?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::work;
    use serde_json::json;

    fn needing(name: &str) -> Arc<ToolRules> {
        let needed = RequiredArgument {
            key: vec!["arguments".to_owned()],
            path: vec![name.to_owned()],
            is_bound: true,
            patterns: Vec::new(),
        };
        Arc::new(ToolRules {
            needs: vec![needed],
            ..ToolRules::default()
        })
    }

    /// threat-model §13 F3: a call pays nothing for a comparison that an earlier one has made; another
    /// contract is compared anew.
    #[test]
    fn a_tool_is_compared_once_with_a_contract() {
        let schema = Schema::compile(&json!({ "properties": { "a": {} } })).unwrap();
        let (fit, b) = (LastFit::default(), needing("b"));
        let first = fit.lacks(&b, &schema).map(RequiredArgument::words);
        assert_eq!(first.as_deref(), Some("no `b`"));
        let again = work::within(0, || fit.lacks(&b, &schema).is_some());
        assert_eq!(again, Ok(true), "nothing is spent");
        assert!(fit.lacks(&needing("a"), &schema).is_none());
        assert!(fit.lacks(&b, &schema).is_some());
    }
}

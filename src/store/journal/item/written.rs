//! An entry as JSON, written straight into its record: the keys with what stands around them at once,
//! texts by the writer that passes plain ones eight bytes at a time. It is what serde writes, byte for
//! byte; a test compares the two, also of a field that is new.

use crate::mcp::json::push_string;
use crate::model::entry::Entry;
use serde::Serialize;

/// A key that is not the first, with what stands around it.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

/// Appends `entry` to `out`.
pub(super) fn append(entry: &Entry, out: &mut Vec<u8>) {
    let mut fields = EntryFields(out);
    fields.of_call(entry);
    fields.of_contract(entry);
    fields.of_end(entry);
    fields.of_key(entry);
    out.push(b'}');
}

/// The fields of an entry that is being written.
struct EntryFields<'o>(&'o mut Vec<u8>);

impl EntryFields<'_> {
    /// Whose it is, and what was called.
    fn of_call(&mut self, entry: &Entry) {
        self.text("{\"time\":", &entry.time);
        self.text(key!("action_id"), &entry.action_id);
        self.text(key!("request_id"), &entry.request_id);
        self.text(key!("trace_id"), &entry.trace_id);
        self.text(key!("user_id"), &entry.user_id);
        self.text_if(key!("agent_id"), entry.agent_id.as_deref());
        self.text_if(key!("certificate"), entry.certificate.as_deref());
        self.text_if(key!("tenant_id"), entry.tenant_id.as_deref());
        self.list(key!("roles"), &entry.roles);
        self.text_if(key!("session"), entry.session.as_deref());
        self.text(key!("revision"), &entry.revision);
        self.text(key!("tool"), &entry.tool);
        self.text_if(key!("method"), entry.method.as_deref());
        self.text_if(key!("probe_of"), entry.probe_of.as_deref());
        self.text_if(key!("schema_hash"), entry.schema_hash.as_deref());
        self.text(key!("params_hash"), &entry.params_hash);
        let original = entry.original_params_hash.as_deref();
        self.text_if(key!("original_params_hash"), original);
        self.list_if(key!("rewritten_by"), &entry.rewritten_by);
    }

    /// What its contract says of it, who has allowed it, and where its task was.
    fn of_contract(&mut self, entry: &Entry) {
        self.list(key!("actions"), &entry.actions);
        self.text_if(key!("variant"), entry.variant.as_deref());
        self.text_if(key!("writes"), entry.writes.as_deref());
        self.text_if(key!("undo"), entry.undo.as_deref());
        self.text_if(key!("confirms"), entry.confirms.as_deref());
        self.text_if(key!("compensates"), entry.compensates.as_deref());
        self.text_if(key!("approval"), entry.approval.as_deref());
        self.text_if(key!("grant"), entry.grant.as_deref());
        self.list_if(key!("approved_by"), &entry.approved_by);
        if !entry.audit.is_empty() {
            self.value(key!("audit"), &entry.audit);
        }
        self.text_if(key!("task"), entry.task.as_deref());
        self.text(key!("state"), &entry.state);
        self.text_if(key!("state_before"), entry.state_before.as_deref());
    }

    /// How it ended, what decided that, and how long it took.
    fn of_end(&mut self, entry: &Entry) {
        self.text(key!("event"), &entry.event);
        self.text(key!("outcome"), &entry.outcome);
        self.text_if(key!("aborted_reason"), entry.aborted_reason.as_deref());
        self.text(key!("stage"), &entry.stage);
        self.text_if(key!("decided_by"), entry.decided_by.as_deref());
        self.list_if(key!("allowed_by"), &entry.allowed_by);
        self.list_if(key!("resources"), &entry.resources);
        self.text_if(key!("would_refuse"), entry.would_refuse.as_deref());
        self.list_if(key!("unasked"), &entry.unasked);
        self.text_if(key!("fault"), entry.fault.as_deref());
        self.value_if(key!("is_error"), entry.is_error);
        self.value_if(key!("result_bytes"), entry.result_bytes);
        self.text_if(key!("result_hash"), entry.result_hash.as_deref());
        self.value(key!("latency_ms"), &entry.latency_ms);
        self.value(key!("gate_ms"), &entry.gate_ms);
        self.value_if(key!("hold_ms"), entry.hold_ms);
        self.value(key!("upstream_ms"), &entry.upstream_ms);
    }

    /// What it was judged by, which call its key makes it, and what it has used.
    fn of_key(&mut self, entry: &Entry) {
        self.text(key!("policy"), &entry.policy);
        self.value_if(key!("replayed"), entry.replayed.then_some(true));
        self.text_if(key!("claimed_by"), entry.claimed_by.as_deref());
        self.text_if(key!("same_as"), entry.same_as.as_deref());
        self.text_if(key!("because"), entry.because.as_deref());
        self.list_if(key!("would_join"), &entry.would_join);
        self.value(key!("attempts"), &entry.attempts);
        self.value_if(key!("fence"), entry.fence);
        self.value_if(key!("cost"), entry.cost);
        self.value_if(key!("budget_remaining"), entry.budget_remaining.as_ref());
        self.value_if(key!("count"), entry.count);
        self.text_if(key!("first_time"), entry.first_time.as_deref());
        self.text_if(key!("issuer"), entry.issuer.as_deref());
        self.text_if(key!("subject"), entry.subject.as_deref());
    }

    fn text(&mut self, key: &str, value: &str) {
        self.0.extend_from_slice(key.as_bytes());
        push_string(self.0, value);
    }

    fn text_if(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    fn list(&mut self, key: &str, items: &[String]) {
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            push_string(self.0, item);
        }
        self.0.push(b']');
    }

    fn list_if(&mut self, key: &str, items: &[String]) {
        if !items.is_empty() {
            self.list(key, items);
        }
    }

    /// A number, a flag or a tree. None of them can fail to be written: the keys of trees are texts.
    fn value(&mut self, key: &str, value: &impl Serialize) {
        self.0.extend_from_slice(key.as_bytes());
        let start = self.0.len();
        if serde_json::to_writer(&mut *self.0, value).is_err() {
            self.0.truncate(start);
            self.0.extend_from_slice(b"null");
        }
    }

    fn value_if(&mut self, key: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.value(key, &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::value::Error;
    use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
    use serde_json::{Map, Value, json};

    /// Takes down which fields a type has that is read.
    struct FieldNames<'n>(&'n mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for FieldNames<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("it is no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            *self.0 = fields;
            Err(Error::custom("its fields are known"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
            unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn entry(members: &Map<String, Value>) -> Option<Entry> {
        serde_json::from_value(Value::Object(members.clone())).ok()
    }

    /// An entry with something in each field that there is.
    fn whole() -> Map<String, Value> {
        let mut names: &[&str] = &[];
        assert!(Entry::deserialize(FieldNames(&mut names)).is_err());
        let least = serde_json::to_value(Entry::default()).unwrap();
        let mut members = least.as_object().cloned().unwrap();
        for name in names {
            let kinds = [
                json!("word"),
                json!(["word"]),
                json!({ "word": 1 }),
                json!(true),
                json!(7),
            ];
            let fits = kinds.into_iter().any(|kind| {
                members.insert((*name).to_owned(), kind);
                entry(&members).is_some()
            });
            assert!(fits, "{name}");
        }
        assert_eq!(members.len(), names.len());
        members
    }

    fn is_written_as_serde_writes_it(entry: &Entry) {
        let mut written = Vec::new();
        append(entry, &mut written);
        let expected = serde_json::to_string(entry).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn each_field_is_written_as_serde_writes_it() {
        let members = whole();
        assert!(members.len() > 50, "{members:?}");
        is_written_as_serde_writes_it(&entry(&members).unwrap());
        is_written_as_serde_writes_it(&Entry::default());
        for name in members.keys() {
            let mut fewer = members.clone();
            fewer.remove(name);
            if let Some(entry) = entry(&fewer) {
                is_written_as_serde_writes_it(&entry);
            }
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ -~]{0,24}",
            "\\PC{0,6}",
            "[\\x00-\\x1f\"\\\\\\x7f\u{2028}\u{10000}]{0,6}"
        ]
    }

    proptest! {
        #[test]
        fn whatever_is_in_it_is_written_as_serde_writes_it(
            texts in prop::collection::vec(text(), 1..12),
            items in 0_usize..4,
            number: u64,
            time in prop::num::f64::ANY,
        ) {
            let mut members = whole();
            for (at, value) in members.values_mut().enumerate() {
                let word = |more: usize| json!(texts[(at + more) % texts.len()]);
                match value {
                    Value::String(_) => *value = word(0),
                    Value::Array(list) => *list = (0..items).map(word).collect(),
                    Value::Object(tree) => drop(tree.insert("more".to_owned(), word(1))),
                    Value::Null | Value::Bool(_) | Value::Number(_) => {}
                }
            }
            let mut entry = entry(&members).unwrap();
            (entry.result_bytes, entry.fence, entry.count) = (Some(number), Some(number / 3), Some(1));
            (entry.latency_ms, entry.hold_ms, entry.cost) = (time, Some(-time), Some(time / 3.0));
            is_written_as_serde_writes_it(&entry);
        }
    }
}

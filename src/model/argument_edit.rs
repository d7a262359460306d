//! What operators have changed of a call's arguments before it was allowed, as its agent reads it.

use serde_json::{Value, json};

/// Bytes of a value in words; the whole one stands beside them.
const VALUE_BYTES_MAX: usize = 200;

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentEdit {
    /// The operators who did, as the ledger names them.
    pub by: Vec<String>,
    /// What is different now.
    pub changes: Vec<ArgumentChange>,
}

/// Arguments as operators have changed them.
#[derive(Debug, Clone, PartialEq)]
pub struct EditedArguments {
    /// All of them, as they are now.
    pub arguments: Value,
    /// What is different.
    pub edit: ArgumentEdit,
}

/// One argument, before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentChange {
    /// Where it is, as a JSON pointer.
    pub pointer: String,
    /// What it was; none: it was not there.
    pub before: Option<Value>,
    /// What it is.
    pub after: Value,
}

impl ArgumentEdit {
    /// What is different at `pointers` between `before` and `after`.
    pub fn between<'a>(
        by: Vec<String>,
        pointers: impl Iterator<Item = &'a String>,
        before: &Value,
        after: &Value,
    ) -> Self {
        let mut changes: Vec<ArgumentChange> = Vec::new();
        for pointer in pointers {
            let (was, now) = (before.pointer(pointer), after.pointer(pointer));
            let is_known = changes.iter().any(|change| change.pointer == *pointer);
            let Some(now) = now.filter(|now| was != Some(*now) && !is_known) else {
                continue;
            };
            changes.push(ArgumentChange {
                pointer: pointer.clone(),
                before: was.cloned(),
                after: now.clone(),
            });
        }
        Self { by, changes }
    }

    /// For programs. Nobody is named: who decided is the ledger's to tell.
    pub fn value(&self) -> Value {
        let change = |change: &ArgumentChange| match &change.before {
            Some(before) => {
                json!({ "pointer": change.pointer, "before": before, "after": change.after })
            }
            None => json!({ "pointer": change.pointer, "after": change.after }),
        };
        self.changes.iter().map(change).collect()
    }

    /// For models.
    pub fn words(&self) -> String {
        let changes = self.changes.iter().map(|change| {
            let before = change
                .before
                .as_ref()
                .map_or_else(|| "nothing".to_owned(), cut);
            format!("{}: {before} → {}", change.pointer, cut(&change.after))
        });
        format!(
            "arguments_changed_by_approver: a person has changed arguments of this call before allowing it ({}). What \
             follows is the tool's answer to the call as it was changed; it did not run as you sent it.",
            changes.collect::<Vec<_>>().join("; ")
        )
    }
}

fn cut(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= VALUE_BYTES_MAX {
        return text;
    }
    let end = text.floor_char_boundary(VALUE_BYTES_MAX);
    format!("{}… ({} bytes)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came back to what it was is no change, and an argument is told of once.
    #[test]
    fn only_what_is_different_is_told() {
        let before = json!({ "amount": 5, "note": "a", "to": { "iban": "DE1" } });
        let after = json!({ "amount": 4, "note": "a", "to": { "iban": "DE1" }, "memo": "m" });
        let pointers = ["/amount", "/note", "/memo", "/amount", "/absent"].map(str::to_owned);
        let edit = ArgumentEdit::between(Vec::new(), pointers.iter(), &before, &after);
        let told = json!([
            { "pointer": "/amount", "before": 5, "after": 4 },
            { "pointer": "/memo", "after": "m" },
        ]);
        assert_eq!(edit.value(), told);
        let words = edit.words();
        assert!(
            words.contains("/amount: 5 → 4; /memo: nothing → \"m\""),
            "{words}"
        );
    }

    /// However long a value is, words of it are not.
    #[test]
    fn long_values_are_cut_in_words() {
        let after = json!({ "note": "ä".repeat(9000) });
        let pointers = ["/note".to_owned()];
        let edit = ArgumentEdit::between(Vec::new(), pointers.iter(), &json!({}), &after);
        assert!(edit.words().len() < 700, "{}", edit.words());
    }
}

//! What a tool does, as it is drafted: by its annotations, and where they say too little by its name.

use serde_json::Value;

/// Words in names of tools that delete.
const DELETING_WORDS: &[&str] = &[
    "clear",
    "delete",
    "destroy",
    "drop",
    "erase",
    "prune",
    "purge",
    "remove",
    "rm",
    "trash",
    "truncate",
    "uninstall",
    "unlink",
    "wipe",
];

/// What a call does, for all that is known: the worst, where nothing is said. What is called
/// destructive changes or deletes: its name tells which. Either is irreversible until the author says
/// otherwise, but a deletion that can be undone would still ask a person each time.
pub(super) fn actions(definition: &Value) -> (&'static str, &'static str) {
    let annotations = &definition["annotations"];
    let is_deletion = || is_named_deletion(definition["name"].as_str().unwrap_or_default());
    if annotations["readOnlyHint"] == true {
        ("read", "so it says; make sure that it changes nothing")
    } else if annotations["destructiveHint"] == false {
        (
            "write",
            "so it says; name delete, pay, grant or notify where one fits",
        )
    } else if annotations["destructiveHint"] == true && !is_deletion() {
        (
            "write",
            "it says that something can be lost; name delete, pay, grant or notify where one fits",
        )
    } else if annotations["destructiveHint"] == true {
        (
            "delete",
            "to do: so it says; name write, pay, grant or notify where one fits",
        )
    } else {
        ("delete", "to do: it does not say: taken for the worst")
    }
}

/// Whether one of the words of a tool's own name is of what deletes: `delete_entities`,
/// `removeRow`, `drop-table`.
fn is_named_deletion(name: &str) -> bool {
    let begins = |(at, letter): (usize, char)| {
        let before = name[..at].chars().next_back();
        letter.is_ascii_uppercase() && before.is_some_and(|before| before.is_ascii_lowercase())
    };
    let mut words = String::new();
    for (at, letter) in name.char_indices() {
        if begins((at, letter)) {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .map(|word| word.strip_suffix('s').unwrap_or(word))
        .any(|word| DELETING_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_destructive_deletes_where_its_name_says_so() {
        for (name, expected) in [
            ("write_file", "write"),
            ("git_reset", "write"),
            ("undeletable", "write"),
            ("FORMAT", "write"),
            ("delete_entities", "delete"),
            ("removeRow", "delete"),
            ("deletes", "delete"),
            ("drop-table", "delete"),
            ("fs.rm", "delete"),
            ("DELETE", "delete"),
        ] {
            let tool = json!({"name": name, "annotations": {"destructiveHint": true}});
            assert_eq!(actions(&tool).0, expected, "{name}");
        }
    }

    #[test]
    fn annotations_count_before_names() {
        for (annotations, expected) in [
            (
                json!({"readOnlyHint": true, "destructiveHint": true}),
                "read",
            ),
            (json!({"destructiveHint": false}), "write"),
            (json!({}), "delete"),
            (json!({"readOnlyHint": false}), "delete"),
        ] {
            let tool = json!({"name": "remove", "annotations": annotations});
            assert_eq!(actions(&tool).0, expected);
        }
        assert_eq!(actions(&json!({"name": "write"})).0, "delete");
    }
}

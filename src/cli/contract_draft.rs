//! A contract as it is drafted from what a server says of its tool. All of that stands in quotes or
//! in comments.

mod guess;

use super::yaml::{key, quoted};
use crate::mcp::pretty::plain;
use serde_json::Value;
use std::fmt::Write as _;

/// Characters of a purpose: what a contract may have.
const PURPOSE_CHARS_MAX: usize = 200;
/// Names of arguments that are told.
const MAX_ARGUMENTS_NAMED: usize = 12;
/// Characters of anything else that a server says.
const SERVER_TEXT_CHARS_MAX: usize = 60;

/// What stands above all drafted contracts.
pub(super) const UNDO_WORDS_COMMENT: &str = "\
# What changes something says in one of four words how it is undone; only for the last one a person is asked each time:
#   side_effect: { writes: files, rollback: { tool: server__tool, arguments: { id: result#/id } } }      another call does it
#   side_effect: { writes: files, rollback: { manual: restore it from version control } }                a person does it
#   additive: true                                                                                      nothing is lost
#   irreversible: true                                                                                  nothing does it
";

const PERMISSION_DRAFT: &str =
    "    permission: anyone     # to do: say who: roles, a tenant, a resource\n";
const RETRY_DRAFT: &str =
    "    idempotency: { derive: retry } # only a call that is sent again is the same\n";
const UNCLEAR_RETRY_DRAFT: &str = "    idempotency: { derive: retry } # only a call that is sent again is the same; does it pay or grant? `derive: [/order_id]`, or `require: true`\n";
const ADDITIVE_DRAFT: &str =
    "    additive: true         # so it says: nothing is lost; else another of the four words\n";
const IRREVERSIBLE_DRAFT: &str = "    irreversible: true     # to do: so a person has to allow each call; or another of the four words\n";

const OVERWRITES_DRAFT: &str = "    irreversible: true     # to do: so a person has to allow each call; if you can restore what is lost, in place of this line:\n    # side_effect: { writes: files, rollback: { manual: restore it from version control } }\n";

/// What is drafted of one tool.
pub(super) struct ContractDraft<'a> {
    /// `server__tool`.
    pub(super) name: &'a str,
    /// The server.
    pub(super) server: &'a str,
    /// What the server says of it, whole.
    pub(super) definition: &'a Value,
    /// What else is to be known of the draft, a line each.
    pub(super) notes: &'a [String],
    /// The section `arguments`, in lines; or nothing.
    pub(super) arguments: &'a str,
}

impl ContractDraft<'_> {
    /// Adds it to a file of contracts.
    pub(super) fn push(&self, text: &mut String) {
        let definition = self.definition;
        let (actions, why) = guess::actions(definition);
        let _ = writeln!(text, "  {}:", key(self.name));
        let _ = writeln!(text, "    # {}", claims(definition));
        let _ = writeln!(
            text,
            "    # takes: {}",
            arguments(&definition["inputSchema"])
        );
        for note in self.notes {
            let _ = writeln!(text, "    # {note}");
        }
        let purpose = quoted(&purpose(self.server, definition));
        let _ = writeln!(text, "    purpose: {purpose}");
        let _ = writeln!(
            text,
            "    actions: [{actions}]{}# {why}",
            " ".repeat(12 - actions.len())
        );
        if actions != "read" {
            text.push_str(PERMISSION_DRAFT);
        }
        text.push_str(match undone(definition) {
            Undone::Nothing => "",
            Undone::Additive => ADDITIVE_DRAFT,
            Undone::Overwrites => OVERWRITES_DRAFT,
            Undone::Irreversible => IRREVERSIBLE_DRAFT,
        });
        text.push_str(self.arguments);
        // Where a second call changes nothing, or nothing is lost by it, no key is worth its trouble.
        let is_harmless = undone(definition) == Undone::Additive
            || definition["annotations"]["idempotentHint"] == true;
        text.push_str(match actions {
            "read" => "",
            _ if is_harmless => RETRY_DRAFT,
            _ => UNCLEAR_RETRY_DRAFT,
        });
        text.push_str("    secrets: []\n");
    }
}

/// How a call is undone, as it is drafted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undone {
    /// It only reads.
    Nothing,
    Additive,
    Overwrites,
    Irreversible,
}

fn undone(definition: &Value) -> Undone {
    let (actions, _) = guess::actions(definition);
    match actions {
        "read" => Undone::Nothing,
        // Drafted only where the server says that nothing is lost.
        "write" if definition["annotations"]["destructiveHint"] == false => Undone::Additive,
        "write" => Undone::Overwrites,
        _ => Undone::Irreversible,
    }
}

/// Whether a person is asked each time by the contract that is drafted for this definition.
pub(super) fn asks(definition: &Value) -> bool {
    matches!(
        undone(definition),
        Undone::Overwrites | Undone::Irreversible
    )
}

/// Title and annotations, as the server has them.
fn claims(definition: &Value) -> String {
    let mut said = Vec::new();
    for title in [&definition["title"], &definition["annotations"]["title"]] {
        said.extend(
            title
                .as_str()
                .map(|title| format!("title \"{}\"", cut(&sentence(title), SERVER_TEXT_CHARS_MAX))),
        );
    }
    for hint in [
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    ] {
        said.extend(
            definition["annotations"][hint]
                .as_bool()
                .map(|value| format!("{hint} {value}")),
        );
    }
    if said.is_empty() {
        "says nothing of itself: no annotations".to_owned()
    } else {
        format!("says: {}", said.join(", "))
    }
}

fn arguments(schema: &Value) -> String {
    let required = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|list| list.iter().any(|one| one == name))
    };
    let properties = schema["properties"].as_object();
    let one = |(name, shape): (&String, &Value)| {
        let kind = shape["type"].as_str().unwrap_or("anything");
        let mark = if required(name) { "" } else { "?" };
        format!(
            "{}{mark} ({})",
            cut(&plain(name), SERVER_TEXT_CHARS_MAX),
            cut(&plain(kind), SERVER_TEXT_CHARS_MAX)
        )
    };
    let mut shown: Vec<String> = properties
        .into_iter()
        .flatten()
        .take(MAX_ARGUMENTS_NAMED)
        .map(one)
        .collect();
    let more = properties.map_or(0, serde_json::Map::len) - shown.len();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    if shown.is_empty() {
        "nothing that it names".to_owned()
    } else {
        shown.join(", ")
    }
}

/// The first sentence of the description.
fn purpose(server: &str, definition: &Value) -> String {
    let said = sentence(definition["description"].as_str().unwrap_or_default());
    if said.is_empty() {
        format!("Not described by {}.", plain(server))
    } else {
        cut(&said, PURPOSE_CHARS_MAX)
    }
}

/// One line of what is said, up to the end of its first sentence, without what does not print.
fn sentence(said: &str) -> String {
    let prints = |letter: &char| {
        letter.is_whitespace()
            || matches!(letter, '"' | '\'' | '\\')
            || letter.escape_debug().len() == 1
    };
    let spaced: String = said.chars().filter(prints).collect();
    let line = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    // A number's point and an abbreviation's end no sentence: only what goes on with a capital
    // letter is another one.
    let ends = |(at, _): &(usize, &str)| line[at + 2..].starts_with(char::is_uppercase) && *at > 8;
    let end = line
        .match_indices(". ")
        .find(ends)
        .map_or(line.len(), |(at, _)| at + 1);
    line[..end].to_owned()
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most - 1).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_the_first_sentence_without_what_does_not_print() {
        for (said, expected) in [
            ("Creates a draft. Then sends it.", "Creates a draft."),
            (
                "Reads v1. 5 files, e.g. logs",
                "Reads v1. 5 files, e.g. logs",
            ),
            (
                "\n  Reads\u{202e}\u{1b}[1m\tall \u{200b}\"files\"\n\nArgs:\n",
                "Reads[1m all \"files\" Args:",
            ),
            ("", ""),
        ] {
            assert_eq!(sentence(said), expected);
        }
        assert_eq!(cut(&"é".repeat(300), 200).chars().count(), 200);
    }
}

//! The configuration with what a reload applies as a bundle has it. Everything else stays as it is,
//! byte for byte, and so does what says the same already.

use super::matched::matched;
use crate::cli::ledger::text::plain;
use crate::cli::yaml::{flow, key as yaml_key};
use crate::config::policy_parts::{self, KEPT_OUT};
use crate::policy::locate::YamlDocument;
use anyhow::{Context as _, bail};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The configuration, merged.
pub(super) struct RestoredConfig {
    /// All of it.
    pub(super) text: String,
    /// What it says.
    pub(super) tree: Value,
}

/// `document` with what `wanted` says of what a reload applies. Secrets that a bundle does not hold
/// are those of now, each of the entry that is meant.
pub(super) fn merged(
    document: &YamlDocument,
    wanted: &Map<String, Value>,
) -> anyhow::Result<RestoredConfig> {
    let tree = document.tree();
    let present = policy_parts::of(tree);
    let mut expected = tree.as_object().cloned().unwrap_or_default();
    let mut blocks: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for key in present.keys().filter(|key| !wanted.contains_key(*key)) {
        blocks.insert(key, None);
        expected.remove(key);
    }
    for (key, value) in wanted {
        if present.get(key) == Some(value) {
            continue;
        }
        let without = present.get(key).unwrap_or(&Value::Null);
        let value = entries_filled(value, &tree[key], without).with_context(|| {
            format!(
                "`{}` of the configuration differs from the bundle's, which holds no secret that is written out: write such \
                 secrets as ${{NAME}}, change it by hand, or leave the configuration as it is with --keep-config",
                plain(key)
            )
        })?;
        blocks.insert(key, Some(block(key, &value)));
        expected.insert(key.clone(), value);
    }
    let expected = Value::Object(expected);
    if blocks.is_empty() {
        return Ok(RestoredConfig {
            text: document.text().to_owned(),
            tree: expected,
        });
    }
    let lines = document.root_lines().context(ODD_LAYOUT)?;
    let text = replaced(document.text(), &lines, &blocks);
    let read = YamlDocument::parse(document.file(), text.clone());
    // What was written has to be what was meant, whatever the layout of the file is.
    if read.ok().is_none_or(|read| *read.tree() != expected) {
        bail!(ODD_LAYOUT);
    }
    Ok(RestoredConfig {
        text,
        tree: expected,
    })
}

/// Why a configuration cannot be written in part.
const ODD_LAYOUT: &str = "the configuration is laid out in a way in which no part of it can be written anew: give each of its \
                          keys a line of its own, or leave it as it is with --keep-config";

/// What a bundle has of a configuration, as one could write it.
pub(super) fn settings_text(settings: &Map<String, Value>) -> String {
    settings
        .iter()
        .map(|(key, value)| block(key, value))
        .collect()
}

/// A key of the root and its value: a line for each entry of a list.
fn block(key: &str, value: &Value) -> String {
    let key = yaml_key(key);
    match value {
        Value::Array(entries) if !entries.is_empty() => {
            let entries = entries.iter().map(|entry| format!("  - {}\n", flow(entry)));
            format!("{key}:\n{}", entries.collect::<String>())
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => format!("{key}: {}\n", flow(value)),
    }
}

/// `text` with other blocks in place of those whose keys stand on `lines`; new ones stand at the end.
fn replaced(
    text: &str,
    lines: &[(String, usize)],
    blocks: &BTreeMap<&str, Option<String>>,
) -> String {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let mut out = String::new();
    let mut at = 0;
    for (index, (key, line)) in lines.iter().enumerate() {
        let begin = line - 1;
        let next = lines.get(index + 1).map_or(all.len(), |(_, line)| line - 1);
        out.extend(all[at..begin.max(at)].iter().copied());
        at = begin;
        let Some(block) = blocks.get(key.as_str()) else {
            continue;
        };
        out.push_str(block.as_deref().unwrap_or_default());
        // Blank lines, and comments that begin a line, belong to what follows.
        let is_apart = |line: &&&str| line.trim().is_empty() || line.starts_with('#');
        let apart = all[begin..next].iter().rev().take_while(is_apart).count();
        at = next - apart;
    }
    out.extend(all[at..].iter().copied());
    let known = |key: &str| lines.iter().any(|(line, _)| line == key);
    for (_, block) in blocks.iter().filter(|(key, _)| !known(key)) {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(block.as_deref().unwrap_or_default());
    }
    out
}

/// `wanted` with the secrets of `present` where it holds none; an error where none of its entries, or
/// more than one, could have the secret. `without` is `present` without secrets.
fn entries_filled(wanted: &Value, present: &Value, without: &Value) -> anyhow::Result<Value> {
    let Some(entries) = wanted.as_array() else {
        return filled(wanted, present);
    };
    let places = matched(entries, without.as_array().map_or(&[], Vec::as_slice));
    let done = entries.iter().zip(places).map(|(entry, place)| {
        let place = place.and_then(|place| present.get(place));
        filled(entry, place.unwrap_or(&Value::Null))
    });
    done.collect()
}

/// One entry, or a map of them, with the secrets of `present`.
fn filled(wanted: &Value, present: &Value) -> anyhow::Result<Value> {
    match wanted {
        Value::Object(members) => {
            let one = |(key, value): (&String, &Value)| {
                let value = filled(value, present.get(key).unwrap_or(&Value::Null));
                value
                    .with_context(|| format!("`{}`", plain(key)))
                    .map(|value| (key.clone(), value))
            };
            members.iter().map(one).collect()
        }
        Value::String(text) if text == KEPT_OUT => match present {
            Value::String(_) => Ok(present.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => bail!("which secret of now belongs there cannot be told"),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Ok(wanted.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PRESENT: &str = "# head\nlisten: 127.0.0.1:7777 # here\n\n# who calls\ncallers:\n  - { agent: a, token: secret-of-a }\n# alone\npolicies: [p]\ndata: d\n";

    fn merge(present: &str, wanted: &Value) -> Result<String, String> {
        let document = YamlDocument::parse("f", present.to_owned());
        let document = document.map_err(|error| error.to_string()).unwrap();
        merged(&document, wanted.as_object().unwrap())
            .map(|merged| merged.text)
            .map_err(|error| format!("{error:#}"))
    }

    /// 003-42: only what the policy is about is written, and a file that says it already is left alone.
    #[test]
    fn only_what_differs_is_written() {
        let same = json!({ "policies": ["p"], "callers": [ { "agent": "a", "token": KEPT_OUT } ] });
        assert_eq!(merge(PRESENT, &same).unwrap(), PRESENT);
        let wanted = json!({
            "callers": [ { "agent": "a", "token": KEPT_OUT, "roles": ["payer"] } ],
            "policies": ["p"],
            "mode": "observe",
        });
        insta::assert_snapshot!(merge(PRESENT, &wanted).unwrap(), @r#"
        # head
        listen: 127.0.0.1:7777 # here

        # who calls
        callers:
          - { agent: "a", token: "secret-of-a", roles: ["payer"] }
        # alone
        policies: [p]
        data: d
        mode: "observe"
        "#);
        let without = json!({ "policies": ["p"] });
        insta::assert_snapshot!(merge(PRESENT, &without).unwrap(), @r"
        # head
        listen: 127.0.0.1:7777 # here

        # who calls
        # alone
        policies: [p]
        data: d
        ");
    }

    /// A secret that no file holds any more is not invented.
    #[test]
    fn a_secret_that_is_gone_is_not_written() {
        let wanted =
            json!({ "policies": ["p"], "callers": [ { "agent": "b", "token": KEPT_OUT } ] });
        let why = merge(PRESENT, &wanted).unwrap_err();
        assert!(
            why.contains("`callers`") && why.contains("--keep-config"),
            "{why}"
        );
        let wanted = json!({ "policies": ["p"], "callers": [ { "agent": "b", "token": "${B}" } ] });
        let text = merge(PRESENT, &wanted).unwrap();
        assert!(
            text.contains("token: \"${B}\"") && !text.contains("secret-of-a"),
            "{text}"
        );
    }

    /// Two tokens of one agent stay the two they are.
    #[test]
    fn entries_of_one_name_keep_their_order() {
        let present = "callers:\n- { agent: a, token: first }\n- { agent: a, token: second }\n";
        let entry = json!({ "agent": "a", "token": KEPT_OUT, "owner": true });
        let text = merge(present, &json!({ "callers": [entry, entry] })).unwrap();
        let (first, second) = (text.find("first").unwrap(), text.find("second").unwrap());
        assert!(first < second, "{text}");
    }

    /// 003-42: no token becomes another tenant's or another role's, wherever its entry stood.
    #[test]
    fn no_token_moves_to_another_entry() {
        let entry = |tenant: &str| json!({ "agent": "a", "tenant": tenant, "token": KEPT_OUT });
        let wanted = json!({ "callers": [entry("t_1"), entry("t_2")] });
        let tokens = |tenants: &[&str]| {
            let line = |tenant: &&str| {
                format!("  - {{ agent: a, tenant: {tenant}, token: secret-of-{tenant} }}\n")
            };
            let lines: String = tenants.iter().map(line).collect();
            merge(&format!("callers:\n{lines}mode: enforce\n"), &wanted)
        };
        insta::assert_snapshot!(tokens(&["t_0", "t_2", "t_1"]).unwrap(), @r#"
        callers:
          - { agent: "a", tenant: "t_1", token: "secret-of-t_1" }
          - { agent: "a", tenant: "t_2", token: "secret-of-t_2" }
        "#);
        let why = tokens(&["t_0", "t_1"]).unwrap_err();
        assert!(
            why.contains("`callers`") && why.contains("--keep-config"),
            "{why}"
        );
    }

    #[test]
    fn a_layout_that_cannot_be_written_in_part_is_refused() {
        for present in [
            "{ policies: [p], data: d }\n",
            "? policies\n: [p]\n",
            "  policies: [p]\n  data: d\n",
        ] {
            let why = merge(present, &json!({ "policies": ["q"] })).unwrap_err();
            assert!(why.contains("a line of its own"), "{present}: {why}");
        }
        // One that ends without a line end is none of them.
        let text = merge(
            "policies: [p]",
            &json!({ "policies": ["p"], "mode": "observe" }),
        );
        assert_eq!(text.unwrap(), "policies: [p]\nmode: \"observe\"\n");
    }

    #[test]
    fn settings_are_read_as_they_were() {
        let settings = json!({ "callers": [ { "agent": "a b", "token": "${A}" } ], "hooks": [], "mode": "enforce" });
        let text = settings_text(settings.as_object().unwrap());
        let read = YamlDocument::parse("f", text).map_err(|error| error.to_string());
        assert_eq!(*read.unwrap().tree(), settings);
    }
}

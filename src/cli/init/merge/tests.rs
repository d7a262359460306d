//! What becomes of an agent's own configuration that was changed after `init`.

use super::*;

const BEFORE: &str = r#"{
  // mine
  "mcpServers": {
    "files": { "command": "npx", "env": { "TOKEN": "secret" } }, // all of them
    "git": { "command": "uvx" },
    "own": { "url": "http://127.0.0.1:9/mcp" }
  }
}
"#;

const POINTED: &str = r#"{
  // mine
  "mcpServers": {
    "toolgate": {
      "type": "http",
      "url": "http://127.0.0.1:7777/mcp"
    },
    "own": { "url": "http://127.0.0.1:9/mcp" }
  }
}
"#;

const WRAPPED: &str = r#"{
  // mine
  "mcpServers": {
    "files": {
      "command": "toolgate",
      "args": ["stdio"]
    }, // all of them
    "git": { "command": "uvx" },
    "own": { "url": "http://127.0.0.1:9/mcp" }
  }
}
"#;

fn merged(written: &str, now: &str, force: bool) -> MergedConfig {
    merge(BEFORE, written, now, force).unwrap()
}

/// Issue 17 `init --undo`: what the operator added stays, and what `init` wrote goes back word for
/// word, with its comments.
#[test]
fn what_was_added_since_stays() {
    let now = POINTED.replace("// mine", "// mine, and yours").replace(
        "9/mcp\" }\n",
        "9/mcp\" },\n    \"new\": { \"command\": \"x\" }\n",
    );
    let expected = BEFORE.replace("// mine", "// mine, and yours").replace(
        "9/mcp\" }\n",
        "9/mcp\" },\n    \"new\": { \"command\": \"x\" }\n",
    );
    let found = merged(POINTED, &now, false);
    assert_eq!(found.text, expected);
    assert_eq!((found.notes.len(), found.leading.len()), (0, 0));
}

/// Issue 17 D14: the step that the example of adopting names, a header of toolgate's own entry.
#[test]
fn what_was_added_to_the_entry_of_toolgate_goes_with_it() {
    let now = POINTED.replace(
        "7777/mcp\"",
        "7777/mcp\",\n      \"headers\": { \"Authorization\": \"Bearer x\" }",
    );
    let found = merged(POINTED, &now, false);
    assert_eq!(found.text, BEFORE);
    assert_eq!(
        found.notes,
        ["`toolgate` was changed since, and is gone with what was added"]
    );
}

/// What the operator has made of toolgate's entry, or of a server's name, is theirs.
#[test]
fn what_leads_elsewhere_or_was_written_anew_stays() {
    let now = POINTED.replace("7777", "9999").replace(
        "    \"own\"",
        "    \"git\": { \"command\": \"other\" },\n    \"own\"",
    );
    let found = merged(POINTED, &now, true);
    let expected = now.replace(
        "9/mcp\" }\n",
        "9/mcp\" },\n    \"files\": { \"command\": \"npx\", \"env\": { \"TOKEN\": \"secret\" } }\n",
    );
    assert_eq!(found.text, expected);
    assert_eq!(
        found.notes,
        [
            "`git` was written anew since, and stays so",
            "`toolgate` was changed since and leads elsewhere: it stays so"
        ]
    );
}

/// An entry that was rewritten keeps what was added to it, and is left where what `init` wrote was
/// changed, unless the operator forces it.
#[test]
fn a_rewritten_entry_is_merged_member_by_member() {
    let added = WRAPPED.replace("[\"stdio\"]", "[\"stdio\"],\n      \"disabled\": true");
    let found = merged(WRAPPED, &added, false);
    let entry = "{\n      \"command\": \"npx\",\n      \"disabled\": true,\n      \"env\": {\n        \"TOKEN\": \"secret\"\n      }\n    }";
    let expected = BEFORE.replace(
        "{ \"command\": \"npx\", \"env\": { \"TOKEN\": \"secret\" } }",
        entry,
    );
    assert_eq!(found.text, expected);

    let disputed = WRAPPED.replace(
        "[\"stdio\"]",
        "[\"stdio\"], \"env\": { \"TOKEN\": \"new\" }",
    );
    let found = merged(WRAPPED, &disputed, false);
    assert_eq!(
        (&*found.text, &*found.leading),
        (&*disputed, &["files".to_owned()][..])
    );
    assert_eq!(
        found.notes,
        ["`files`: `env` was changed since, and still leads to toolgate"]
    );
    let forced = merged(WRAPPED, &disputed, true);
    assert_eq!((&*forced.text, forced.leading.len()), (BEFORE, 0));
}

/// Issue 17 D14: toolgate with other arguments, or from another place, is toolgate; another program is not.
#[test]
fn toolgate_with_other_arguments_still_leads_to_toolgate() {
    for (now, disputed) in [
        (
            WRAPPED.replace("\"stdio\"", "\"stdio\", \"--agent\", \"bot\""),
            "args",
        ),
        (
            WRAPPED.replace("\"toolgate\"", "\"/opt/bin/toolgate\""),
            "command",
        ),
    ] {
        let found = merged(WRAPPED, &now, false);
        assert_eq!(
            (&*found.text, &*found.leading),
            (&*now, &["files".to_owned()][..])
        );
        let words = format!("`files`: `{disputed}` was changed since, and still leads to toolgate");
        assert_eq!(found.notes, [words]);
        let forced = merged(WRAPPED, &now, true);
        assert_eq!((&*forced.text, forced.leading.len()), (BEFORE, 0));
    }
    let elsewhere = WRAPPED.replace("\"toolgate\"", "\"other\"");
    let found = merged(WRAPPED, &elsewhere, false);
    assert_eq!((found.text, found.leading.len()), (elsewhere, 0));
}

/// Issue 17 D14: what is put in has the line ends of the file.
#[test]
fn lines_end_as_they_did() {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let now = crlf(&POINTED.replace("// mine", "// mine, too"));
    let found = merge(&crlf(BEFORE), &crlf(POINTED), &now, false).unwrap();
    assert_eq!(found.text, crlf(&BEFORE.replace("// mine", "// mine, too")));
    let added = WRAPPED.replace("[\"stdio\"]", "[\"stdio\"],\n      \"disabled\": true");
    let found = merge(&crlf(BEFORE), &crlf(WRAPPED), &crlf(&added), false).unwrap();
    assert_eq!(
        found.text.matches('\n').count(),
        found.text.matches("\r\n").count(),
        "{:?}",
        found.text
    );
}

/// Whatever the operator removed, the rest comes back.
#[test]
fn removed_entries_come_back_or_stay_away() {
    let now = r#"{ "mcpServers": {} }"#;
    let found = merged(POINTED, now, false);
    let values: Value = JsoncDocument::read(found.text).unwrap().text().value();
    let names: Vec<&String> = values["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["files", "git"],
        "`own` was the operator's to remove"
    );

    let found = merged(WRAPPED, &BEFORE.replace("\"files\"", "\"filed\""), false);
    assert_eq!(found.notes, ["`files` was removed since, and stays away"]);

    let alone = r#"{ "servers": { "a": { "command": "x" } } }"#;
    let pointed = r#"{ "servers": { "toolgate": { "url": "u" } } }"#;
    let now = r#"{ "servers": { "a": { "command": "x" }, "toolgate": { "url": "u" } } }"#;
    assert_eq!(merge(alone, pointed, now, false).unwrap().text, alone);
    let error = merge(alone, pointed, "{}", false).unwrap_err();
    assert_eq!(error, "it has no `servers` any more");
    assert!(merge(alone, pointed, "{ no", false).is_err());
    assert!(names_no_server(b"{}") && names_no_server(b"[]"));
    assert!(!names_no_server(b"{ no") && !names_no_server(pointed.as_bytes()));
}

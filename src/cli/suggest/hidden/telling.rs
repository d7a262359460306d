//! Secrets that are told by what stands before them: `PGPASSWORD=…`, `--token …`, `Bearer …`,
//! `ann:…@host`; in a list by the element before, in an object by the name beside.

use crate::model::looks::is_telling;
use serde_json::{Map, Value};

/// Characters of a text that names something.
const MAX_NAME_CHARS: usize = 64;
/// Members whose value is the name of what stands beside.
const NAME_MEMBERS: &[&str] = &[
    "name",
    "key",
    "header",
    "variable",
    "var",
    "env",
    "field",
    "id",
    "param",
    "parameter",
    "option",
    "flag",
    "property",
    "label",
    "k",
];
/// Members with what that is the name of.
const VALUE_MEMBERS: &[&str] = &[
    "v", "content", "contents", "text", "default", "body", "string", "raw", "literal", "argument",
];
/// Parts of words after which a secret comes, even without a sign between them.
const SECRET_WORDS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
];
const SECRET_WORD_PARTS: &[&str] = &["passw", "passphrase", "passcode", "sshpass", "apikey"];
/// Flags before a name and a password.
const LOGIN_FLAGS: &[&str] = &["-u", "--user", "--userpwd", "--login", "--proxy-user"];
/// Programs that take a password behind a flag of one letter, and the flags.
const LOGIN_PROGRAMS: &[&str] = &[
    "mysql",
    "mysqldump",
    "mysqladmin",
    "mariadb",
    "redis-cli",
    "ldapsearch",
    "smbclient",
    "htpasswd",
    "mongo",
    "mongosh",
];
const PASSWORD_FLAGS: &[&str] = &["-p", "-a", "-w", "-U"];

/// Whether something in a text says that a secret follows it.
pub(super) fn tells(text: &str) -> bool {
    has_telling_assignment(text) || has_telling_word(text) || has_login(text)
}

/// Whether an element of a list says that the next one is a secret.
pub(super) fn list_tells(values: &[Value]) -> bool {
    let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    values.windows(2).any(|pair| names_a_secret(&pair[0]))
        || (texts.len() > 1 && tells(&texts.join(" ")))
}

/// Whether a member of an object says that the value beside it is a secret.
pub(super) fn names_tell(members: &Map<String, Value>) -> bool {
    let is_name = |name: &str| NAME_MEMBERS.iter().any(|known| is_called(name, known));
    members
        .iter()
        .any(|(name, value)| is_name(name) && names_a_secret(value))
}

/// Whether a member has what another one is the name of.
pub(super) fn is_value(name: &str) -> bool {
    name.to_ascii_lowercase().contains("val")
        || VALUE_MEMBERS.iter().any(|known| is_called(name, known))
}

/// Is `name` that word, or does it end in it: `env_name`, `headerName`?
fn is_called(name: &str, word: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == word
        || (word.len() > 2 && (name.ends_with(&format!("_{word}")) || name.ends_with(word)))
}

fn names_a_secret(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let is_letter = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    text.chars().count() <= MAX_NAME_CHARS && text.chars().all(is_letter) && is_telling(text)
}

/// `name=value`, `name: value`, `"name": value`, `<name>value`. Takes time in proportion to the text.
fn has_telling_assignment(text: &str) -> bool {
    let is_between = |letter: char| letter.is_whitespace() || "\"'`\\[]=:><".contains(letter);
    let Some(last) = text.rfind(|letter| !is_between(letter)) else {
        return false;
    };
    text.match_indices(['=', ':', '>'])
        .take_while(|(at, _)| *at < last)
        .any(|(at, sign)| {
            let before = text[..at].trim_end_matches(|letter: char| {
                letter.is_whitespace() || "\"'`\\]".contains(letter)
            });
            let is_letter = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
            let rest = before.trim_end_matches(is_letter);
            let is_meant = match sign {
                ">" => rest.ends_with('<'),
                // A port follows its host.
                ":" => !rest.ends_with("//"),
                _ => true,
            };
            is_meant && is_telling(&before[rest.len()..])
        })
}

fn has_telling_word(text: &str) -> bool {
    let is_outer = |letter: char| "\"'`()[]{},;".contains(letter);
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(is_outer))
        .filter(|word| !word.is_empty())
        .collect();
    let is_program = |word: &&str| LOGIN_PROGRAMS.contains(&word.rsplit('/').next().unwrap_or(""));
    let has_password_flag = || {
        let flags = |word: &&str| PASSWORD_FLAGS.iter().any(|flag| word.starts_with(flag));
        words.iter().any(flags)
    };
    words.windows(2).any(|pair| is_followed(pair[0], pair[1]))
        || (words.iter().any(is_program) && has_password_flag())
}

/// Whether `next` is a secret because of the word before it.
fn is_followed(word: &str, next: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_code = |text: &str| {
        let mut rest = text.chars().skip(1);
        text.chars()
            .any(|letter| letter.is_ascii_digit() || letter == '=')
            || rest.any(|letter| letter.is_ascii_uppercase())
    };
    (word.starts_with('-') && is_telling(word))
        || is_secret_word(&lower)
        || lower == "bearer"
        || (lower == "basic" && (word != "basic" || is_code(next)))
        || (LOGIN_FLAGS.contains(&word) && next.contains(':'))
}

fn is_secret_word(lower: &str) -> bool {
    // A path names a place.
    !lower.contains('/')
        && (SECRET_WORD_PARTS.iter().any(|part| lower.contains(part))
            || lower
                .split(|letter: char| !letter.is_alphanumeric())
                .any(|part| SECRET_WORDS.contains(&part)))
}

/// `ann:…@host`.
fn has_login(text: &str) -> bool {
    let is_outside = |letter: char| letter.is_whitespace() || "/@".contains(letter);
    text.match_indices('@').any(|(at, _)| {
        let before = &text[..at];
        let from = before.rfind(is_outside).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        before[from..].split_once(':').is_some_and(|(name, rest)| {
            !name.is_empty() && !rest.is_empty() && !name.ends_with("mailto")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_follows_a_telling_name_is_a_secret() {
        for text in [
            "PGPASSWORD=hunter2 psql -h db",
            "export DB_PASS = hunter2",
            "mysql -u root -phunter2 shop",
            "/usr/bin/mysql -u root -p hunter2",
            "curl -u ann:sesame https://a.example",
            "psql --password hunter2",
            "run --api-key=hunter2",
            "sshpass -p hunter2 ssh db",
            "Authorization: Basic YW5uOnNlc2FtZQ==",
            "Basic YW5uOnNlc2FtZQ==",
            "basic YW5uOnNlc2FtZQ==",
            "bearer hunter2",
            "https://db.example/x?password=swordfish",
            "https://db.example/x?a=b&sig=swordfish",
            "https://a.example/#access_token=hunter2",
            "{\"password\": \"hunter2\"}",
            "{\\\"password\\\":\\\"hunter2\\\"}",
            "<password>hunter2</password>",
            "password => 'hunter2'",
            "config['token'] = 'hunter2'",
            "clone ann:sesame@git.example:x",
            "see https://ann:sesame@git.example/x",
            "my password is hunter2",
            "/password:hunter2",
        ] {
            assert!(tells(text), "{text}");
        }
        for text in [
            "psql -h db -c 'select 1'",
            "https://auth.example:8080/docs?page=2",
            "mkdir -p src/x",
            "note: remember the milk",
            "basic advanced",
            "mailto:ann@example.com",
            "git@github.com:ann/docs.git",
            "cat /srv/secret/notes.txt | wc",
            "token",
            "password=",
            "====",
            "",
        ] {
            assert!(!tells(text), "{text}");
        }
    }

    #[test]
    fn lists_and_objects_tell_by_what_stands_beside() {
        for list in [
            json!(["--password", "hunter2"]),
            json!(["API_KEY", "hunter2"]),
            json!(["PIN", 1234]),
            json!(["curl", "-u", "ann:sesame"]),
            json!(["-H", "Authorization:", "hunter2"]),
        ] {
            assert!(list_tells(list.as_array().unwrap()), "{list}");
        }
        assert!(!list_tells(&[json!("src/auth.rs"), json!("src/main.rs")]));
        for (object, expected) in [
            (json!({ "key": "API_KEY", "value": "x" }), true),
            (json!({ "headerName": "Authorization", "value": "x" }), true),
            (json!({ "env_name": "DB_PASSWORD", "value": "x" }), true),
            (json!({ "name": "Fix the auth bug", "value": "x" }), false),
            (json!({ "kind": "token", "value": "x" }), false),
        ] {
            assert_eq!(
                names_tell(object.as_object().unwrap()),
                expected,
                "{object}"
            );
        }
        assert!(is_value("newValue") && is_value("content") && !is_value("path"));
    }

    /// An agent chooses the texts.
    #[test]
    fn long_texts_take_no_longer_than_they_are() {
        for part in ["=", "= ", ":", "> ", "@", "a:", "\"'", "a "] {
            let text = part.repeat(500_000);
            assert!(!tells(&text) || part == "a:", "{part}");
        }
    }
}

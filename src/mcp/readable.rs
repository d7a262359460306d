//! What a tool's definition says to those who read it, without what cannot be seen or misleads
//! (threat-model §3D D6): control characters, escapes of terminals, marks that turn the direction
//! of writing, characters without width, and tags.
//!
//! Pins keep a definition from changing; this keeps it from saying to a model what its operator
//! does not see.

use super::json::{ScalarKind, Text};
use icu_normalizer::ComposingNormalizerBorrowed;
use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Longest text for reading in bytes (threat-model §8).
pub const MAX_READABLE_BYTES: usize = 4 << 10;
/// Longest escape of a terminal, in characters; what is longer is text.
const MAX_TERMINAL_ESCAPE_CHARS: usize = 64;
/// Members of a definition that nobody reads as text.
const UNREAD_MEMBERS: [&str; 2] = ["_meta", "icons"];
/// Keys of a schema that hold text for reading; what is under others is data, which a call must
/// repeat as it is.
const READABLE_KEYS: [&[u8]; 3] = [b"description", b"title", b"$comment"];
/// What stands at the end of what was cut.
const CUT_SUFFIX: &str = " […]";

/// What was done to a definition.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TextChanges {
    /// Characters that were taken out.
    pub removed: usize,
    /// Texts that were cut to [`MAX_READABLE_BYTES`].
    pub cut: usize,
}

impl TextChanges {
    /// Whether nothing was done.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl std::fmt::Display for TextChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { removed, cut } = self;
        write!(
            f,
            "{removed} characters that cannot be seen or mislead were taken out of its texts, {cut} texts were cut"
        )
    }
}

/// A name or a value that a call would have to repeat holds such a character: the tool must not be
/// offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misleading;

/// The definition as it may be read; as it was written where nothing is wrong with it.
pub fn readable(definition: &Text) -> Result<(Text, TextChanges), Misleading> {
    let (mut edits, mut changes) = (Vec::new(), TextChanges::default());
    let Some(mut members) = definition.object() else {
        return Ok((definition.clone(), changes));
    };
    for (name, member) in definition.members().into_iter().flatten() {
        if name.chars().any(is_misleading) {
            return Err(Misleading);
        }
        if UNREAD_MEMBERS.contains(&&*name) {
            continue;
        }
        let is_schema = matches!(&*name, "inputSchema" | "outputSchema");
        for one in member.scalars() {
            let text = one.value();
            let is_text = one.kind == ScalarKind::String
                && (!is_schema || READABLE_KEYS.contains(&one.under));
            if is_text {
                if let Cow::Owned(new) = clean(&text, &mut changes) {
                    edits.push((one.range, Text::string(&new)));
                }
            } else if text.chars().any(is_misleading) {
                return Err(Misleading);
            }
        }
        if !edits.is_empty() {
            members.set(&name, member.replaced(&std::mem::take(&mut edits)));
        }
    }
    Ok((
        if changes.is_none() {
            definition.clone()
        } else {
            members.text()
        },
        changes,
    ))
}

/// What a server says for reading beside its tools: of itself, of its prompts and its resources.
/// Names and addresses, which a request must repeat, stay as they are; `instructions` are not cut,
/// since pins bound them.
pub fn readable_words(said: &Text) -> Text {
    let mut edits = Vec::new();
    for one in said.scalars().filter(|one| one.kind == ScalarKind::String) {
        let longest = match one.under {
            b"instructions" => usize::MAX,
            under if READABLE_KEYS.contains(&under) => MAX_READABLE_BYTES,
            _ => continue,
        };
        if let Cow::Owned(new) = clean_within(longest, &one.value(), &mut TextChanges::default()) {
            edits.push((one.range, Text::string(&new)));
        }
    }
    if edits.is_empty() {
        said.clone()
    } else {
        said.replaced(&edits)
    }
}

fn clean<'t>(text: &'t str, changes: &mut TextChanges) -> Cow<'t, str> {
    clean_within(MAX_READABLE_BYTES, text, changes)
}

fn clean_within<'t>(longest: usize, text: &'t str, changes: &mut TextChanges) -> Cow<'t, str> {
    if text.len() <= longest && !text.chars().any(is_misleading) {
        return Cow::Borrowed(text);
    }
    let (mut new, mut removed) = (String::with_capacity(text.len().min(longest)), 0);
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' => removed += 1 + escape(&mut rest),
            '\u{9b}' => removed += 1 + sequence(&mut rest),
            next if is_misleading(next) => removed += 1,
            next => new.push(next),
        }
    }
    if new.len() > longest {
        new.truncate(new.floor_char_boundary(longest - CUT_SUFFIX.len()));
        new.push_str(CUT_SUFFIX);
        changes.cut += 1;
    }
    changes.removed += removed;
    Cow::Owned(new)
}

/// Passes over what follows an ESC, if that is an escape of a terminal; says how many characters it
/// has.
fn escape(rest: &mut Peekable<Chars<'_>>) -> usize {
    match rest.peek() {
        Some('[') => {
            rest.next();
            1 + sequence(rest)
        }
        // The title of a window, a link: up to BEL or ESC \.
        Some(']') => {
            let mut length = 0;
            let mut ahead = rest.clone();
            while let Some(next) = ahead
                .next()
                .filter(|_| length < 4 * MAX_TERMINAL_ESCAPE_CHARS)
            {
                length += 1;
                if next == '\u{7}' || (next == '\u{1b}' && ahead.next_if_eq(&'\\').is_some()) {
                    length += usize::from(next == '\u{1b}');
                    *rest = ahead;
                    return length;
                }
            }
            0
        }
        Some(_) | None => 0,
    }
}

/// Passes over parameters and the final byte of a control sequence (ECMA-48 §5.4).
fn sequence(rest: &mut Peekable<Chars<'_>>) -> usize {
    let mut length = 0;
    while length < MAX_TERMINAL_ESCAPE_CHARS
        && rest
            .next_if(|next| ('\u{20}'..='\u{3f}').contains(next))
            .is_some()
    {
        length += 1;
    }
    length
        + usize::from(
            rest.next_if(|next| ('\u{40}'..='\u{7e}').contains(next))
                .is_some(),
        )
}

/// `text` with each letter that Unicode spells in several ways (`é`, or `e` and an accent) in one
/// way (NFC).
pub fn composed(text: &str) -> Cow<'_, str> {
    ComposingNormalizerBorrowed::new_nfc().normalize(text)
}

/// Whether a character cannot be seen, or makes others seem to be something else. Tabs and line
/// ends do not, and neither does the mark that makes an emoji of a sign.
pub fn is_misleading(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{fe00}'..='\u{fe0e}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(definition: &Value) -> Result<(Value, TextChanges), Misleading> {
        readable(&Text::of(definition)).map(|(text, changes)| (text.value(), changes))
    }

    fn tool(description: &str) -> Value {
        json!({ "name": "a", "description": description, "inputSchema": { "type": "object" } })
    }

    /// threat-model §3D D6: what a model would read and a person would not see is taken out.
    #[test]
    fn texts_are_cleaned() {
        for (written, shown, removed) in [
            (
                "Reads a file.\n\tThe path is `p`; größer, 日本語, ⚠\u{fe0f}.",
                None,
                0,
            ),
            (
                "\u{1b}[31mred\u{1b}[0m, \u{1b}[1;38;5;3mmore\u{9b}2K.",
                Some("red, more."),
                23,
            ),
            (
                "\u{1b}]0;a title\u{7}x\u{1b}]8;;http://a\u{1b}\\link",
                Some("xlink"),
                27,
            ),
            ("\u{1b}] not closed", Some("] not closed"), 1),
            ("a\u{8}b\0c\u{7f}d\u{85}e", Some("abcde"), 4),
            (
                "user\u{202e}txt.exe\u{202c} \u{2066}x\u{2069}\u{200f}",
                Some("usertxt.exe x"),
                5,
            ),
            (
                "pass\u{200b}word\u{feff}\u{2060}\u{ad}",
                Some("password"),
                4,
            ),
            (
                "hi\u{e0001}\u{e0049}\u{e0067}\u{e007f}\u{e0100}\u{fe01}",
                Some("hi"),
                6,
            ),
        ] {
            let (seen, changes) = read(&tool(written)).unwrap();
            assert_eq!(seen["description"], shown.unwrap_or(written), "{written:?}");
            assert_eq!((changes.removed, changes.cut), (removed, 0), "{written:?}");
        }
    }

    /// threat-model §8: a description has a bound, at a character.
    #[test]
    fn long_texts_are_cut() {
        let (seen, changes) = read(&tool(&"ö".repeat(MAX_READABLE_BYTES))).unwrap();
        let seen = seen["description"].as_str().unwrap();
        assert!(
            seen.len() <= MAX_READABLE_BYTES && seen.starts_with("öö") && seen.ends_with("ö […]"),
            "{}",
            seen.len()
        );
        assert_eq!(changes, TextChanges { removed: 0, cut: 1 });
        assert!(
            read(&tool(&"x".repeat(MAX_READABLE_BYTES)))
                .unwrap()
                .1
                .is_none()
        );
    }

    /// threat-model §3D D6, §3C C9: so is what is said beside the tools; what a request must repeat
    /// stays.
    #[test]
    fn words_beside_the_tools_are_cleaned() {
        let odd = "a\u{202e}b";
        let long = "x".repeat(MAX_READABLE_BYTES + 1);
        let said = json!({ "instructions": format!("{odd}{long}"), "serverInfo": { "name": odd, "title": odd },
            "prompts": [{ "name": odd, "description": odd, "arguments": [{ "name": "p", "description": odd }] }],
            "resources": [{ "uri": odd, "name": "n", "title": odd, "description": long }] });
        let seen = readable_words(&Text::of(&said)).value();
        assert_eq!(seen["instructions"], format!("ab{long}"));
        assert_eq!(seen["serverInfo"], json!({ "name": odd, "title": "ab" }));
        let prompt = json!({ "name": odd, "description": "ab", "arguments": [{ "name": "p", "description": "ab" }] });
        assert_eq!(seen["prompts"][0], prompt);
        let resource = &seen["resources"][0];
        assert_eq!(
            (&resource["uri"], &resource["title"]),
            (&json!(odd), &json!("ab"))
        );
        assert!(
            resource["description"]
                .as_str()
                .unwrap()
                .ends_with(CUT_SUFFIX)
        );
        let plain = Text::of(&json!({ "instructions": "Look.\n\tThen pay.", "x": odd }));
        assert_eq!(readable_words(&plain), plain);
    }

    /// threat-model §3D D6: titles, annotations and the texts of schemas are read, too; names and
    /// values are data, and a tool whose data mislead is not offered; nobody reads `_meta`.
    #[test]
    fn data_stay_as_they_are_or_the_tool_does_not_come() {
        let odd = "a\u{200b}b";
        let texts = json!({ "name": "a", "title": odd, "annotations": { "title": odd, "readOnlyHint": true },
            "inputSchema": { "type": "object", "description": odd,
                "properties": { "p": { "title": odd, "$comment": odd, "enum": ["\t", ",", "\r\n"] } } },
            "outputSchema": { "description": odd }, "_meta": { "k": odd }, "new": { "text": odd } });
        let (seen, changes) = read(&texts).unwrap();
        assert_eq!(changes.removed, 7);
        let expected = texts
            .to_string()
            .replace(odd, "ab")
            .replace(r#"{"k":"ab"}"#, &format!("{{\"k\":\"{odd}\"}}"));
        assert_eq!(seen.to_string(), expected);
        for schema in [
            json!({ "properties": { odd: {} } }),
            json!({ "properties": { "p": { "enum": [odd] } } }),
            json!({ "properties": { "p": { "const": odd } } }),
            json!({ "properties": { "p": { "default": odd } } }),
            json!({ "required": [odd] }),
        ] {
            let definition = json!({ "name": "a", "inputSchema": schema });
            assert_eq!(read(&definition), Err(Misleading), "{definition}");
        }
        assert_eq!(read(&json!({ "name": "a", odd: 1 })), Err(Misleading));
    }
}

//! Text of agents as an operator has to see it: what does not print, turns the direction of writing
//! or breaks the line stands there as its escape, and a letter that looks like another one of the
//! Latin alphabet is marked, so that nothing can hide in what is allowed (threat-model §3E E5).

use crate::mcp::readable::is_misleading;
use askama::Template;
use std::fmt::Write as _;

/// A text in its parts, as a page shows it: escaped for HTML when it is rendered.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "text.html")]
pub(super) struct VisibleText {
    parts: Vec<TextPart>,
}

/// A part of a text, all of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextPart {
    /// As it is shown; a page still has to escape it.
    pub text: String,
    /// What it is.
    pub kind: PartKind,
}

/// What a part of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Letters that are what they seem.
    Plain,
    /// The escape of what cannot be seen.
    Escape,
    /// A letter that looks like another.
    LookAlike,
}

/// Letters of other alphabets that look like one of `A` to `z`.
const LOOK_ALIKES: &str = "\
АВЕЅІЈКМНОРСТУХаеорсухіјѕһԁԛԝӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορυχօսոհցⅼⅰⅴⅹⅽⅾⅿ";

impl VisibleText {
    /// `text` as it is shown.
    pub(super) fn of(text: &str) -> Self {
        Self { parts: parts(text) }
    }
}

impl TextPart {
    /// The class of its element.
    pub(super) fn class(&self) -> &'static str {
        match self.kind {
            PartKind::Plain => "",
            PartKind::Escape => "escape",
            PartKind::LookAlike => "look-alike",
        }
    }

    /// What it says to who points at it, or listens.
    pub(super) fn title(&self) -> String {
        match self.kind {
            PartKind::Plain => String::new(),
            PartKind::Escape => "a character that cannot be seen".to_owned(),
            PartKind::LookAlike => {
                let codes = self
                    .text
                    .chars()
                    .map(|letter| format!("U+{:04X}", u32::from(letter)));
                let codes: Vec<_> = codes.collect();
                format!("looks like a Latin letter, and is {}", codes.join(" "))
            }
        }
    }
}

/// `text` in its parts; line ends are escapes, too, and end a line.
fn parts(text: &str) -> Vec<TextPart> {
    let is_latin = text.chars().any(|letter| letter.is_ascii_alphabetic());
    let mut parts: Vec<TextPart> = Vec::new();
    for word in text.split_inclusive(|letter: char| !letter.is_alphanumeric()) {
        let is_doubtful = is_latin && seems_latin(word);
        for letter in word.chars() {
            let (kind, shown) = shown(letter, is_doubtful);
            match parts.last_mut() {
                Some(last) if last.kind == kind => last.text.push_str(&shown),
                _ => parts.push(TextPart { text: shown, kind }),
            }
        }
    }
    parts
}

/// Whether a word is spelt with letters that look like Latin ones: some beside those that are, or nothing else.
fn seems_latin(word: &str) -> bool {
    let mut letters = word.chars().filter(|letter| letter.is_alphabetic());
    let looks = |letter: char| LOOK_ALIKES.contains(letter);
    let has_latin = word.chars().any(|letter| letter.is_ascii_alphabetic());
    has_latin || letters.all(looks)
}

fn shown(letter: char, is_doubtful: bool) -> (PartKind, String) {
    match letter {
        '\n' => (PartKind::Escape, "\\n\n".to_owned()),
        '\t' => (PartKind::Escape, "\\t".to_owned()),
        '"' | '\'' | '\\' => (PartKind::Plain, letter.to_string()),
        // Fullwidth forms and mathematical alphabets are Latin letters in another dress.
        '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' => {
            (PartKind::LookAlike, letter.to_string())
        }
        _ if is_misleading(letter) || letter.escape_debug().len() > 1 => {
            let mut escape = String::new();
            let _ = write!(escape, "\\u{{{:x}}}", u32::from(letter));
            (PartKind::Escape, escape)
        }
        _ if is_doubtful && LOOK_ALIKES.contains(letter) => {
            (PartKind::LookAlike, letter.to_string())
        }
        _ => (PartKind::Plain, letter.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(text: &str) -> Vec<(&'static str, String)> {
        let parts = parts(text).into_iter();
        parts.map(|part| (part.class(), part.text)).collect()
    }

    /// threat-model §3E E5: what cannot be seen, and what seems to be something else, is marked.
    #[test]
    fn e5_nothing_hides_in_a_text() {
        let own = str::to_owned;
        assert_eq!(
            told("pay \u{202e}evil\u{200b}!"),
            [
                ("", own("pay ")),
                ("escape", own("\\u{202e}")),
                ("", own("evil")),
                ("escape", own("\\u{200b}")),
                ("", own("!")),
            ]
        );
        assert_eq!(
            told("p\u{430}ypal"),
            [
                ("", own("p")),
                ("look-alike", own("\u{430}")),
                ("", own("ypal"))
            ]
        );
        assert_eq!(
            told("Москва, größer 日本"),
            [("", own("Москва, größer 日本"))]
        );
        assert_eq!(
            told("a\n\u{1b}[2Jb"),
            [
                ("", own("a")),
                ("escape", own("\\n\n\\u{1b}")),
                ("", own("[2Jb"))
            ]
        );
        assert_eq!(
            parts("p\u{430}y")[1].title(),
            "looks like a Latin letter, and is U+0430"
        );
    }

    proptest! {
        #[test]
        fn what_is_plain_prints(text in ".{0,40}|[\\x00-\\x1f\u{202a}-\u{202e}\u{e0000}-\u{e007f}a]{0,9}") {
            for part in parts(&text) {
                let prints = |letter: char| letter == '\n' || !(letter.is_control() || is_misleading(letter));
                prop_assert!(part.text.chars().all(prints), "{part:?}");
            }
        }
    }
}

//! Where a part of a scalar stands: quotes, escapes and indentation lie between what a YAML file
//! has and what it says.

use crate::model::diagnostic::MeantPart;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Something in a file. Lines and columns begin at 1; 0: that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) line: u32,
    pub(super) column: u32,
    /// Characters.
    pub(super) length: u32,
}

/// A character of a file, with its line and column.
#[derive(Debug, Clone, Copy)]
struct Letter {
    is: char,
    line: u32,
    column: u32,
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScalarStyle {
    Plain,
    Single,
    Double,
    /// `|` and `>`.
    Block,
}

/// Where `part` of `value` stands, the scalar that begins at `begins`; `text` is the file from that
/// line on. None if the file does not say it letter by letter, as where an alias stands for it.
pub(super) fn part(text: &str, begins: Mark, value: &str, part: MeantPart) -> Option<Mark> {
    let spelt = spelt(text, begins, value)?;
    let last = value.chars().count().checked_sub(1)?;
    let first = spelt.get(part.start.min(last))?;
    let is_behind = part.start > last;
    let (line, column) = (first.line, first.column + u32::from(is_behind));
    let end = (part.start + part.length).clamp(1, last + 1) - 1;
    let on_line = |letter: &&Letter| letter.line == line && letter.column >= column;
    let until = spelt.get(..=end)?.iter().rev().find(on_line);
    let length = until.map_or(1, |letter| letter.column - column + 1);
    Some(Mark {
        line,
        column,
        length,
    })
}

/// The characters of `value`, each where it stands.
fn spelt(text: &str, begins: Mark, value: &str) -> Option<Vec<Letter>> {
    let mut letters = letters_from(text, begins);
    let style = match letters.peek()?.is {
        '"' => ScalarStyle::Double,
        '\'' => ScalarStyle::Single,
        '|' | '>' => ScalarStyle::Block,
        _ => ScalarStyle::Plain,
    };
    let mut indentation = 0;
    match style {
        ScalarStyle::Double | ScalarStyle::Single => drop(letters.next()),
        ScalarStyle::Block => {
            letters.by_ref().find(|letter| letter.is == '\n')?;
            indentation = skip_blanks(&mut letters, usize::MAX);
        }
        ScalarStyle::Plain => {}
    }
    let mut spelt = Vec::new();
    for wanted in value.chars() {
        let here = *letters.peek()?;
        if here.is == '\n' {
            if wanted != ' ' && wanted != '\n' {
                return None;
            }
            letters.next();
            if style == ScalarStyle::Block {
                skip_blanks(&mut letters, indentation);
            } else {
                while letters
                    .next_if(|letter| letter.is.is_whitespace())
                    .is_some()
                {}
            }
        } else if read(&mut letters, style)? != wanted {
            return None;
        }
        spelt.push(here);
    }
    Some(spelt)
}

fn letters_from(text: &str, begins: Mark) -> Peekable<IntoIter<Letter>> {
    let lines = text.split('\n').zip(begins.line..);
    let letters = lines.flat_map(|(written, line)| {
        let written = written.strip_suffix('\r').unwrap_or(written);
        let of_line = written.chars().chain(['\n']).zip(1..);
        of_line
            .filter(move |(_, column)| line > begins.line || *column >= begins.column)
            .map(move |(is, column)| Letter { is, line, column })
    });
    // As much as a scalar that anything is said about can be long.
    let letters: Vec<Letter> = letters.take(SCALAR_LETTERS_MAX).collect();
    letters.into_iter().peekable()
}

/// Characters of a file in which one scalar is looked for.
const SCALAR_LETTERS_MAX: usize = 32 << 10;

/// Passes over at most `most` spaces. How many there were.
fn skip_blanks(letters: &mut Peekable<IntoIter<Letter>>, most: usize) -> usize {
    let mut passed = 0;
    while passed < most && letters.next_if(|letter| letter.is == ' ').is_some() {
        passed += 1;
    }
    passed
}

/// The next character as the scalar means it.
fn read(letters: &mut Peekable<IntoIter<Letter>>, style: ScalarStyle) -> Option<char> {
    let first = letters.next()?.is;
    match (style, first) {
        (ScalarStyle::Single, '\'') => letters.next_if(|next| next.is == '\'').map(|_| '\''),
        (ScalarStyle::Double, '"') => None,
        (ScalarStyle::Double, '\\') => escaped(letters),
        _ => Some(first),
    }
}

fn escaped(letters: &mut Peekable<IntoIter<Letter>>) -> Option<char> {
    let digits = match letters.next()?.is {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Some(other),
    };
    let number = (0..digits).try_fold(0, |number, _| {
        Some(number * 16 + letters.next()?.is.to_digit(16)?)
    })?;
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands at the place of the part of the value that reads `find`.
    fn found(yaml: &str, value: &str, find: &str) -> Option<String> {
        let begins = Mark {
            line: 1,
            column: 4,
            length: 0,
        };
        let start = value[..value.find(find).unwrap()].chars().count();
        let length = find.chars().count();
        let mark = part(yaml, begins, value, MeantPart { start, length })?;
        let line = yaml.lines().nth(mark.line as usize - 1).unwrap();
        let from = mark.column as usize - 1;
        Some(line.chars().skip(from).take(mark.length as usize).collect())
    }

    /// D13: an error of an expression is shown where its letter stands, however it is quoted.
    #[test]
    fn a_part_of_a_scalar_is_found_in_every_style() {
        for (yaml, value) in [
            ("k: é.a > nope\n", "é.a > nope"),
            ("k: 'it''s > nope'\n", "it's > nope"),
            ("k: \"\\\"\\u00e9\\\" > nope\"\n", "\"é\" > nope"),
            ("k: |\n  a >\n    nope\n", "a >\n  nope\n"),
            ("k: >-\n  a >\n  nope\n", "a > nope"),
            ("k: a >\n   nope\n", "a > nope"),
            ("k: 'a >\n\n   nope'\n", "a >\nnope"),
        ] {
            assert_eq!(
                found(yaml, value, "nope").as_deref(),
                Some("nope"),
                "{yaml}"
            );
        }
        assert_eq!(found("k: *other\n", "a > nope", "nope"), None);
        assert_eq!(found("k: !!str 'nope'\n", "nope", "nope"), None);
    }
}

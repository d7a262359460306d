//! What people write who know other languages: `=`, `and`, `&`, a quote that is not closed. Looked
//! for where an expression cannot be read, whose parser would only say that it cannot.

use crate::model::diagnostic::{MeantPart, Problems};

/// What an expression looks like.
const EXPRESSION_HINT: &str =
    "write an expression of CEL, such as `arguments.amount > 100 && caller.owner == false`";

/// A slip: where, what, and what is right.
struct Slip {
    part: MeantPart,
    message: String,
    hint: String,
}

/// Operators of other languages, the longer before those that they begin with. Those that are right
/// say nothing.
const OPERATORS: &[(&str, &str)] = &[
    ("===", "CEL compares with `==`: `arguments.to == 'x'`"),
    ("!==", "CEL compares with `!=`: `arguments.to != 'x'`"),
    (
        "=~",
        "CEL matches with `matches`: `arguments.to.matches('^x')`",
    ),
    (
        "!~",
        "CEL matches with `matches`: `!arguments.to.matches('^x')`",
    ),
    ("=>", "at least is `>=`: `arguments.amount >= 5`"),
    ("=<", "at most is `<=`: `arguments.amount <= 5`"),
    ("<>", "unequal is `!=`: `arguments.to != 'x'`"),
    ("==", ""),
    ("!=", ""),
    (">=", ""),
    ("<=", ""),
    ("&&", ""),
    ("||", ""),
    ("=", "CEL compares with `==`: `arguments.to == 'x'`"),
    (
        "&",
        "both is `&&`: `arguments.amount > 5 && arguments.to == 'x'`",
    ),
    (
        "|",
        "one of two is `||`: `arguments.amount > 5 || arguments.to == 'x'`",
    ),
    (
        "~",
        "CEL matches with `matches`: `arguments.to.matches('^x')`",
    ),
    ("“", "write plain quotes: `'x'`"),
    ("”", "write plain quotes: `'x'`"),
    ("‘", "write plain quotes: `'x'`"),
    ("’", "write plain quotes: `'x'`"),
    ("`", "write plain quotes: `'x'`"),
    (
        ";",
        "an expression has no `;`; write several rules, or join them by `||`",
    ),
];

/// Words of other languages, in lower case.
const WORDS: &[(&str, &str)] = &[
    (
        "and",
        "both is `&&`: `arguments.amount > 5 && arguments.to == 'x'`",
    ),
    (
        "or",
        "one of two is `||`: `arguments.amount > 5 || arguments.to == 'x'`",
    ),
    ("not", "not is `!`: `!(arguments.to in ['x', 'y'])`"),
    ("is", "CEL compares with `==`: `arguments.to == 'x'`"),
    (
        "like",
        "CEL matches with `matches`: `arguments.to.matches('^x')`",
    ),
    (
        "matches",
        "write it behind a point: `arguments.to.matches('^x')`",
    ),
    (
        "contains",
        "write it behind a point: `arguments.to.contains('x')`",
    ),
    (
        "startswith",
        "write it behind a point: `arguments.to.startsWith('x')`",
    ),
    (
        "endswith",
        "write it behind a point: `arguments.to.endsWith('x')`",
    ),
    (
        "if",
        "CEL chooses with `? :`: `arguments.amount > 5 ? true : false`",
    ),
];

/// Notes what keeps `source` from being read: slips that are known, else what the parser `said`
/// first, with line and column.
pub(super) fn unreadable(source: &str, said: ((isize, isize), &str), problems: &mut Problems) {
    let slips = slips(source);
    for slip in &slips {
        problems.error_at(slip.part, &slip.message, &slip.hint);
    }
    if !slips.is_empty() {
        return;
    }
    let ((line, column), message) = said;
    let number = |place: isize| usize::try_from(place - 1).unwrap_or(0);
    let before = source.split_inclusive('\n').take(number(line));
    let start = before.map(|line| line.chars().count()).sum::<usize>() + number(column);
    let word = quoted(message);
    let (length, message) = match word {
        Some("<EOF>") => (1, "ends where more was expected".to_owned()),
        Some(word) => (
            word.trim_end().chars().count(),
            format!("`{}` was not expected here", word.trim_end().escape_debug()),
        ),
        None => {
            let first = message.lines().next().unwrap_or_default();
            (1, format!("cannot be read: {}", first.escape_debug()))
        }
    };
    problems.error_at(MeantPart { start, length }, message, EXPRESSION_HINT);
}

/// What stands in the first quotes of a parser's message.
fn quoted(message: &str) -> Option<&str> {
    let (_, behind) = message.split_once(" '")?;
    let end = behind.find("' expecting").or_else(|| behind.rfind('\''))?;
    behind.get(..end)
}

/// The slips in `source`, in order.
fn slips(source: &str) -> Vec<Slip> {
    let letters: Vec<char> = source.chars().collect();
    let mut found = Vec::new();
    let mut open: Vec<(usize, char)> = Vec::new();
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        at = match letter {
            '\'' | '"' => {
                let end = closing(&letters, at);
                if end.is_none() {
                    let hint = format!("close it with {letter}, as in {letter}x{letter}");
                    let length = letters.len() - at;
                    found.push(slip(at, length, "a text that is not closed", hint));
                }
                end.map_or(letters.len(), |end| end + 1)
            }
            '(' | '[' | '{' => {
                open.push((at, letter));
                at + 1
            }
            ')' | ']' | '}' => {
                if open.pop().is_none_or(|(_, begun)| pair(begun) != letter) {
                    let hint = "take it away, or open it before";
                    found.push(slip(at, 1, format!("`{letter}` closes nothing"), hint));
                }
                at + 1
            }
            _ if letter.is_alphabetic() || letter == '_' => word(&letters, at, &mut found),
            _ => operator(&letters, at, &mut found),
        };
    }
    if found.is_empty() {
        let unclosed = open.into_iter().map(|(at, letter)| {
            let hint = format!("close it with `{}`", pair(letter));
            slip(at, 1, format!("`{letter}` is not closed"), hint)
        });
        found.extend(unclosed);
    }
    found.sort_by_key(|slip| slip.part.start);
    found
}

fn slip(start: usize, length: usize, message: impl Into<String>, hint: impl Into<String>) -> Slip {
    Slip {
        part: MeantPart { start, length },
        message: message.into(),
        hint: hint.into(),
    }
}

fn pair(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

/// Where the text ends whose quote is at `at`.
fn closing(letters: &[char], at: usize) -> Option<usize> {
    let quote = letters[at];
    let mut escaped = false;
    let is_end = |(_, letter): &(usize, &char)| {
        let ends = !escaped && **letter == quote;
        escaped = !escaped && **letter == '\\';
        ends
    };
    let mut behind = letters.iter().enumerate().skip(at + 1);
    behind.find(is_end).map(|(end, _)| end)
}

/// Judges the word at `at`. Where it ends.
fn word(letters: &[char], at: usize, found: &mut Vec<Slip>) -> usize {
    let is_of_word = |letter: &&char| letter.is_alphanumeric() || **letter == '_';
    let word: String = letters[at..].iter().take_while(is_of_word).collect();
    let end = at + word.chars().count();
    let is_member = at > 0 && letters[at - 1] == '.';
    let next = letters[end..].iter().find(|letter| !letter.is_whitespace());
    let lower = word.to_lowercase();
    let known = WORDS.iter().find(|(known, _)| *known == lower);
    // A function, or a map's key, may have any name; so may what a loop binds.
    let is_name = matches!(next, Some('.' | ':' | ',' | ')' | '=' | '<' | '>'))
        || (next == Some(&'(') && at == 0);
    if let Some((_, hint)) = known.filter(|_| !is_member && !is_name) {
        found.push(slip(
            at,
            end - at,
            format!("`{word}` is no word of CEL"),
            *hint,
        ));
    }
    end
}

/// Judges the operator at `at`, if one is there. Where it ends.
fn operator(letters: &[char], at: usize, found: &mut Vec<Slip>) -> usize {
    let is_here = |written: &str| {
        let mut here = letters[at..].iter();
        written.chars().all(|letter| here.next() == Some(&letter))
    };
    let Some((written, hint)) = OPERATORS.iter().find(|(written, _)| is_here(written)) else {
        return at + 1;
    };
    let length = written.chars().count();
    if !hint.is_empty() {
        let quoted = if *written == "`" {
            "a backtick".to_owned()
        } else {
            format!("`{written}`")
        };
        found.push(slip(
            at,
            length,
            format!("{quoted} is no sign of CEL"),
            *hint,
        ));
    }
    at + length
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D13: what people bring along from other languages is named where it stands.
    #[test]
    fn each_slip_is_found_where_it_stands() {
        for (source, parts) in [
            ("arguments.a = 5", &["="][..]),
            (
                "arguments.a => 5 and arguments.b <> 'and = or'",
                &["=>", "and", "<>"],
            ),
            (
                "arguments.a === 5 & caller.owner | true",
                &["===", "&", "|"],
            ),
            ("arguments.a == 'open", &["'open"]),
            ("not arguments.a", &["not"]),
            ("arguments.a matches '^x'", &["matches"]),
            ("(arguments.a == 5", &["("]),
            ("arguments.a == 5)", &[")"]),
            ("arguments.a == “x”", &["“", "”"]),
            (
                "arguments.or == 'it\\'s' && arguments.l.all(or, or == 1)",
                &[],
            ),
        ] {
            let letters: Vec<char> = source.chars().collect();
            let said: Vec<String> = slips(source)
                .iter()
                .map(|slip| {
                    letters
                        .iter()
                        .skip(slip.part.start)
                        .take(slip.part.length)
                        .collect()
                })
                .collect();
            assert_eq!(said, parts, "{source}");
        }
    }
}

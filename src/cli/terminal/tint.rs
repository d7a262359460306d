//! Colours for lines that begin with a word that says how things stand: `error: …`, `problem  …`,
//! `  visible     refused  …`. The words are others'; here is only what colour they have.

use super::{Terminal, Tone};

/// Words that say how things stand, and what they mean to their reader.
const MARKS: [(&str, Tone); 23] = [
    ("error", Tone::Bad),
    ("warning", Tone::Warn),
    ("help", Tone::Hint),
    ("= help", Tone::Hint),
    ("note", Tone::Faint),
    ("ok", Tone::Good),
    ("problem", Tone::Bad),
    ("passed", Tone::Good),
    ("refused", Tone::Bad),
    ("held", Tone::Warn),
    ("changed", Tone::Warn),
    ("limited", Tone::Warn),
    ("drifted", Tone::Bad),
    ("withheld", Tone::Bad),
    ("absent", Tone::Warn),
    ("unknown", Tone::Warn),
    ("new", Tone::Warn),
    ("FAIL", Tone::Bad),
    ("DAMAGED", Tone::Bad),
    ("FORGED", Tone::Bad),
    ("WORSE", Tone::Bad),
    ("CHANGED", Tone::Bad),
    ("VIOLATIONS", Tone::Bad),
];
/// How far from the beginning of a line such a word stands, after the name of a step.
const MAX_MARK_COLUMN: usize = 16;

/// `text` with colours, line by line.
pub(super) fn lines(text: &str, terminal: &Terminal) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => one(line, terminal) + "\n",
            None => one(line, terminal),
        })
        .collect()
}

fn one(line: &str, terminal: &Terminal) -> String {
    let rest = line.trim_start();
    if let Some(carets) = rest.strip_prefix("| ").map(str::trim)
        && !carets.is_empty()
        && carets.bytes().all(|byte| byte == b'^')
    {
        return line.replacen(carets, &terminal.paint(Tone::Bad, carets), 1);
    }
    let indent = line.len() - rest.len();
    if let Some((mark, tone)) = mark(rest) {
        return painted(line, indent, mark, tone, terminal);
    }
    // `step  word  …`, or `file:line:column: word: …`.
    let second = rest.find("  ").map(|end| {
        let after = &rest[end..];
        indent + end + after.len() - after.trim_start().len()
    });
    let placed = rest
        .find(": error: ")
        .or_else(|| rest.find(": warning: "))
        .map(|end| indent + end + 2);
    for at in [second.filter(|at| *at <= MAX_MARK_COLUMN), placed] {
        let found = at.and_then(|at| Some((at, mark(line.get(at..)?)?)));
        if let Some((at, (mark, tone))) = found {
            return painted(line, at, mark, tone, terminal);
        }
    }
    line.to_owned()
}

/// The mark that `text` begins with, as a whole word.
fn mark(text: &str) -> Option<(&'static str, Tone)> {
    MARKS.into_iter().find(|(mark, _)| {
        text.strip_prefix(mark).is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with(": ")
                || rest.starts_with("  ")
                || is_padded(mark, rest)
        })
    })
}

/// Whether `rest` goes on after a mark of eight letters, which fills its column but for one blank.
fn is_padded(mark: &str, rest: &str) -> bool {
    mark.len() == 8 && rest.starts_with(' ')
}

fn painted(line: &str, at: usize, mark: &str, tone: Tone, terminal: &Terminal) -> String {
    let (before, rest) = line.split_at(at);
    let (mark, after) = rest.split_at(mark.len());
    format!("{before}{}{after}", terminal.paint(tone, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word has the colour, and nothing else of the line is touched.
    #[test]
    fn words_that_say_how_things_stand_have_colours() {
        let terminal = Terminal::of(None, "2026-11-28T00:00:00Z").colored();
        let (bad, warn, good, hint, end) = (
            "\u{1b}[1m\u{1b}[31m",
            "\u{1b}[33m",
            "\u{1b}[32m",
            "\u{1b}[36m",
            "\u{1b}[0m",
        );
        for (line, expected) in [
            ("error: x", format!("{bad}error{end}: x")),
            (
                "a.yaml:1:2: warning: x",
                format!("a.yaml:1:2: {warn}warning{end}: x"),
            ),
            ("    help: x", format!("    {hint}help{end}: x")),
            ("  = help: x", format!("  {hint}= help{end}: x")),
            ("12 | a: b", "12 | a: b".to_owned()),
            ("   |    ^^^", format!("   |    {bad}^^^{end}")),
            ("ok       x", format!("{good}ok{end}       x")),
            ("problem  x", format!("{bad}problem{end}  x")),
            (
                "  visible     refused  x",
                format!("  visible     {bad}refused{end}  x"),
            ),
            ("withheld a tool", format!("{bad}withheld{end} a tool")),
            ("new calls are refused", "new calls are refused".to_owned()),
            ("nothing of the kind", "nothing of the kind".to_owned()),
            ("é: error: ü", format!("é: {bad}error{end}: ü")),
        ] {
            assert_eq!(lines(line, &terminal), expected);
            assert_eq!(
                lines(&format!("{line}\n{line}"), &terminal),
                format!("{expected}\n{expected}")
            );
        }
    }
}

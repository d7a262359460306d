//! What can be read of a file that is not YAML all through: the entries with the errors are left
//! out, and the rest is judged in the same run. Such a file is never used, only judged.

use super::{EMPTY_VALUE_MESSAGE, YamlDocument, text_of};
use crate::model::diagnostic::Diagnostic;
use std::ops::Range;
use std::path::Path;

/// Errors of one file that are looked behind, and the bytes of a file in which that is done.
const MAX_SYNTAX_ERRORS: usize = 12;
const SALVAGED_BYTES_MAX: usize = 256 << 10;
/// Bytes of one file that are read in all for that, again and again: a second, where reading is slow.
const SALVAGE_BYTES_READ_MAX: usize = 8 << 20;
/// Lines before an error among which its cause is looked for.
const MAX_LINES_BEFORE: usize = 60;

impl YamlDocument {
    /// As [`Self::read`], and if the file is not YAML all through, what can be read of it beside
    /// the errors.
    pub(crate) fn read_through(path: &Path) -> (Option<Self>, Vec<Diagnostic>) {
        match text_of(path, super::YAML_FILE_BYTES_MAX) {
            Ok((file, text)) => Self::parse_through(&file, text),
            Err(unreadable) => (None, vec![unreadable]),
        }
    }

    /// Whether the entry that begins on `line`, from 1, lacks what could not be read of it.
    pub(crate) fn is_torn(&self, line: u32) -> bool {
        if self.lost_lines.is_empty() {
            return false;
        }
        let lines: Vec<&str> = self.text.split('\n').collect();
        let first = usize::try_from(line).unwrap_or(0).saturating_sub(1);
        let Some(depth) = lines.get(first).and_then(|line| depth(line)) else {
            return false;
        };
        let end = end_of(&lines, first, depth);
        self.lost_lines
            .iter()
            .any(|lost| (first..end).contains(lost))
    }

    /// Whether `found` says of a key that it has no value, and that could not be read.
    pub(crate) fn is_left_empty(&self, found: &Diagnostic) -> bool {
        found.message == EMPTY_VALUE_MESSAGE && self.is_torn(found.line)
    }

    /// As [`Self::read_through`], of a text.
    fn parse_through(file: &str, text: String) -> (Option<Self>, Vec<Diagnostic>) {
        let mut found: Vec<Diagnostic> = Vec::new();
        let mut lines: Vec<&str> = text.split('\n').collect();
        let mut lost = Vec::new();
        let mut trials = SalvageTrials {
            file,
            left: SALVAGE_BYTES_READ_MAX,
        };
        while found.len() < MAX_SYNTAX_ERRORS {
            let mut error = match Self::parse(file, lines.join("\n")) {
                Ok(mut document) => {
                    document.lost = lost
                        .iter()
                        .filter_map(|line| key_of(&text, *line))
                        .collect();
                    document.lost_lines.clone_from(&lost);
                    document.is_complete = found.is_empty();
                    document.text = text;
                    return (Some(document), found);
                }
                Err(error) => error,
            };
            let entry = (text.len() <= SALVAGED_BYTES_MAX).then(|| trials.culprit(&lines, &error));
            let Some(entry) = entry.flatten() else {
                found.push(error);
                return (None, found);
            };
            let judged = match entry.len() {
                1 => format!("line {} was not judged", entry.start + 1),
                _ => format!("lines {} to {} were not judged", entry.start + 1, entry.end),
            };
            error.hint = error
                .hint
                .map(|hint| hint.replace("nothing behind this place was judged", &judged));
            found.push(error);
            lost.push(entry.start);
            lines[entry].fill("");
        }
        (None, found)
    }
}

/// Readings of a file without one of its entries each.
struct SalvageTrials<'f> {
    file: &'f str,
    /// Bytes that may be read yet.
    left: usize,
}

impl SalvageTrials<'_> {
    /// The entry without which reading gets furthest behind `error`, and of those the shortest: as far
    /// as there is time to try.
    fn culprit(&mut self, lines: &[&str], error: &Diagnostic) -> Option<Range<usize>> {
        let at = usize::try_from(error.line)
            .ok()?
            .checked_sub(1)?
            .min(lines.len() - 1);
        let mut entries: Vec<Range<usize>> = Vec::new();
        for line in suspects(lines, at) {
            entries.extend(entries_around(lines, line));
        }
        entries.sort_by_key(|entry| (entry.len(), entry.start));
        entries.dedup();
        let mut best: Option<(u32, Range<usize>)> = None;
        for entry in entries {
            let Some(reach) = self.reach(lines, &entry) else {
                break;
            };
            let is_further = best.as_ref().is_none_or(|(before, _)| reach > *before);
            if reach > error.line && is_further {
                best = Some((reach, entry));
            }
            if reach == u32::MAX {
                break;
            }
        }
        best.map(|(_, entry)| entry)
    }

    /// The line that reading gets to without `entry`; none where enough was read.
    fn reach(&mut self, lines: &[&str], entry: &Range<usize>) -> Option<u32> {
        let mut without = lines.to_vec();
        without[entry.clone()].fill("");
        let text = without.join("\n");
        self.left = self.left.checked_sub(text.len())?;
        Some(match YamlDocument::parse(self.file, text) {
            Ok(_) => u32::MAX,
            Err(next) => next.line,
        })
    }
}

/// The lines that may have caused an error at the line `at`: itself, those around it, and the last
/// ones that leave a quote or a bracket open.
fn suspects(lines: &[&str], at: usize) -> Vec<usize> {
    let is_written = |line: &usize| !lines[*line].trim().is_empty();
    let before = at.saturating_sub(MAX_LINES_BEFORE)..at;
    let leaves_open = |line: &usize| {
        let count = |letter: char| lines[*line].matches(letter).count();
        count('"') % 2 == 1
            || count('\'') % 2 == 1
            || count('[') != count(']')
            || count('{') != count('}')
    };
    let mut suspects: Vec<usize> = vec![at, (at + 1).min(lines.len() - 1)];
    suspects.extend(before.clone().rev().find(is_written));
    suspects.extend(before.rev().filter(leaves_open).take(3));
    suspects
}

/// The entries that `line` lies in, the innermost first: a line with what is indented deeper below
/// it. None of them is a whole section of the file, unless it is one line.
fn entries_around(lines: &[&str], line: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = line;
    let is_tabbed = lines[at].starts_with('\t');
    let Some(mut depth) = depth(lines[at]).filter(|_| !is_tabbed) else {
        return std::iter::once(line..line + 1).collect();
    };
    loop {
        let end = end_of(lines, at, depth);
        if depth > 0 || end == at + 1 || at == line {
            found.push(at..end);
        }
        let above = (0..at)
            .rev()
            .find(|above| self::depth(lines[*above]).is_some_and(|above| above < depth));
        let Some(above) = above else { return found };
        depth = self::depth(lines[above]).unwrap_or_default();
        at = above;
        if depth == 0 {
            return found;
        }
    }
}

/// The line behind the entry that begins on the line `at`, which is as deep as `depth`.
fn end_of(lines: &[&str], at: usize, depth: usize) -> usize {
    let is_outside = |below: &usize| self::depth(lines[*below]).is_some_and(|below| below <= depth);
    (at + 1..lines.len())
        .find(is_outside)
        .unwrap_or(lines.len())
}

/// Spaces before what a line says; none: it says nothing.
fn depth(line: &str) -> Option<usize> {
    let said = line.trim_start();
    (!said.is_empty() && !said.starts_with('#')).then(|| line.len() - said.len())
}

/// The key of the file's root below which the line `at` stands.
fn key_of(text: &str, at: usize) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').take(at + 1).collect();
    let root = lines.iter().rev().find(|line| depth(line) == Some(0))?;
    let (key, _) = root.split_once(':')?;
    Some(key.trim_matches(['"', '\'', ' ']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> (Vec<(u32, String)>, Vec<String>) {
        let (document, found) = YamlDocument::parse_through("p.yaml", text.to_owned());
        let errors = found
            .into_iter()
            .map(|one| (one.line, one.hint.unwrap_or_default()));
        let contracts = document.map(|document| document.tree()["contracts"].clone());
        let names = contracts
            .iter()
            .filter_map(|all| all.as_object())
            .flat_map(|all| all.keys());
        (errors.collect(), names.cloned().collect())
    }

    /// D13: what is no YAML hides nothing but the entry that it is in.
    #[test]
    fn the_entries_beside_an_error_are_read() {
        for (broken, lines) in [
            ("    actions: [read\n", &[4][..]),
            ("    purpose: \"open\n", &[4]),
            ("    not_for: a: b\n", &[4]),
            ("   actions: [read]\n", &[4]),
            ("    purpose: again\n    purpose: again\n", &[4, 5]),
            ("    when: 'a' == 'b'\n", &[4]),
            ("\tactions: [read]\n", &[4]),
        ] {
            let text = format!(
                "contracts:\n  a__a:\n    purpose: p\n{broken}    secrets: []\n  b__b:\n    purpose: \"q\"\n    actions: [read]\n"
            );
            let (errors, names) = judged(&text);
            let last = names.last().map(String::as_str);
            assert_eq!(last, Some("b__b"), "{broken}: {errors:?}");
            assert!(errors.len() <= lines.len(), "{broken}: {errors:?}");
        }
    }

    /// 017: a large file with many errors is not read over and over; what was found is told.
    #[test]
    fn what_takes_long_to_look_behind_is_not_judged() {
        let broken = |number: usize| {
            format!("  a__{number}:\n    purpose: p\n    not_for: a: b\n    secrets: []\n")
        };
        let entries: String = (0..MAX_SYNTAX_ERRORS - 1).map(broken).collect();
        let text = |padding: usize| {
            let said = "      what nobody reads at all\n".repeat(padding);
            format!("contracts:\n{entries}  z__z:\n    purpose: |\n      q\n{said}")
        };
        let read = |padding: usize| YamlDocument::parse_through("p.yaml", text(padding));
        let (small, few) = read(0);
        assert!(small.is_some(), "{few:?}");
        let (large, found) = read(8_000);
        assert!(large.is_none());
        assert!((1..few.len()).contains(&found.len()), "{found:?}");
        let last = found.last().and_then(|one| one.hint.as_deref()).unwrap();
        assert!(last.contains("nothing behind this place"), "{last}");
    }

    #[test]
    fn what_cannot_be_looked_behind_is_told_once() {
        let (errors, names) = judged("}{\n");
        assert_eq!((errors.len(), names.len()), (1, 0), "{errors:?}");
    }
}

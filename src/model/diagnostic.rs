//! What is wrong in a file, where, and what to do: collected, never thrown.

use super::acting::shown;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, and probably means something else than its author thinks.
    Warning,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// The file, as the author named it.
    pub file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// Column, from 1; 0 when the whole file is meant.
    pub column: u32,
    /// Characters from there on that are meant, within the line; 0 when that is not known.
    pub length: u32,
    /// What is wrong: lower case, no final stop, never a secret.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", shown(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, ": {severity}: {}", shown(&self.message))?;
        if let Some(hint) = &self.hint {
            write!(f, "\n    help: {}", shown(hint))?;
        }
        Ok(())
    }
}

/// Problems of each severity that are told of one file.
pub const PROBLEMS_AT_MOST: usize = 1_000;
/// How the last of them begins, where there are more.
pub const MORE_PROBLEMS: &str = "there are more";

/// The `most` of them that matter most, errors before warnings, in the order they have; and how many
/// are left out.
pub fn foremost(all: &[Diagnostic], most: usize) -> (Vec<&Diagnostic>, usize) {
    let is_error = |one: &&Diagnostic| one.severity == Severity::Error;
    let errors = all.iter().filter(is_error).count();
    let (mut errors_left, mut warnings_left) = (most, most.saturating_sub(errors));
    let has_room = |one: &&Diagnostic| {
        let left = match one.severity {
            Severity::Error => &mut errors_left,
            Severity::Warning => &mut warnings_left,
        };
        let has_room = *left > 0;
        *left = left.saturating_sub(1);
        has_room
    };
    let told: Vec<&Diagnostic> = all.iter().filter(has_room).collect();
    let left_out = all.len() - told.len();
    (told, left_out)
}

/// Places in a file, as paths from its root, each with all that is below it.
#[derive(Debug, Clone, Default)]
pub struct PlaceSet(HashSet<Vec<String>>);

impl PlaceSet {
    /// One more.
    pub fn insert(&mut self, place: Vec<String>) {
        self.0.insert(place);
    }

    /// Whether `path` is one of them or below one. It takes as long as `path` is deep, however many
    /// there are.
    pub fn covers(&self, path: &[String]) -> bool {
        !self.0.is_empty() && (0..=path.len()).any(|depth| self.0.contains(&path[..depth]))
    }
}

/// A part of a text value, in characters of what the text says, whatever quotes it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeantPart {
    /// The first character, from 0.
    pub start: usize,
    /// How many.
    pub length: usize,
}

impl MeantPart {
    /// Line and column of its beginning in `text`, both from 1.
    pub fn place_in(self, text: &str) -> (usize, usize) {
        let before: Vec<char> = text.chars().take(self.start).collect();
        let line = before.iter().filter(|letter| **letter == '\n').count() + 1;
        let column = before
            .iter()
            .rev()
            .take_while(|&&letter| letter != '\n')
            .count()
            + 1;
        (line, column)
    }
}

/// All problems found so far. A place is a path in the file, such as
/// `contracts.billing__send.rules[0].when`; the module that reads the file turns it into line and
/// column.
#[derive(Debug, Default)]
pub struct Problems {
    path: Vec<String>,
    found: Vec<Problem>,
    /// Where something else stands than was written: what is wrong there has been told.
    stand_ins: PlaceSet,
    /// Keys that were read as others: the path as it is read, and the key as it is written.
    renamed: HashMap<Vec<String>, String>,
    /// How many there are, also of those that are not kept.
    errors: usize,
    warnings: usize,
}

/// One problem, by its path in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// Keys and indexes from the root of the file.
    pub path: Vec<String>,
    /// The part of the text at `path` that is meant; none: all of it.
    pub part: Option<MeantPart>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problems {
    /// Looks at a part of the file under `key`.
    pub fn under<T>(&mut self, key: impl Into<String>, look: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(key.into());
        let found = look(self);
        self.path.pop();
        found
    }

    /// Notes an error here.
    pub fn error(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.note(Severity::Error, message.into(), hint.into());
    }

    /// Notes a warning here.
    pub fn warning(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.note(Severity::Warning, message.into(), hint.into());
    }

    /// Notes an error in a part of the text that stands here.
    pub fn error_at(
        &mut self,
        part: MeantPart,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let before = self.found.len();
        self.error(message, hint);
        if let Some(noted) = self.found.get_mut(before) {
            noted.part = Some(part);
        }
    }

    /// From here on nothing more is noted at or below `path`, from the root: a stand-in is there,
    /// so that the rest can be judged.
    pub fn stand_in(&mut self, path: Vec<String>) {
        self.stand_ins.insert(path);
    }

    /// From here on what is found at or below `path`, from the root, is noted under the key
    /// `written` in place of its last.
    pub fn rename(&mut self, path: Vec<String>, written: String) {
        self.renamed.insert(path, written);
    }

    fn note(&mut self, severity: Severity, message: String, hint: String) {
        let hint = (!hint.is_empty()).then_some(hint);
        if self.stand_ins.covers(&self.path) {
            return;
        }
        let count = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count > PROBLEMS_AT_MOST {
            return;
        }
        let path = self.written_path();
        self.found.push(Problem {
            severity,
            path,
            part: None,
            message,
            hint,
        });
    }

    /// The path of this place, with the keys that are written.
    fn written_path(&self) -> Vec<String> {
        let written = |(depth, step): (usize, &String)| {
            let renamed = self.renamed.get(&self.path[..=depth]);
            renamed.unwrap_or(step).clone()
        };
        self.path.iter().enumerate().map(written).collect()
    }

    /// The places at which something stands in for what was written.
    pub fn stand_ins(&self) -> PlaceSet {
        self.stand_ins.clone()
    }

    /// Everything that was noted: at most [`PROBLEMS_AT_MOST`] of each severity, and that there are
    /// more.
    pub fn into_found(self) -> Vec<Problem> {
        let mut found = self.found;
        for (severity, count, what) in [
            (Severity::Error, self.errors, "errors"),
            (Severity::Warning, self.warnings, "warnings"),
        ] {
            let more = (count > PROBLEMS_AT_MOST).then(|| Problem {
                severity,
                path: Vec::new(),
                part: None,
                message: format!(
                    "{MORE_PROBLEMS} {what} than the {PROBLEMS_AT_MOST} that are told of this file"
                ),
                hint: Some(
                    "mend these first; what hangs on them may not have been judged".to_owned(),
                ),
            });
            found.extend(more);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(of: &str) -> Vec<String> {
        of.split('/').map(str::to_owned).collect()
    }

    /// 017: of many problems the first are kept, and never so that a file without a good word seems
    /// fine: errors that come after many warnings stay.
    #[test]
    fn what_is_kept_of_many_problems_has_the_errors() {
        let mut problems = Problems::default();
        for _ in 0..3 * PROBLEMS_AT_MOST {
            problems.warning("odd", "");
        }
        problems.error("wrong", "");
        let found = problems.into_found();
        assert_eq!(found.len(), PROBLEMS_AT_MOST + 2);
        let errors: Vec<&Problem> = found
            .iter()
            .filter(|one| one.severity == Severity::Error)
            .collect();
        assert_eq!((errors.len(), &*errors[0].message), (1, "wrong"));
        let last = &found[PROBLEMS_AT_MOST + 1];
        assert!(last.message.starts_with(MORE_PROBLEMS), "{}", last.message);
        assert_eq!(last.severity, Severity::Warning);
    }

    #[test]
    fn places_are_covered_with_what_is_below_them() {
        let mut places = PlaceSet::default();
        assert!(!places.covers(&path("a/b")));
        places.insert(path("a/b"));
        for (of, covers) in [
            ("a", false),
            ("a/b", true),
            ("a/b/c", true),
            ("a/bc", false),
        ] {
            assert_eq!(places.covers(&path(of)), covers, "{of}");
        }
    }

    /// A key that is read as another is told as it is written, also within such a key.
    #[test]
    fn renamed_keys_are_told_as_they_are_written() {
        let mut problems = Problems::default();
        problems.rename(path("a"), "x".to_owned());
        problems.rename(path("a/b"), "y".to_owned());
        problems.under("a", |problems| {
            problems.under("b", |problems| {
                problems.under("c", |problems| problems.error("wrong", ""));
            });
        });
        assert_eq!(problems.into_found()[0].path, path("x/y/c"));
    }

    #[test]
    fn errors_are_foremost() {
        let one = |severity, line| Diagnostic {
            severity,
            file: "p.yaml".to_owned(),
            line,
            column: 1,
            length: 0,
            message: "odd".to_owned(),
            hint: None,
        };
        let all = [
            one(Severity::Warning, 1),
            one(Severity::Error, 2),
            one(Severity::Warning, 3),
            one(Severity::Error, 4),
        ];
        let lines = |most| {
            let (told, left_out) = foremost(&all, most);
            let lines: Vec<u32> = told.iter().map(|one| one.line).collect();
            (lines, left_out)
        };
        assert_eq!(lines(4), (vec![1, 2, 3, 4], 0));
        assert_eq!(lines(3), (vec![1, 2, 4], 1));
        assert_eq!(lines(1), (vec![2], 3));
    }
}

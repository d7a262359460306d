//! What is wrong in a file, where, and what to do: collected, never thrown.

use super::acting::shown;
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
    stand_ins: Vec<Vec<String>>,
    /// Keys that were read as others: the path as it is read, and the key as it is written.
    renamed: Vec<(Vec<String>, String)>,
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
        self.stand_ins.push(path);
    }

    /// From here on what is found at or below `path`, from the root, is noted under the key
    /// `written` in place of its last.
    pub fn rename(&mut self, path: Vec<String>, written: String) {
        self.renamed.push((path, written));
    }

    fn note(&mut self, severity: Severity, message: String, hint: String) {
        let hint = (!hint.is_empty()).then_some(hint);
        if self
            .stand_ins
            .iter()
            .any(|told| self.path.starts_with(told))
        {
            return;
        }
        let mut path = self.path.clone();
        for (read, written) in &self.renamed {
            if let Some(last) = read.len().checked_sub(1)
                && path.starts_with(read)
            {
                path[last].clone_from(written);
            }
        }
        self.found.push(Problem {
            severity,
            path,
            part: None,
            message,
            hint,
        });
    }

    /// The paths at which something stands in for what was written.
    pub fn stand_ins(&self) -> Vec<Vec<String>> {
        self.stand_ins.clone()
    }

    /// Everything that was noted.
    pub fn into_found(self) -> Vec<Problem> {
        self.found
    }
}

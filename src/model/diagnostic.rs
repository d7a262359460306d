//! What is wrong in a file, where, and what to do: collected, never thrown.

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
    /// What is wrong: lower case, no final stop, never a secret.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, ": {severity}: {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n    help: {hint}")?;
        }
        Ok(())
    }
}

/// All problems found so far. A place is a path in the file, such as
/// `contracts.billing__send.rules[0].when`; the module that reads the file turns it into line and
/// column.
#[derive(Debug, Default)]
pub struct Problems {
    path: Vec<String>,
    found: Vec<Problem>,
}

/// One problem, by its path in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// Keys and indexes from the root of the file.
    pub path: Vec<String>,
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

    fn note(&mut self, severity: Severity, message: String, hint: String) {
        let hint = (!hint.is_empty()).then_some(hint);
        self.found.push(Problem {
            severity,
            path: self.path.clone(),
            message,
            hint,
        });
    }

    /// Everything that was noted.
    pub fn into_found(self) -> Vec<Problem> {
        self.found
    }
}

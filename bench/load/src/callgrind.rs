//! Reads what callgrind counted: instructions by function, one file for each thread.

use anyhow::{Context as _, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Letters of a name that are kept: names of closures in closures are longer than a line.
const NAME_LETTERS: usize = 160;
/// What callgrind writes its files after.
pub(crate) const FILES: &str = "counts";

/// What one thread did.
#[derive(Debug, Default, Clone)]
pub(crate) struct ThreadCounts {
    /// Instructions.
    pub(crate) total: u64,
    /// The same by function.
    pub(crate) functions: HashMap<String, FunctionCounts>,
}

/// What one function did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionCounts {
    /// Instructions of its own.
    pub(crate) own: u64,
    /// Instructions of all that it called. Too many where functions call each other in a circle.
    pub(crate) called: u64,
    /// How often it was called.
    pub(crate) entered: u64,
}

impl ThreadCounts {
    /// Reads a file, written without compression of names and positions.
    ///
    /// # Errors
    ///
    /// It is of another form.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        ensure!(
            text.starts_with("# callgrind format"),
            "this is no file of callgrind"
        );
        let mut counts = Self::default();
        let (mut function, mut callee, mut calls) = (String::new(), String::new(), None);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                function = plain(name);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = plain(name);
            } else if let Some(rest) = line.strip_prefix("calls=") {
                calls = Some(number(rest.split(' ').next())?);
            } else if let Some(rest) = line.strip_prefix("totals: ") {
                counts.total = number(Some(rest))?;
            } else if line.starts_with(|first: char| first.is_ascii_digit()) {
                // A position, then the cost; a cost of zero may be left out.
                let cost = line
                    .split(' ')
                    .nth(1)
                    .map_or(Ok(0), |cost| number(Some(cost)))?;
                counts.take(
                    &function,
                    cost,
                    calls.take().map(|calls| (calls, callee.as_str())),
                );
            }
        }
        Ok(counts)
    }

    fn take(&mut self, function: &str, cost: u64, call: Option<(u64, &str)>) {
        let Some((calls, callee)) = call else {
            self.of(function).own += cost;
            return;
        };
        self.of(callee).entered += calls;
        if callee != function {
            self.of(function).called += cost;
        }
    }

    fn of(&mut self, name: &str) -> &mut FunctionCounts {
        self.functions.entry(name.to_owned()).or_default()
    }

    /// Instructions of all functions whose name holds `part`.
    pub(crate) fn own_of(&self, part: &str) -> u64 {
        let found = self
            .functions
            .iter()
            .filter(|(name, _)| name.contains(part));
        found.map(|(_, counts)| counts.own).sum()
    }

    /// How often functions of these names were called.
    pub(crate) fn entered(&self, names: &[&str]) -> u64 {
        let found = names.iter().filter_map(|name| self.functions.get(*name));
        found.map(|counts| counts.entered).sum()
    }
}

/// The files of one process in `directory`, each of a thread.
///
/// # Errors
///
/// There is none, or one is of another form.
pub(crate) fn threads(directory: &Path) -> anyhow::Result<Vec<ThreadCounts>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Beside those of threads lies an empty one.
        if !name.starts_with(FILES) || fs::metadata(&path)?.len() == 0 {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        threads.push(ThreadCounts::read(&text).with_context(|| path.display().to_string())?);
    }
    ensure!(!threads.is_empty(), "callgrind has written nothing");
    Ok(threads)
}

/// A name without what differs from build to build (the compiler's hash) and without the depth at
/// which it calls itself.
fn plain(name: &str) -> String {
    let name = match name.rsplit_once('\'') {
        Some((name, depth)) if depth.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    };
    let name = match name.rsplit_once("::h") {
        Some((name, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            name
        }
        _ => name,
    };
    name.chars().take(NAME_LETTERS).collect()
}

fn number(word: Option<&str>) -> anyhow::Result<u64> {
    let word = word.unwrap_or_default();
    word.parse()
        .with_context(|| format!("callgrind wrote `{word}` for a number"))
}

#[cfg(test)]
mod tests {
    use super::{FunctionCounts, ThreadCounts, plain};

    const TEXT: &str = "# callgrind format\nversion: 1\npid: 7\nthread: 2\n\npositions: line\nevents: Ir\nsummary: 175\n\n\
        ob=/bin/a\nfl=a.rs\nfn=a::main\n10 5\n11 20\ncfi=b.rs\ncfn=b::work::h0123456789abcdef\ncalls=3 7\n11 100\n12\n\n\
        fl=b.rs\nfn=b::work::h0123456789abcdef\n7 90\ncfn=b::work::h0123456789abcdef'2\ncalls=2 7\n8 40\n\
        fn=b::work::h0123456789abcdef'2\n7 60\n\ntotals: 175\n";

    #[test]
    fn a_thread_is_read_by_function() {
        let counts = ThreadCounts::read(TEXT).unwrap();
        assert_eq!(counts.total, 175);
        let of = |own, called, entered| FunctionCounts {
            own,
            called,
            entered,
        };
        assert_eq!(counts.functions["a::main"], of(25, 100, 0));
        assert_eq!(counts.functions["b::work"], of(150, 0, 5));
        assert_eq!(
            (counts.own_of("b::"), counts.entered(&["b::work", "c"])),
            (150, 5)
        );
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "events: Ir\n", "# callgrind format\nfn=a\n1 x\n"] {
            assert!(ThreadCounts::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_lose_what_differs_between_builds() {
        for (name, expected) in [
            ("a::b::h0123456789abcdef", "a::b"),
            ("a::b::h0123456789abcdef'2", "a::b"),
            ("a::b::hash", "a::b::hash"),
            ("a<'a>::b", "a<'a>::b"),
            ("_rjem_malloc", "_rjem_malloc"),
        ] {
            assert_eq!(plain(name), expected);
        }
    }
}

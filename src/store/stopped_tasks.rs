//! Which tasks an operator may have stopped, noted where it can be read before the index can: rather
//! too many of them than too few.

use crate::model::digest::Digest;
use std::collections::BTreeSet;

/// Tasks that are noted at most; of more, any task may have been stopped.
const MAX_STOPPED_TASKS: usize = 1024;
/// How the line begins in which they are noted.
const LINE_BEGINS: &str = "stopped";
/// Hex digits of a task there.
const NOTED_DIGITS: usize = 16;

/// How their keys begin; none: any task may be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoppedTasks(Option<BTreeSet<u64>>);

impl StoppedTasks {
    /// None of them was stopped.
    pub(super) fn none() -> Self {
        Self(Some(BTreeSet::new()))
    }

    /// What `line` notes. One that is not there, or not as it was written, says nothing.
    pub(super) fn read(line: Option<&str>) -> Self {
        let words = line.and_then(|line| line.strip_prefix(LINE_BEGINS));
        let noted = words.and_then(|words| {
            let known = words.split_whitespace().map(|word| {
                let is_whole = word.len() == NOTED_DIGITS;
                u64::from_str_radix(word, 16).ok().filter(|_| is_whole)
            });
            known.collect::<Option<BTreeSet<_>>>()
        });
        Self(noted.filter(|noted| noted.len() <= MAX_STOPPED_TASKS))
    }

    /// The line that notes them, with its end; empty where any task may be one.
    pub(super) fn line(&self) -> String {
        let Some(noted) = &self.0 else {
            return String::new();
        };
        let mut words = vec![LINE_BEGINS.to_owned()];
        words.extend(noted.iter().map(|task| format!("{task:016x}")));
        format!("{}\n", words.join(" "))
    }

    /// Whether an operator may have stopped `task`.
    pub(super) fn may_hold(&self, task: &Digest) -> bool {
        let noted = self.0.as_ref();
        noted.is_none_or(|noted| noted.contains(&beginning(task)))
    }

    /// Notes `task`; whether that changes anything.
    pub(super) fn add(&mut self, task: &Digest) -> bool {
        let Some(noted) = &mut self.0 else {
            return false;
        };
        let is_new = noted.insert(beginning(task));
        if noted.len() > MAX_STOPPED_TASKS {
            self.0 = None;
        }
        is_new
    }

    /// How the keys of those begin that may have been stopped; one that is empty begins them all.
    pub(super) fn beginnings(&self) -> Vec<Vec<u8>> {
        match &self.0 {
            Some(noted) => noted.iter().map(|task| task.to_be_bytes().into()).collect(),
            None => vec![Vec::new()],
        }
    }
}

fn beginning(task: &Digest) -> u64 {
    let bytes = task.as_bytes().iter().take(size_of::<u64>());
    bytes.fold(0, |beginning, byte| beginning << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(n: usize) -> Digest {
        Digest::of(&n.to_le_bytes())
    }

    /// What is noted is read again, and of nothing else it is said that it was not stopped.
    #[test]
    fn what_is_noted_is_read_again() {
        let mut stopped = StoppedTasks::none();
        assert_eq!(StoppedTasks::read(Some("stopped")), stopped);
        for n in 0..MAX_STOPPED_TASKS {
            assert!(!stopped.may_hold(&task(n)));
            assert!(stopped.add(&task(n)) && !stopped.add(&task(n)));
            assert!(stopped.may_hold(&task(n)));
        }
        let line = stopped.line();
        let read = StoppedTasks::read(line.strip_suffix('\n'));
        assert_eq!(read, stopped);
        let begins = |task: Digest| {
            read.beginnings()
                .iter()
                .any(|some| task.as_bytes().starts_with(some))
        };
        assert!(begins(task(7)) && !begins(task(MAX_STOPPED_TASKS)));
        // One more, and it may have been any.
        let more = task(MAX_STOPPED_TASKS);
        assert!(stopped.add(&more) && stopped.may_hold(&task(MAX_STOPPED_TASKS + 1)));
        assert_eq!(
            (stopped.line(), stopped.beginnings()),
            (String::new(), vec![Vec::new()])
        );
    }

    #[test]
    fn a_line_that_is_none_says_nothing() {
        let long = format!("stopped{}", " 0123456789abcdef".repeat(2));
        assert!(!StoppedTasks::read(Some(&long)).may_hold(&task(1)));
        for line in [
            None,
            Some(""),
            Some("running"),
            Some("stopped 0123"),
            Some("stopped 0123456789abcdeg"),
        ] {
            assert!(StoppedTasks::read(line).may_hold(&task(1)), "{line:?}");
        }
    }
}

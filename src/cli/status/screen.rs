//! What `toolgate status` shows: a line for each thing, whose rest goes on below where the terminal ends.

use super::at_rest::AtRest;
use crate::admin::overview::StatusReport;
use crate::admin::status::{DiskStatus, ProcessReport, Readiness, ServerStatus};
use crate::cli::ledger::text::plain;
use crate::cli::running::{DimView, UnseenView};
use crate::cli::terminal::Terminal;
use crate::model::counted::counted;
use crate::telemetry::recent_problems::RecentProblem;
pub(in crate::cli) use amounts::bytes;
use amounts::lasting;
use away::{disabled, frozen, incidents_open};
use jiff::Timestamp;
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

mod amounts;
mod away;
mod work;

/// Columns of a terminal that words stand in at most: longer lines are hard to read.
const MAX_COLUMNS: usize = 160;
/// Where what a line says begins.
pub(super) const INDENT: usize = 10;
/// Things of one kind that are named; the others are only counted.
const MAX_NAMED: usize = 12;
/// Lines of the log that are shown.
const MAX_PROBLEMS_SHOWN: usize = 8;
/// Of a policy's version, as much as the other screens show.
const VERSION_CHARS: usize = 12;

/// What is written on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    /// Columns for what a line says; none where it may be as long as it is.
    room: Option<usize>,
    now: Timestamp,
}

impl Page {
    /// One for `terminal`, at that time.
    pub(super) fn on(terminal: Terminal, now: Timestamp) -> Self {
        let columns = terminal.columns.map(|columns| columns.min(MAX_COLUMNS));
        Self {
            room: columns.map(|columns| columns.saturating_sub(INDENT).max(1)),
            now,
        }
    }

    /// How long ago `time` was, in words.
    fn ago(self, time: &str) -> String {
        let Ok(then) = time.parse::<Timestamp>() else {
            return plain(time);
        };
        let seconds = self
            .now
            .duration_since(then)
            .as_secs()
            .max(0)
            .unsigned_abs();
        format!("{} ago", lasting(seconds))
    }

    /// A line: what it is about, and what there is to say of it.
    fn line(self, out: &mut String, about: &str, what: &str) {
        let room = self.room.unwrap_or(usize::MAX);
        let mut start = format!("{about:<INDENT$}");
        let mut line = String::new();
        for word in pieces(what, room) {
            let length = line.width();
            if length > 0 && length + 1 + word.width() > room {
                let _ = writeln!(out, "{start}{line}");
                (start, line) = (" ".repeat(INDENT), String::new());
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += &word;
        }
        *out += format!("{start}{line}").trim_end();
        out.push('\n');
    }

    /// Lines for things of one kind, and how many more there are.
    fn lines(self, out: &mut String, about: &str, things: impl Iterator<Item = String>) {
        let (mut about, mut more) = (about, 0_usize);
        for (index, thing) in things.enumerate() {
            if index < MAX_NAMED {
                self.line(out, about, &thing);
                about = "";
            } else {
                more += 1;
            }
        }
        if more > 0 {
            self.line(out, "", &format!("and {more} more; --json has all"));
        }
    }
}

/// The words of `text`, none wider than `room`.
fn pieces(text: &str, room: usize) -> impl Iterator<Item = String> {
    let cut = move |word: &str| {
        let mut parts = vec![String::new()];
        let mut length = 0;
        for letter in word.chars() {
            let width = letter.width().unwrap_or_default();
            if length > 0 && length + width > room {
                parts.push(String::new());
                length = 0;
            }
            length += width;
            if let Some(part) = parts.last_mut() {
                part.push(letter);
            }
        }
        parts
    };
    plain(text)
        .split_whitespace()
        .flat_map(cut)
        .collect::<Vec<_>>()
        .into_iter()
}

/// What operators should do something about.
pub(super) fn attention(report: &StatusReport) -> Vec<String> {
    let Readiness {
        reasons,
        servers,
        ledger,
        ..
    } = &report.readiness;
    let mut found = reasons.clone();
    let down = servers.iter().filter(|server| server.state == "down");
    found.extend(down.map(|server| format!("tool server {} does not answer", server.name)));
    if ledger.dropped > 0 {
        found.push(format!("entries of reads were lost: {}", ledger.dropped));
    }
    if report.unknown.is_some_and(|unknown| unknown > 0) {
        found.push("nobody knows what became of some calls".to_owned());
    }
    found.extend(incidents_open(&report.frozen));
    found
}

/// All of a toolgate that runs.
pub(super) fn whole(report: &StatusReport, page: Page) -> String {
    let (readiness, process) = (&report.readiness, &report.process);
    let mut out = String::new();
    let ready = if readiness.ready {
        "ready"
    } else {
        "NOT READY"
    };
    let head = format!(
        "{} {ready}, process {}, up {}, {} mode",
        process.version,
        process.pid,
        page.ago(&process.started).trim_end_matches(" ago"),
        process.mode
    );
    page.line(&mut out, "toolgate", &head);
    page.lines(&mut out, "attention", attention(report).into_iter());
    page.line(&mut out, "agents", &agents(process));
    policy(&mut out, readiness, Some(&process.policy_since), page);
    page.lines(
        &mut out,
        "servers",
        readiness.servers.iter().map(|one| server(one, process)),
    );
    let count = |known: Option<usize>, remedy: &str| match known {
        None => "the store cannot tell".to_owned(),
        Some(0) => "0".to_owned(),
        Some(known) => format!("{known}; {remedy}"),
    };
    let waiting = count(report.held, "`toolgate approvals` lists them");
    page.line(&mut out, "held", &waiting);
    let unknown = count(report.unknown, "`toolgate calls list --state unknown`");
    page.line(&mut out, "unknown", &unknown);
    disabled(&mut out, &report.disabled, page);
    frozen(&mut out, &report.frozen, page);
    let withheld = report.withheld.iter().map(|one| match &one.profile {
        Some(profile) => format!("in profile {profile}: {}", one.why),
        None => format!("{}: {}", one.server, one.why),
    });
    page.lines(&mut out, "withheld", withheld);
    ledger(&mut out, readiness, process, page);
    work::lines(&mut out, &process.work, page);
    disk(&mut out, process.disk.as_ref(), page);
    problems(&mut out, &process.problems, page);
    out
}

fn agents(process: &ProcessReport) -> String {
    let sessions = counted(process.sessions, "session");
    match &process.listen {
        Some(listen) => format!("{sessions} at {listen}"),
        None => format!("{sessions}, over standard input"),
    }
}

fn policy(out: &mut String, readiness: &Readiness, since: Option<&String>, page: Page) {
    let version = &readiness.policy.version;
    let version = version.get(..VERSION_CHARS).unwrap_or(version);
    let since = since.map(|since| {
        format!(
            ", in force for {}",
            page.ago(since).trim_end_matches(" ago")
        )
    });
    let stale = if readiness.policy.stale {
        "; the files have errors, `toolgate check` shows them"
    } else {
        ""
    };
    let words = format!("{version}{}{stale}", since.unwrap_or_default());
    page.line(out, "policy", &words);
}

fn server(server: &ServerStatus, process: &ProcessReport) -> String {
    let ServerStatus {
        name,
        state,
        era,
        tools,
        withheld,
        last_fault,
    } = server;
    let mut words = format!("{name}: {state}");
    if let Some(era) = era {
        let _ = write!(words, ", {era}, {}", counted(*tools, "tool"));
    }
    if !withheld.is_empty() {
        let _ = write!(words, ", {} withheld", withheld.len());
    }
    if let Some(children) = process.children.get(name) {
        let processes = if *children == 1 {
            "process"
        } else {
            "processes"
        };
        let _ = write!(words, ", {children} {processes}");
    }
    if let Some(fault) = last_fault {
        let _ = write!(words, ": {fault}");
    }
    words
}

fn ledger(out: &mut String, readiness: &Readiness, process: &ProcessReport, page: Page) {
    let ledger = &readiness.ledger;
    let size = process
        .ledger_bytes
        .map_or("size unknown".to_owned(), bytes);
    let most = process
        .ledger_max_bytes
        .map(|most| format!(" of {}", bytes(most)));
    let state = if ledger.writable {
        "writable"
    } else {
        "NOT WRITABLE"
    };
    let fault = ledger.last_fault.as_ref().map(|why| format!(": {why}"));
    let words = format!(
        "{size}{}, {}, {state}{}",
        most.unwrap_or_default(),
        counted(ledger.entries, "record"),
        fault.unwrap_or_default()
    );
    page.line(out, "ledger", &words);
}

fn disk(out: &mut String, disk: Option<&DiskStatus>, page: Page) {
    let Some(disk) = disk else { return };
    let low = if disk.low { ": nearly full" } else { "" };
    let words = format!(
        "{} of {} free{low}",
        bytes(disk.free_bytes),
        bytes(disk.total_bytes)
    );
    page.line(out, "disk", &words);
}

fn problems(out: &mut String, problems: &[RecentProblem], page: Page) {
    let newest = problems.iter().rev().take(MAX_PROBLEMS_SHOWN);
    let words = newest.map(|problem| {
        let times = if problem.times > 1 {
            format!(" (×{})", problem.times)
        } else {
            String::new()
        };
        let RecentProblem { level, message, .. } = problem;
        format!("{}, {level}{times}: {message}", page.ago(&problem.time))
    });
    page.lines(out, "log", words);
    if problems.len() > MAX_PROBLEMS_SHOWN {
        let more = problems.len() - MAX_PROBLEMS_SHOWN;
        page.line(out, "", &format!("and {more} more; --json has all"));
    }
}

/// What a toolgate tells everyone.
pub(super) fn less(dim: &DimView, page: Page) -> String {
    let mut out = String::new();
    let ready = if dim.ready { "ready" } else { "NOT READY" };
    let words = format!("{ready}; its operators' door is {}", dim.address);
    page.line(&mut out, "toolgate", &words);
    match &dim.readiness {
        Some(readiness) => {
            page.lines(&mut out, "attention", readiness.reasons.iter().cloned());
            policy(&mut out, readiness, None, page);
            let servers = readiness.servers.iter().map(|one| {
                let fault = one.last_fault.as_ref().map(|fault| format!(": {fault}"));
                format!("{}: {}{}", one.name, one.state, fault.unwrap_or_default())
            });
            page.lines(&mut out, "servers", servers);
        }
        None if dim.is_stale => {
            let words = "the policy files have errors: an older policy than theirs is in force";
            page.line(&mut out, "attention", words);
        }
        None => {}
    }
    page.line(&mut out, "no more", &dim.why);
    out
}

/// Nothing runs that tells of the directory.
pub(super) fn unseen(unseen: &UnseenView, seen: &AtRest, page: Page) -> String {
    let mut out = String::new();
    page.line(&mut out, "toolgate", &unseen.words());
    directory(&mut out, seen, page);
    out
}

fn directory(out: &mut String, seen: &AtRest, page: Page) {
    page.line(out, "data", &seen.data.display().to_string());
    let ledger = match (&seen.unread, seen.ledger_bytes) {
        (Some(why), _) => format!("not seen: {why}"),
        (None, Some(found)) => bytes(found),
        (None, None) => "there is none yet".to_owned(),
    };
    page.line(out, "ledger", &ledger);
    disabled(out, &seen.disabled, page);
    frozen(out, &seen.frozen, page);
    disk(out, seen.disk.as_ref(), page);
}

#[cfg(test)]
mod tests;

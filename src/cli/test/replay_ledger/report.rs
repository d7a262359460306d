//! What is said of recorded calls that were judged again.

use super::{PresentVerdict, ReplayCount, ReplayRow};
use crate::cli::ledger::text::plain;
use crate::cli::table::{Column, Table};
use crate::cli::terminal::Terminal;
use crate::cli::test::words::nothing_decided;
use crate::model::counted::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

pub(super) type ReplayRows = BTreeMap<ReplayRow, ReplayCount>;

/// How changes are listed.
static CHANGES: Table<6> = Table([
    Column::number("CHANGED"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("TOOL").least(16),
    Column::text("THEN"),
    Column::text("NOW"),
    Column::id("SUCH AS"),
]);
/// How many calls have which verdict.
static VERDICTS: Table<3> = Table([
    Column::text("VERDICT"),
    Column::number("THEN"),
    Column::number("NOW"),
]);

/// What is said of all of them.
pub(super) struct ReplayReport<'a> {
    version: &'a str,
    calls: u64,
    changed: Vec<(&'a ReplayRow, &'a ReplayCount)>,
    /// How many calls those are.
    pub(super) different: u64,
    verdicts: BTreeMap<&'a str, (u64, u64)>,
    undecided: BTreeMap<&'a str, u64>,
    unreadable: u64,
}

impl<'a> ReplayReport<'a> {
    pub(super) fn of(version: &'a str, rows: &'a ReplayRows, unreadable: u64) -> Self {
        let changed: Vec<_> = rows.iter().filter(|(row, _)| row.has_changed()).collect();
        let mut undecided: BTreeMap<&str, u64> = BTreeMap::new();
        for (row, many) in rows {
            if let PresentVerdict::Undecided(why) = row.now {
                *undecided.entry(why).or_default() += many.count;
            }
        }
        Self {
            version,
            calls: rows.values().map(|many| many.count).sum(),
            different: changed.iter().map(|(_, many)| many.count).sum(),
            changed,
            verdicts: verdicts(rows),
            undecided,
            unreadable,
        }
    }

    /// How many calls are judged now.
    pub(super) fn decided(&self) -> u64 {
        self.calls - self.undecided.values().sum::<u64>()
    }

    pub(super) fn json(&self) -> Value {
        let changes: Vec<Value> = self
            .changed
            .iter()
            .map(|(row, many)| change(row, many))
            .collect();
        let verdicts: BTreeMap<&str, Value> = self
            .verdicts
            .iter()
            .map(|(code, (then, now))| (*code, json!({ "then": then, "now": now })))
            .collect();
        json!({
            "policy": self.version, "calls": self.calls, "decided": self.decided(), "changed": self.different, "changes": changes,
            "verdicts": verdicts, "undecided": self.undecided, "unreadable": self.unreadable,
        })
    }

    pub(super) fn words(&self, advice: &str, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "recorded calls, judged again under policy {}; nothing was executed\n",
            self.version
        )?;
        if !self.changed.is_empty() {
            let rows = self.changed.iter().filter_map(|(row, many)| {
                let PresentVerdict::Verdict(now) = &row.now else {
                    return None;
                };
                let ReplayCount { count, action_id } = many;
                let count = count.to_string();
                let cells = [&count, &row.agent, &row.tool, &row.then, now, action_id];
                Some(cells.map(|text| plain(text)))
            });
            let rows = rows.collect();
            writeln!(out, "{}", CHANGES.lines(Terminal::stdout(), rows))?;
        }
        let rows = self.verdicts.iter();
        let rows = rows.map(|(code, (then, now))| [plain(code), then.to_string(), now.to_string()]);
        let rows = rows.collect();
        writeln!(out, "{}", VERDICTS.lines(Terminal::stdout(), rows))?;
        for (why, count) in &self.undecided {
            writeln!(out, "{count} undecided: {why}")?;
        }
        out.push_str(advice);
        if self.unreadable > 0 {
            writeln!(
                out,
                "{} cannot be read; see `toolgate ledger verify`",
                counted(self.unreadable, "record")
            )?;
        }
        let calls = counted(self.calls, "call");
        match (self.different, self.calls - self.decided()) {
            (0, _) if self.decided() == 0 => {
                writeln!(out, "{}", nothing_decided(self.calls, "call"))
            }
            (0, 0) => writeln!(out, "ok: of {calls} none is known to change"),
            (0, undecided) => writeln!(
                out,
                "ok: of {calls} none is known to change ({undecided} undecided)"
            ),
            (different, _) => writeln!(out, "CHANGED: {different} of {calls}"),
        }
    }
}

fn change(row: &ReplayRow, many: &ReplayCount) -> Value {
    let ReplayRow {
        agent,
        tool,
        then,
        now,
    } = row;
    let now = if let PresentVerdict::Verdict(now) = now {
        now
    } else {
        ""
    };
    let ReplayCount { count, action_id } = many;
    json!({ "agent": agent, "tool": tool, "then": then, "now": now, "calls": count, "such_as": action_id })
}

/// How many calls have which verdict, then and now; like for like: only calls that are decided both
/// times (003-117).
fn verdicts(rows: &ReplayRows) -> BTreeMap<&str, (u64, u64)> {
    let mut verdicts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (row, many) in rows {
        if let PresentVerdict::Verdict(now) = &row.now {
            verdicts.entry(&row.then).or_default().0 += many.count;
            verdicts.entry(now).or_default().1 += many.count;
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D24: what would change, at 80 columns and at 160.
    #[test]
    fn changes_have_room_on_a_terminal() {
        let row = |agent: &str, now: &str| ReplayRow {
            agent: agent.to_owned(),
            tool: "bank__transfer_between_accounts".to_owned(),
            then: "passed".to_owned(),
            now: PresentVerdict::Verdict(now.to_owned()),
        };
        let count = |count: u64, id: &str| ReplayCount {
            count,
            action_id: format!("019abc00-0000-7001-8000-0000{id}"),
        };
        let rows = ReplayRows::from([
            (
                row("billing-agent", "idempotency_key_required"),
                count(1200, "aaaa1111"),
            ),
            (
                row("support-agent", "budget_exceeded"),
                count(7, "bbbb2222"),
            ),
            (row("support-agent", "passed"), count(3, "cccc3333")),
        ]);
        let report = ReplayReport::of("3f9a1c000000", &rows, 0);
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
            let mut out = String::new();
            report.words("", &mut out).unwrap();
            out
        });
        insta::assert_snapshot!("changes", shown);
    }
}

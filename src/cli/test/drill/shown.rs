//! What drills have shown, for people and for programs.

use super::ending::{DrillEnd, DrillVerdict};
use crate::cli::ledger::text::plain;
use crate::cli::table::{Column, Table};
use crate::cli::terminal::{Terminal, Tone};
use crate::model::counted::counted;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

static TABLE: Table<5> = Table([
    Column::text("TOOL").least(20),
    Column::text("DRILLED").tone(tone),
    Column::text("UNDONE").tone(tone),
    Column::text("BASELINE").tone(tone),
    Column::number("MS").rank(1),
]);

/// A contract, and what came of it.
pub(super) struct DrilledRow {
    /// The contract, or one of its variants.
    pub(super) contract: String,
    /// The sample, where there is one.
    pub(super) sample: Option<String>,
    pub(super) state: RowState,
    pub(super) took: Duration,
}

/// What came of a contract.
pub(super) enum RowState {
    Drilled(DrillEnd),
    /// No call takes it back; how a person does, if one can.
    NoWayBack(&'static str),
    /// No drill is asked for; why.
    NeedsNone(&'static str),
}

/// All of them.
pub(super) struct DrillReport {
    pub(super) rows: Vec<DrilledRow>,
    /// Whether everything that changes something has to be proven.
    pub(super) requires_all: bool,
    /// Contracts that change something.
    pub(super) contracts: usize,
}

impl RowState {
    fn is(&self, verdict: DrillVerdict) -> bool {
        matches!(self, Self::Drilled(end) if end.verdict == verdict)
    }

    fn is_left(&self) -> bool {
        matches!(self, Self::Drilled(end) if end.is_left)
    }

    fn is_interrupted(&self) -> bool {
        matches!(self, Self::Drilled(end) if end.is_interrupted)
    }
}

impl DrillReport {
    /// 0: nothing is wrong; 1: something is; 3: it is not known what has run.
    pub(super) fn exit_code(&self) -> u8 {
        let has = |verdict| self.rows.iter().any(|row| row.state.is(verdict));
        let lacks = || {
            has(DrillVerdict::NotDrilled)
                || self
                    .rows
                    .iter()
                    .any(|row| matches!(row.state, RowState::NoWayBack(_)))
        };
        if has(DrillVerdict::Unknown) {
            return super::UNKNOWN_EXIT_CODE;
        }
        let is_interrupted = self.rows.iter().any(|row| row.state.is_interrupted());
        u8::from(has(DrillVerdict::Failed) || is_interrupted || self.requires_all && lacks())
    }

    /// Whether an effect is left, or may be.
    pub(super) fn is_left(&self) -> bool {
        self.rows.iter().any(|row| row.state.is_left())
    }

    /// The contracts of which every drill has shown that a call of them can be taken back (003-106).
    fn proven(&self) -> usize {
        let of = |wanted: &dyn Fn(&RowState) -> bool| -> BTreeSet<&str> {
            let rows = self.rows.iter().filter(|row| wanted(&row.state));
            rows.map(|row| row.contract.as_str()).collect()
        };
        let good = of(&|state| state.is(DrillVerdict::Proven));
        let bad = of(&|state| state.is(DrillVerdict::Failed) || state.is(DrillVerdict::Unknown));
        good.difference(&bad).count()
    }

    /// The table, why what is not proven is not, and the sum.
    pub(super) fn words(&self, terminal: Terminal, kept: Option<&Path>) -> String {
        let mut text = TABLE.lines(terminal, self.rows.iter().map(cells).collect());
        for row in &self.rows {
            if let Some(why) = why(row) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}: {}", plain(&row.contract), plain(&why));
            }
        }
        text += &self.sum();
        if let Some(kept) = kept {
            text += &what_is_left(kept);
            text += "\n";
        }
        text
    }

    fn sum(&self) -> String {
        let count = |verdict| self.rows.iter().filter(|row| row.state.is(verdict)).count();
        let (proven, of) = (self.proven(), counted(self.contracts, "contract"));
        let verb = if self.contracts == 1 {
            "writes"
        } else {
            "write"
        };
        let percent = (100 * proven).checked_div(self.contracts);
        let percent = percent.map_or_else(String::new, |percent| format!(" ({percent} %)"));
        let mut sum =
            format!("can be undone, as a drill shows: {proven} of {of} that {verb}{percent}");
        for (verdict, word) in [
            (DrillVerdict::Failed, "failed"),
            (DrillVerdict::Unknown, "unknown"),
            (DrillVerdict::NotDrilled, "not drilled"),
        ] {
            let count = count(verdict);
            if count > 0 {
                let _ = write!(sum, ", {count} {word}");
            }
        }
        sum + "\n"
    }

    /// The same as one object.
    pub(super) fn json(&self, kept: Option<&Path>) -> Value {
        json!({
            "drills": self.rows.iter().map(row_json).collect::<Vec<_>>(),
            "contracts": self.contracts,
            "proven": self.proven(),
            "kept": kept,
        })
    }
}

/// Where to look, once something is left behind, or may be.
pub(super) fn what_is_left(kept: &Path) -> String {
    let (kept, data) = (kept.display(), kept.join("data"));
    let data = data.display();
    format!(
        "an effect is left, or may be; what was called: `toolgate ledger list --data {data}`. Look at the tool server, then \
         remove {kept}: no drill begins before"
    )
}

/// Why a row is not proven.
fn why(row: &DrilledRow) -> Option<String> {
    match &row.state {
        RowState::Drilled(end) => end.why.clone(),
        RowState::NoWayBack(how) => Some(format!("it cannot be undone by a call ({how})")),
        RowState::NeedsNone(_) => None,
    }
}

fn cells(row: &DrilledRow) -> [String; 5] {
    let [drilled, undone, baseline] = match &row.state {
        RowState::NoWayBack(how) | RowState::NeedsNone(how) => ["no", how, ""],
        RowState::Drilled(end) => [
            match (end.verdict, end.action) {
                (DrillVerdict::NotDrilled, _) => "no",
                (DrillVerdict::Unknown, None) => "unknown",
                (DrillVerdict::Failed, None) => "failed",
                (_, _) => "yes",
            },
            match end.undone.as_deref() {
                Some("done") => "yes",
                Some(state) => state,
                None if end.action.is_some() => "no",
                None => "",
            },
            match (&end.before, &end.after) {
                (Some(before), Some(after)) if before == after => "same",
                (Some(_), Some(_)) => "differs",
                (_, _) => "",
            },
        ],
    };
    let took = match &row.state {
        RowState::Drilled(end) if end.verdict != DrillVerdict::NotDrilled => {
            row.took.as_millis().to_string()
        }
        RowState::Drilled(_) | RowState::NoWayBack(_) | RowState::NeedsNone(_) => String::new(),
    };
    let words = [drilled, undone, baseline].map(str::to_owned);
    let [drilled, undone, baseline] = words;
    [row.contract.clone(), drilled, undone, baseline, took]
}

fn row_json(row: &DrilledRow) -> Value {
    let state = match &row.state {
        RowState::NoWayBack(_) => "no_rollback",
        RowState::NeedsNone(_) => "none_needed",
        RowState::Drilled(end) => match end.verdict {
            DrillVerdict::Proven => "proven",
            DrillVerdict::NotDrilled => "not_drilled",
            DrillVerdict::Failed => "failed",
            DrillVerdict::Unknown => "unknown",
        },
    };
    let mut shown = json!({ "contract": row.contract, "sample": row.sample, "state": state });
    match &row.state {
        RowState::NoWayBack(how) | RowState::NeedsNone(how) => shown["why"] = json!(how),
        RowState::Drilled(end) => {
            shown["why"] = json!(end.why);
            shown["action_id"] = json!(end.action.map(|action| action.to_string()));
            shown["undone"] = json!(end.undone);
            shown["undone_by"] = json!(end.undone_by);
            shown["baseline"] = json!({ "before": end.before, "after": end.after });
            shown["left"] = json!(end.is_left);
            shown["ms"] = json!(u64::try_from(row.took.as_millis()).unwrap_or(u64::MAX));
        }
    }
    shown
}

fn tone(cell: &str) -> Option<Tone> {
    match cell {
        "yes" | "same" => Some(Tone::Good),
        "unknown" | "failed" | "differs" => Some(Tone::Bad),
        "no" | "requested" | "running" => Some(Tone::Warn),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

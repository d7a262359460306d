//! The reports, for people and for programs.

use super::compare::{Comparison, MeasureRow, MeasureVerdict};
use super::measure::{MIN_CALLS, Measure};
use super::versions::{Version, Versions};
use crate::cli::ledger::text::{self, plain, short};
use crate::cli::table::{Column, Table};
use crate::cli::terminal::{Terminal, Tone};
use crate::model::counted::counted;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// What a line says of one version.
type VersionText = fn(&Version) -> String;

/// Names of tools in a sentence at most.
const MAX_TOOLS_NAMED: usize = 8;

/// How versions are listed.
static VERSIONS: Table<12> = Table([
    Column::text("POLICY"),
    Column::time("FIRST CALL").rank(3),
    Column::time("LAST CALL"),
    Column::number("CALLS"),
    Column::number("VIOLATIONS"),
    Column::number("OVERRUNS").rank(4),
    Column::number("SENT").rank(5),
    Column::number("SUCCESS"),
    Column::number("COST").rank(6),
    Column::number("PER CALL").rank(7),
    Column::number("GATE P50/P95 MS").rank(1),
    Column::number("UPSTREAM P50/P95 MS").rank(2),
]);
/// How two of them stand beside each other.
static COMPARED: Table<5> = Table([
    Column::text("").least(16),
    Column::number("OLD"),
    Column::number("NEW"),
    Column::number("CHANGE"),
    Column::text("")
        .least(5)
        .tone(|verdict| (verdict == WORSE).then_some(Tone::Bad)),
]);
/// What is said of a measure that is worse.
const WORSE: &str = "WORSE";

/// All versions, a line each.
pub(super) fn list(versions: &Versions, as_json: bool, out: &mut String) -> anyhow::Result<()> {
    if as_json {
        let all: Vec<Value> = versions.all.iter().map(json_of).collect();
        let report = json!({ "versions": all, "left_out": versions.left_out, "unreadable": versions.unreadable });
        return pretty(&report, out);
    }
    let row = |version: &Version| {
        let value = |measure: Measure| shown(measure, measure.of(version));
        let both = |one: Measure, other: Measure| format!("{}/{}", value(one), value(other));
        [
            plain(&version.name),
            plain(&version.first),
            plain(&version.last),
            version.calls.to_string(),
            version.violations.to_string(),
            version.overruns.to_string(),
            version.sent.to_string(),
            value(Measure::Success),
            units(version.cost.0),
            value(Measure::Cost),
            both(Measure::GateP50, Measure::GateP95),
            both(Measure::UpstreamP50, Measure::UpstreamP95),
        ]
    };
    let rows = versions.all.iter().map(row).collect();
    out.push_str(&VERSIONS.lines(Terminal::stdout(), rows));
    if versions.left_out > 0 {
        writeln!(
            out,
            "{} left out: only the latest are told apart",
            counted(versions.left_out, "older version")
        )?;
    }
    unread(versions.unreadable, out)
}

/// Two versions beside each other.
pub(super) fn comparison(
    comparison: &Comparison<'_>,
    unreadable: u64,
    as_json: bool,
    out: &mut String,
) -> anyhow::Result<()> {
    if as_json {
        return pretty(&compared(comparison, unreadable), out);
    }
    let Comparison { old, new, .. } = comparison;
    let head: [(&str, VersionText); 5] = [
        ("policy", |version| plain(&version.name)),
        ("first call", |version| time(&version.first)),
        ("last call", |version| time(&version.last)),
        ("calls", |version| version.calls.to_string()),
        ("calls sent", |version| version.sent.to_string()),
    ];
    let mut rows: Vec<_> = head
        .map(|(what, of)| [what, &of(old), &of(new), "", ""].map(str::to_owned))
        .into();
    for row in &comparison.rows {
        let verdict = match row.verdict {
            MeasureVerdict::Worse if !comparison.is_thin() => WORSE,
            MeasureVerdict::Unclear if !comparison.is_thin() => {
                "may be chance, or too little to matter"
            }
            MeasureVerdict::Fine | MeasureVerdict::Unclear | MeasureVerdict::Worse => "",
        };
        let (before, after) = (shown(row.measure, row.old), shown(row.measure, row.new));
        let cells = [row.measure.words(), &before, &after, &change(row), verdict];
        rows.push(cells.map(str::to_owned));
    }
    out.push_str(&COMPARED.lines(Terminal::stdout(), rows));
    out.push('\n');
    unlike(&comparison.unlike(), out)?;
    unread(unreadable, out)?;
    sum(comparison, out)
}

fn sum(comparison: &Comparison<'_>, out: &mut String) -> anyhow::Result<()> {
    let [old, new] = [comparison.old, comparison.new].map(|version| plain(&version.name));
    let percent = comparison.limits.percent;
    let worse: Vec<&str> = comparison.worse().into_iter().map(Measure::words).collect();
    if comparison.is_thin() {
        let calls = [comparison.old, comparison.new].map(|version| counted(version.calls, "call"));
        let [of_old, of_new] = calls;
        writeln!(
            out,
            "too few calls to say: {of_old} under {old}, {of_new} under {new}; each needs {MIN_CALLS}"
        )?;
    } else if worse.is_empty() {
        writeln!(
            out,
            "ok: nothing is worse under {new} than under {old} by more than {percent} %"
        )?;
    } else {
        let worse = worse.join(", ");
        writeln!(
            out,
            "WORSE under {new} than under {old} by more than {percent} %: {worse}. Roll back to {old}"
        )?;
    }
    Ok(())
}

fn unlike(tools: &[&str], out: &mut String) -> anyhow::Result<()> {
    if tools.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = tools
        .iter()
        .take(MAX_TOOLS_NAMED)
        .map(|name| short(name))
        .collect();
    let more = tools.len() - names.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    writeln!(
        out,
        "called under one of them only: {}{more}; --tool compares what is alike",
        names.join(", ")
    )?;
    Ok(())
}

fn unread(unreadable: u64, out: &mut String) -> anyhow::Result<()> {
    if unreadable > 0 {
        writeln!(
            out,
            "{} cannot be read; see `toolgate ledger verify`",
            counted(unreadable, "record")
        )?;
    }
    Ok(())
}

/// Line by line: what a line ends with is no letter of ours to escape.
fn pretty(report: &Value, out: &mut String) -> anyhow::Result<()> {
    for line in serde_json::to_string_pretty(report)?.lines() {
        writeln!(out, "{}", text::json(line))?;
    }
    Ok(())
}

fn json_of(version: &Version) -> Value {
    let Version {
        name,
        first,
        last,
        calls,
        violations,
        overruns,
        sent,
        successes,
        cost,
        ..
    } = version;
    let mut all = Map::new();
    for (key, value) in [
        ("policy", json!(name)),
        ("first", json!(first)),
        ("last", json!(last)),
        ("calls", json!(calls)),
        ("violations", json!(violations)),
        ("overruns", json!(overruns)),
        ("sent", json!(sent)),
        ("successes", json!(successes)),
        ("cost", json!(cost.0)),
    ] {
        all.insert(key.to_owned(), value);
    }
    all.extend(
        Measure::ALL
            .iter()
            .map(|measure| (measure.key().to_owned(), json!(measure.of(version)))),
    );
    Value::Object(all)
}

fn compared(comparison: &Comparison<'_>, unreadable: u64) -> Value {
    let row = |row: &MeasureRow| {
        let MeasureRow {
            measure,
            old,
            new,
            verdict,
        } = row;
        let (name, verdict) = (
            measure.key(),
            if comparison.is_thin() {
                "unclear"
            } else {
                verdict.word()
            },
        );
        json!({ "measure": name, "old": old, "new": new, "change_percent": row.change(), "verdict": verdict })
    };
    let worse: Vec<&str> = comparison.worse().into_iter().map(Measure::key).collect();
    json!({
        "old": json_of(comparison.old), "new": json_of(comparison.new), "threshold_percent": comparison.limits.percent,
        "rows": comparison.rows.iter().map(row).collect::<Vec<_>>(), "too_few_calls": comparison.is_thin(),
        "tools_of_one_only": comparison.unlike(), "worse": worse, "roll_back": comparison.is_worse(),
        "unreadable": unreadable,
    })
}

fn change(row: &MeasureRow) -> String {
    match (row.change(), row.old.zip(row.new)) {
        (Some(change), _) if change.abs() >= 0.05 => format!("{change:+.1} %"),
        (None, Some((_, new))) if new > 0.0 => "from none".to_owned(),
        _ => String::new(),
    }
}

fn shown(measure: Measure, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if measure.is_share() => format!("{:.1} %", 100.0 * value),
        Some(value) if measure == Measure::Cost => units(value),
        Some(value) => format!("{value:.2}"),
    }
}

/// Units of cost, with up to four decimals.
fn units(cost: f64) -> String {
    let text = format!("{cost:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time among numbers.
fn time(text: &str) -> String {
    Terminal::stdout().time(text)
}

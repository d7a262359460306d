//! Incidents for people.

use crate::admin::incidents::IncidentList;
use crate::cli::ledger::text::{json, plain};
use crate::cli::table::{Column, Table};
use crate::cli::terminal::{Terminal, Tone};
use crate::model::counted::counted;
use crate::store::incidents::{Incident, IncidentEvent, IncidentSample};
use std::fmt::Write as _;

/// How incidents are listed.
static INCIDENTS: Table<6> = Table([
    Column::number("ID"),
    Column::text("STATE")
        .least(6)
        .tone(|state| (state == "open").then_some(Tone::Bad)),
    Column::text("TOOLS").least(16),
    Column::time("OPENED"),
    Column::text("WHO").rank(1).least(8),
    Column::text("WHY"),
]);

/// How a timeline is shown.
static TIMELINE: Table<4> = Table([
    Column::time("TIME"),
    Column::text("WHAT").least(8),
    Column::text("WHO").rank(1).least(8),
    Column::text("WHY"),
]);

/// A line for each.
pub(super) fn list(list: &IncidentList) -> String {
    if list.incidents.is_empty() {
        return "there is no incident\n".to_owned();
    }
    let row = |one: &Incident| {
        let id = one.id.to_string();
        let state = one.state.word();
        [&id, state, &one.scope, &one.opened, &one.who, &one.why].map(plain)
    };
    let rows = list.incidents.iter().map(row).collect();
    INCIDENTS.lines(Terminal::stdout(), rows)
}

/// The same for programs: an object a line.
pub(super) fn lines(list: &IncidentList) -> anyhow::Result<String> {
    let mut out = String::new();
    for one in &list.incidents {
        writeln!(out, "{}", json(&serde_json::to_string(one)?))?;
    }
    Ok(out)
}

/// All of one.
pub(super) fn details(one: &Incident) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(out, "{key:<9} {}", plain(value));
    };
    line("incident", &one.id.to_string());
    line("state", one.state.word());
    line("tools", &one.scope);
    if !one.tools.is_empty() {
        line("known", &one.tools.join(", "));
    }
    line("opened", &format!("{} by {}", one.opened, one.who));
    line("why", &one.why);
    let (voided, revoked) = (
        counted(one.voided, "held call"),
        counted(one.revoked, "grant"),
    );
    let rest = if one.settled {
        ""
    } else {
        ", and not all of it yet"
    };
    line(
        "taken",
        &format!("void: {voided}; revoked: {revoked}{rest}"),
    );
    for IncidentSample {
        action_id,
        expect,
        file,
    } in &one.samples
    {
        line(
            "sample",
            &format!("{action_id} is to be {expect}, in {file}"),
        );
    }
    if let Some(end) = &one.closed {
        let forced = if end.forced { ", forced" } else { "" };
        line(
            "closed",
            &format!("{} by {}{forced}: {}", end.at, end.who, end.why),
        );
        line("packs", &end.packs);
    }
    let row =
        |event: &IncidentEvent| [&event.at, event.step.word(), &event.who, &event.why].map(plain);
    let rows = one.timeline.iter().map(row).collect();
    out.push('\n');
    out += &TIMELINE.lines(Terminal::stdout(), rows);
    if one.more > 0 {
        let more = counted(one.more, "event");
        let _ = writeln!(out, "{more} more; `toolgate ledger events` has all");
    }
    out
}

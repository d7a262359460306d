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
    let terminal = Terminal::stdout();
    let opened = terminal.time(&one.opened);
    line("opened", &format!("{opened} by {}", one.who));
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
        tool: _,
    } in &one.samples
    {
        line(
            "sample",
            &format!("{action_id} is to be {expect}, in {file}"),
        );
    }
    if let Some(end) = &one.closed {
        let forced = if end.forced { ", forced" } else { "" };
        let at = terminal.time(&end.at);
        line(
            "closed",
            &format!("{at} by {}{forced}: {}", end.who, end.why),
        );
        line("packs", &end.packs);
    }
    let row =
        |event: &IncidentEvent| [&event.at, event.step.word(), &event.who, &event.why].map(plain);
    let rows = one.timeline.iter().map(row).collect();
    out.push('\n');
    out += &TIMELINE.lines(terminal, rows);
    if one.more > 0 {
        let more = counted(one.more, "event");
        let _ = writeln!(out, "{more} more; `toolgate ledger events` has all");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An incident as the data directory keeps it.
    fn incident(id: u64, state: &str) -> Incident {
        let event = |step: &str, why: &str| json!({ "at": "2026-11-28T11:00:00Z", "who": "ann of the night shift", "step": step, "why": why });
        let long = "it pays twice where the bank is slow, and nobody knows yet why that is so, or when it will end";
        let closed = json!({ "who": "ann", "why": "mended in 1.4.2", "at": "2026-11-28T11:58:00Z", "forced": false, "packs": "3 samples of 1 pack as expected" });
        let timeline = [event("opened", long), event("refused", long)];
        let mut kept = json!({
            "id": id, "state": state, "scope": "bank__transfer_between_accounts*", "who": "ann of the night shift",
            "why": long, "opened": "2026-11-28T11:00:00Z", "tools": [], "settled": true, "voided": 2, "revoked": 0,
            "samples": [], "timeline": timeline, "more": 0,
        });
        if state == "closed" {
            kept["closed"] = closed;
        }
        serde_json::from_value(kept).unwrap()
    }

    /// D24: incidents at 80 columns and at 160: short times, and nothing wider than the terminal.
    #[test]
    fn incidents_have_room_on_a_terminal() {
        let incidents = vec![incident(12, "open"), incident(3, "closed")];
        let all = IncidentList { incidents };
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || list(&all));
        insta::assert_snapshot!("incidents", shown);
        for (id, state) in [(12, "open"), (3, "closed")] {
            let one = incident(id, state);
            let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
                let whole = details(&one);
                let (head, timeline) = whole.split_once("\n\n").unwrap();
                assert!(
                    head.contains("opened    60m ago by ann of the night shift"),
                    "{head}"
                );
                assert_eq!(
                    head.contains("closed    2m ago by ann: mended"),
                    state == "closed"
                );
                timeline.to_owned()
            });
            assert!(shown.contains("80:\nTIME     WHAT"), "{shown}");
        }
    }
}

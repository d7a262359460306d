//! `toolgate policy list`.

use super::named::KeptPolicies;
use crate::cli::configured::DataArgs;
use crate::cli::ledger::text::plain;
use crate::cli::table::{Column, Table};
use crate::cli::terminal::{Terminal, Tone};
use crate::model::digest::Digest;
use crate::policy::bundle::lives::PolicyLife;
use crate::policy::bundle::shelf::ShelvedBundle;
use crate::store::journal::DataHolder;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// How policies are listed.
static POLICIES: Table<6> = Table([
    Column::id("BUNDLE"),
    Column::text("POLICY").least(12),
    Column::time("IN FORCE SINCE"),
    Column::text("FROM").rank(2),
    Column::number("BYTES").rank(1),
    Column::text("NOW").tone(|now| (now == IN_FORCE).then_some(Tone::Good)),
]);
/// What is said of the one that judges calls now.
const IN_FORCE: &str = "in force";

/// A kept policy, and how it stands.
struct ListedPolicy<'a> {
    bundle: &'a ShelvedBundle,
    lives: Vec<&'a PolicyLife>,
    /// It came in force last.
    is_last: bool,
}

/// Lists them.
pub(super) fn run(place: &DataArgs, as_json: bool, out: &mut String) -> anyhow::Result<u8> {
    let data = place.place()?.data;
    let kept = KeptPolicies::read(&data)?;
    let runs = matches!(DataHolder::of(&data), DataHolder::Process(_));
    let all = listed(&kept);
    if as_json {
        let policies: Vec<Value> = all.iter().map(|one| json_of(one, runs)).collect();
        writeln!(
            out,
            "{:#}",
            json!({ "running": runs, "policies": policies })
        )?;
        return Ok(0);
    }
    if all.is_empty() {
        writeln!(
            out,
            "no policy is kept in {}: `toolgate serve` keeps each that comes in force",
            plain(&data.display().to_string())
        )?;
        return Ok(0);
    }
    let rows = all.iter().map(|one| row(one, runs)).collect();
    out.push_str(&POLICIES.lines(Terminal::stdout(), rows));
    Ok(0)
}

/// In the order in which they came in force last; those that never did are first.
fn listed(kept: &KeptPolicies) -> Vec<ListedPolicy<'_>> {
    let last: Option<Digest> = kept.lives.last().map(|life| life.bundle);
    let mut all: Vec<ListedPolicy<'_>> = kept
        .bundles
        .iter()
        .map(|bundle| ListedPolicy {
            bundle,
            lives: kept.lives_of(bundle.name).collect(),
            is_last: last == Some(bundle.name),
        })
        .collect();
    // What is noted last came in force last, whatever the clock said.
    let place = |one: &ListedPolicy<'_>| {
        kept.lives
            .iter()
            .rposition(|life| life.bundle == one.bundle.name)
    };
    all.sort_by_key(place);
    all
}

fn row(one: &ListedPolicy<'_>, runs: bool) -> [String; 6] {
    let last = one.lives.last();
    let now = match (one.is_last, runs) {
        (false, _) => "",
        (true, true) => IN_FORCE,
        (true, false) => "last in force",
    };
    [
        one.bundle.name.to_string(),
        last.map_or_else(|| "-".to_owned(), |life| plain(&life.policy)),
        last.map_or_else(|| "-".to_owned(), |life| life.at.to_string()),
        last.map_or("rolled back from", |life| life.from.word())
            .to_owned(),
        one.bundle.bytes.to_string(),
        now.to_owned(),
    ]
}

fn json_of(one: &ListedPolicy<'_>, runs: bool) -> Value {
    json!({
        "bundle": one.bundle.name,
        "bytes": one.bundle.bytes,
        "in_force": one.is_last && runs,
        "last_in_force": one.is_last,
        "lives": one.lives,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D24: policies at 80 columns and at 160: the beginning of a hash is enough to name one.
    #[test]
    fn policies_have_room_on_a_terminal() {
        let row = |hash: &str, since: &str, from: &str, now: &str| {
            let policy = "0a1b2c3d4e5f".to_owned();
            let bytes = "3921".to_owned();
            [
                hash.repeat(16),
                policy,
                since.to_owned(),
                from.to_owned(),
                bytes,
                now.to_owned(),
            ]
        };
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
            let rows = vec![
                row("3f5d", "-", "rolled back from", ""),
                row("382e", "2026-11-28T11:00:00.855314139Z", "switch", IN_FORCE),
            ];
            POLICIES.lines(Terminal::stdout(), rows)
        });
        assert!(
            shown.contains("382e382e  ") && !shown.contains("382e382e382e"),
            "{shown}"
        );
        insta::assert_snapshot!("policies", shown);
    }
}

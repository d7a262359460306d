//! `toolgate test --replay ledger --violations`: the calls that were executed although they are
//! forbidden, and who answers for which of them (003-104).

use super::replay_ledger::{PresentVerdict, ReplayJudge, each};
use super::words::nothing_decided;
use crate::cli::configured;
use crate::cli::ledger::recorded::{PASSED_VERDICT, recorded};
use crate::cli::ledger::text::plain;
use crate::cli::table::{Column, Table};
use crate::cli::terminal::{Terminal, Tone};
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::diagnostic::Severity;
use crate::model::entry::Entry;
use crate::policy::exemptions::{ExemptedCalls, Exemption, Exemptions};
use anyhow::bail;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// Violations that are listed at most, of those that are explained and of those that are not; all
/// are counted.
const MAX_VIOLATIONS_LISTED: usize = 4096;
/// What is said of a call that enforce mode would have asked others about.
const UNASKED_NOTE: &str =
    "it was observed, and a hook or a draft that could have refused it was not asked";

/// Whether they are asked for.
#[derive(Debug, clap::Args)]
pub(super) struct ViolationArgs {
    /// With --replay: list the calls that were executed although they are forbidden. 1: some are
    /// not explained
    #[arg(long, requires = "replay")]
    pub(super) violations: bool,
    /// Who answers for which of them, and until when; as `toolgate schema exemptions` describes
    #[arg(long, value_name = "FILE", requires = "violations")]
    exemptions: Option<PathBuf>,
}

/// An executed call that is forbidden.
struct ForbiddenCall {
    time: String,
    action_id: String,
    /// How many calls the record stands for.
    calls: u64,
    agent: String,
    tool: String,
    code: String,
    /// Was it forbidden when it was executed, or is it only now?
    was_forbidden: bool,
    /// The exemption that explains it, by its place in the file.
    explained: Option<usize>,
    /// One that would if it had not expired.
    expired: Option<usize>,
}

/// The exemptions, and the day on which they hold or have expired.
#[derive(Clone, Copy)]
struct StandingExemptions<'a> {
    all: &'a [Exemption],
    today: Date,
}

/// What was found.
#[derive(Default)]
struct ViolationReport {
    /// All that are asked for, executed or not.
    seen: u64,
    executed: u64,
    /// Those that are listed, and how many there are.
    unexplained: (Vec<ForbiddenCall>, u64),
    explained: (Vec<ForbiddenCall>, u64),
    /// How many violations each exemption is of, by its place in the file.
    of: Vec<u64>,
    undecided: BTreeMap<&'static str, u64>,
    unreadable: u64,
}

/// Prints the violations. 0: there is none, or each is explained; 1: some are not, records cannot
/// be read, or of no call is anything known.
pub(super) fn run(args: &super::Args, out: &mut String) -> anyhow::Result<u8> {
    let exemptions = args.forbidden.exemptions.as_deref().map(read).transpose()?;
    let all: &[Exemption] = exemptions
        .as_ref()
        .map(|exemptions| &*exemptions.all)
        .unwrap_or_default();
    let judge = ReplayJudge::new(args)?;
    let today = Clock.wall().to_zoned(TimeZone::UTC).date();
    let standing = StandingExemptions { all, today };
    let mut found = ViolationReport {
        of: vec![0; all.len()],
        ..ViolationReport::default()
    };
    found.unreadable = each(args, |entry| found.take(entry, &judge, standing))?;
    if args.json {
        let report = json(&judge.policy.version, &found, standing);
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        words(&judge.policy.version, &found, standing, out)?;
    }
    if let Some(exemptions) = &exemptions {
        warn(exemptions, &found.of, today);
    }
    let is_bad = found.unexplained.1 > 0 || found.unreadable > 0 || found.has_decided_nothing();
    Ok(u8::from(is_bad))
}

fn read(path: &Path) -> anyhow::Result<Exemptions> {
    let (read, problems) = Exemptions::read(path);
    for problem in &problems {
        configured::say(&problem.to_string());
    }
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    match read {
        Some(read) => Ok(read),
        None => bail!(
            "{} cannot be used: {}, shown above",
            path.display(),
            counted(errors, "problem")
        ),
    }
}

/// Says which exemptions explain nothing, and why.
fn warn(exemptions: &Exemptions, of: &[u64], today: Date) {
    for (index, exemption) in exemptions.all.iter().enumerate() {
        let (key, message, hint) = if exemption.has_expired(today) {
            (
                Some("until"),
                "has expired: it explains nothing",
                "say until when somebody answers for it, or take it away",
            )
        } else if of.get(index) == Some(&0) {
            (
                None,
                "explains none of the calls",
                "take it away, or look at more calls",
            )
        } else {
            continue;
        };
        configured::say(&exemptions.about(index, key, message, hint).to_string());
    }
}

impl ViolationReport {
    fn take(&mut self, entry: Entry, judge: &ReplayJudge, standing: StandingExemptions<'_>) {
        let calls = entry.count.unwrap_or(1);
        self.seen += calls;
        if !was_executed(&entry) {
            return;
        }
        self.executed += calls;
        let (code, was_forbidden) = match (&entry.would_refuse, judge.again(&entry)) {
            (Some(code), _) => (code.clone(), true),
            (None, PresentVerdict::Verdict(now))
                if now != PASSED_VERDICT && now != recorded(&entry) =>
            {
                (now, false)
            }
            (None, PresentVerdict::Verdict(_)) if entry.unasked.is_empty() => return,
            (None, PresentVerdict::Verdict(_)) => {
                return *self.undecided.entry(UNASKED_NOTE).or_default() += calls;
            }
            (None, PresentVerdict::Undecided(why)) => {
                return *self.undecided.entry(why).or_default() += calls;
            }
        };
        let (mut explained, mut expired) = (None, None);
        for (index, exemption) in standing.all.iter().enumerate() {
            if exemption.fits(&entry.action_id, &entry.tool, &code) {
                self.of[index] += calls;
                let first = if exemption.has_expired(standing.today) {
                    &mut expired
                } else {
                    &mut explained
                };
                first.get_or_insert(index);
            }
        }
        let (listed, count) = if explained.is_some() {
            &mut self.explained
        } else {
            &mut self.unexplained
        };
        *count += calls;
        if listed.len() < MAX_VIOLATIONS_LISTED {
            let agent = entry.agent().to_owned();
            let Entry {
                time,
                action_id,
                tool,
                ..
            } = entry;
            listed.push(ForbiddenCall {
                time,
                action_id,
                calls,
                agent,
                tool,
                code,
                was_forbidden,
                explained,
                expired,
            });
        }
    }

    fn undecided(&self) -> u64 {
        self.undecided.values().sum()
    }

    /// Calls that were only refused are decided: none of them was executed.
    fn has_decided_nothing(&self) -> bool {
        self.seen == 0 || (self.executed > 0 && self.undecided() == self.executed)
    }

    fn all(&self) -> impl Iterator<Item = &ForbiddenCall> {
        self.unexplained.0.iter().chain(&self.explained.0)
    }

    fn count(&self) -> u64 {
        self.unexplained.1 + self.explained.1
    }

    fn unlisted(&self) -> u64 {
        self.count() - self.all().map(|violation| violation.calls).sum::<u64>()
    }
}

/// Was it sent to its tool server, or may it have been? What is answered with an earlier call's
/// answer was not.
fn was_executed(entry: &Entry) -> bool {
    let may_have_been =
        matches!(entry.outcome.as_str(), "dispatching" | "unknown") && entry.claimed_by.is_none();
    entry.attempts > 0 || may_have_been
}

fn words(
    version: &str,
    found: &ViolationReport,
    standing: StandingExemptions<'_>,
    out: &mut String,
) -> fmt::Result {
    writeln!(
        out,
        "executed calls, judged again under policy {version}; nothing was executed now\n"
    )?;
    if found.count() > 0 {
        violations(found, standing.all, out)?;
    }
    if !standing.all.is_empty() {
        exemptions(found, standing, out)?;
    }
    for (why, count) in &found.undecided {
        writeln!(out, "{count} undecided: {why}")?;
    }
    if found.unreadable > 0 {
        writeln!(
            out,
            "{} cannot be read; see `toolgate ledger verify`",
            counted(found.unreadable, "record")
        )?;
    }
    let (count, executed) = (found.count(), counted(found.executed, "executed call"));
    match found.unexplained.1 {
        0 if found.seen == 0 => writeln!(out, "{}", nothing_decided(0, "call")),
        0 if found.has_decided_nothing() => {
            let words = nothing_decided(found.executed, "executed call");
            writeln!(out, "{words}")
        }
        0 if count == 0 => match found.undecided() {
            0 => writeln!(out, "ok: of {executed} none is known to be forbidden"),
            undecided => writeln!(
                out,
                "ok: of {executed} none is known to be forbidden ({undecided} undecided)"
            ),
        },
        0 => writeln!(out, "ok: of {executed} {count} forbidden, all explained"),
        left => writeln!(
            out,
            "VIOLATIONS: of {executed} {count} forbidden, {left} not explained"
        ),
    }
}

/// How violations are listed.
static VIOLATIONS: Table<7> = Table([
    Column::time("TIME"),
    Column::text("AGENT").rank(2).least(8),
    Column::text("TOOL").least(16),
    Column::text("CODE"),
    Column::text("FORBIDDEN").rank(1),
    Column::id("ACTION"),
    Column::text("EXPLAINED").least(9),
]);
/// How exemptions are listed.
static EXEMPTIONS: Table<6> = Table([
    Column::number("CALLS"),
    Column::text("OWNER").least(8),
    Column::text("UNTIL"),
    Column::text("").tone(|state| (state == EXPIRED).then_some(Tone::Bad)),
    Column::text("EXEMPTION OF").least(16),
    Column::text("BECAUSE").rank(1),
]);
/// What is said of an exemption that does not hold any more.
const EXPIRED: &str = "EXPIRED";

fn violations(found: &ViolationReport, all: &[Exemption], out: &mut String) -> fmt::Result {
    let row = |violation: &ForbiddenCall| {
        let ForbiddenCall {
            time,
            action_id,
            calls,
            agent,
            tool,
            code,
            was_forbidden,
            ..
        } = violation;
        let code = if *calls > 1 {
            format!("{} ×{calls}", plain(code))
        } else {
            plain(code)
        };
        let since = if *was_forbidden { "then" } else { "now" };
        [
            plain(time),
            plain(agent),
            plain(tool),
            code,
            since.to_owned(),
            plain(action_id),
            explained(violation, all),
        ]
    };
    let rows = found.all().map(row).collect();
    out.push_str(&VIOLATIONS.lines(Terminal::stdout(), rows));
    if found.unlisted() > 0 {
        writeln!(
            out,
            "… and {} more: ask for fewer, by --agent, --tool or --since",
            found.unlisted()
        )?;
    }
    out.push('\n');
    Ok(())
}

fn exemptions(
    found: &ViolationReport,
    standing: StandingExemptions<'_>,
    out: &mut String,
) -> fmt::Result {
    let row = |exemption: &Exemption, calls: u64| {
        let Exemption {
            owner,
            until,
            because,
            ..
        } = exemption;
        let state = if exemption.has_expired(standing.today) {
            EXPIRED
        } else {
            "holds"
        };
        [
            calls.to_string(),
            plain(owner),
            until.to_string(),
            state.to_owned(),
            plain(&named(&exemption.of)),
            plain(because),
        ]
    };
    let rows = standing.all.iter().zip(&found.of);
    let rows = rows.map(|(exemption, calls)| row(exemption, *calls));
    let rows = rows.collect();
    writeln!(out, "{}", EXEMPTIONS.lines(Terminal::stdout(), rows))?;
    Ok(())
}

fn explained(violation: &ForbiddenCall, all: &[Exemption]) -> String {
    let of = |index: Option<usize>| all.get(index?);
    match (of(violation.explained), of(violation.expired)) {
        (Some(by), _) => format!("by {}, until {}", plain(&by.owner), by.until),
        (None, Some(by)) => format!(
            "NO: the exemption of {} expired after {}",
            plain(&by.owner),
            by.until
        ),
        (None, None) => "NO".to_owned(),
    }
}

fn named(of: &ExemptedCalls) -> String {
    match of {
        ExemptedCalls::One(action) => action.to_string(),
        ExemptedCalls::Like(tool, code) => format!("{tool} {code}"),
    }
}

fn json(version: &str, found: &ViolationReport, standing: StandingExemptions<'_>) -> Value {
    let StandingExemptions { all, today } = standing;
    let who = |index: Option<usize>| {
        let Exemption {
            owner,
            until,
            because,
            ..
        } = all.get(index?)?;
        Some(json!({ "owner": owner, "until": until.to_string(), "because": because }))
    };
    let violations = found.all().map(|violation| {
        let ForbiddenCall { time, action_id, calls, agent, tool, code, was_forbidden, explained, expired } = violation;
        json!({
            "time": time, "action_id": action_id, "calls": calls, "agent": agent, "tool": tool, "code": code, "was_forbidden": was_forbidden,
            "explained": who(*explained), "expired": who(*expired),
        })
    });
    let exemptions = all.iter().zip(&found.of).map(|(exemption, calls)| {
        let Exemption { owner, until, because, .. } = exemption;
        json!({
            "of": named(&exemption.of), "owner": owner, "until": until.to_string(), "because": because, "calls": calls,
            "expired": exemption.has_expired(today),
        })
    });
    json!({
        "policy": version, "executed": found.executed, "decided": found.executed - found.undecided(), "forbidden": found.count(), "unexplained": found.unexplained.1,
        "violations": violations.collect::<Vec<_>>(), "unlisted": found.unlisted(),
        "exemptions": exemptions.collect::<Vec<_>>(), "undecided": found.undecided, "unreadable": found.unreadable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::ToolName;

    /// D24: forbidden calls and who answers for them, at 80 columns and at 160.
    #[test]
    fn violations_have_room_on_a_terminal() {
        let call = |id: &str, explained: Option<usize>, expired: Option<usize>| ForbiddenCall {
            time: "2026-11-27T11:59:00.123456Z".to_owned(),
            action_id: format!("019abc00-0000-7001-8000-0000{id}"),
            calls: 3,
            agent: "billing-agent".to_owned(),
            tool: "bank__transfer_between_accounts".to_owned(),
            code: "idempotency_key_required".to_owned(),
            was_forbidden: false,
            explained,
            expired,
        };
        let exemption = |owner: &str, until: &str| Exemption {
            of: ExemptedCalls::Like(
                ToolName::new("bank__transfer_between_accounts"),
                "rbac_denied".to_owned(),
            ),
            owner: owner.to_owned(),
            until: until.parse().unwrap(),
            because: "the old front end calls without a key until it is replaced".to_owned(),
        };
        let all = [
            exemption("ann", "2026-12-31"),
            exemption("bob", "2026-10-31"),
        ];
        let found = ViolationReport {
            seen: 9,
            executed: 9,
            unexplained: (
                vec![
                    call("aaaa1111", None, None),
                    call("bbbb2222", None, Some(1)),
                ],
                6,
            ),
            explained: (vec![call("cccc3333", Some(0), None)], 3),
            of: vec![3, 0],
            ..ViolationReport::default()
        };
        let today = "2026-11-28".parse().unwrap();
        let standing = StandingExemptions { all: &all, today };
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
            let mut out = String::new();
            violations(&found, &all, &mut out).unwrap();
            exemptions(&found, standing, &mut out).unwrap();
            out
        });
        insta::assert_snapshot!("violations", shown);
    }
}

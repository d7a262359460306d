//! `toolgate test --replay ledger`: what a changed policy says of the calls that were recorded:
//! what would change, before it ships. The ledger has no arguments, so what depends on them is
//! judged only where they are known.

use super::{Args, find};
use crate::cli::ledger::calls::LedgerCalls;
use crate::cli::ledger::reading;
use crate::cli::ledger::recorded::{UNJUDGED_NOTE, audited, is_unjudged, passed, recorded};
use crate::cli::ledger::recorded_as::{RecordedAs, UNKNOWN_AGENT_NOTE, advice};
use crate::cli::printed::LastingOutput;
use crate::cli::{configured, explain};
use crate::gate::record::hashes::params_hash;
use crate::gate::steps::judge::Arguments;
use crate::gate::supposing::steps::visible;
use crate::gate::supposing::{Silent, made};
use crate::guards::allowlist::Admitted;
use crate::model::caller::Caller;
use crate::model::entry::Entry;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::policy::pack::{KnownTool, Pack};
use crate::schema::Schema;
use crate::side::sums::SEVERAL_TOOLS;
use crate::store::journal::JournalError;
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

mod report;

use report::{ReplayReport, ReplayRows};

/// Rows of the report at most; agents can name any number of tools.
const MAX_REPORT_ROWS: usize = 4096;
/// Bytes of a file with arguments, and of one line of it, at most.
const ARGUMENTS_FILE_BYTES_MAX: u64 = 256 << 20;
const ARGUMENTS_LINE_BYTES_MAX: usize = 4 << 20;

/// What is the same for many calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReplayRow {
    agent: String,
    tool: String,
    then: String,
    now: PresentVerdict,
}

/// What is judged now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PresentVerdict {
    /// `passed`, or the code of a refusal.
    Verdict(String),
    /// It depends on what is not known.
    Undecided(&'static str),
}

/// How many calls, and one of them.
#[derive(Debug)]
struct ReplayCount {
    count: u64,
    action_id: String,
}

/// What the calls are judged by.
pub(super) struct ReplayJudge {
    /// The policy as it is now.
    pub(super) policy: Policy,
    packs: Vec<Pack>,
    anything: Schema,
    /// By their hash.
    arguments: HashMap<String, Value>,
    /// As whose calls recorded ones are judged.
    judged_as: RecordedAs,
}

/// Prints what would change. 0: nothing that is known; 1: something, or of no call is anything known.
pub(super) fn run(args: &Args, out: &mut String) -> anyhow::Result<u8> {
    let judge = ReplayJudge::new(args)?;
    let mut rows = BTreeMap::new();
    let unreadable = each(args, |entry| {
        let (then, now) = (recorded(&entry).to_owned(), judge.again(&entry));
        let calls = entry.count.unwrap_or(1);
        count(
            &mut rows,
            ReplayRow {
                agent: entry.agent().to_owned(),
                tool: entry.tool,
                then,
                now,
            },
            calls,
            entry.action_id,
        );
    })?;
    let report = ReplayReport::of(&judge.policy.version, &rows, unreadable);
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report.json())?)?;
    } else {
        report.words(&judge.advice(&rows), out)?;
    }
    Ok(u8::from(report.different > 0 || report.decided() == 0))
}

/// Takes each recorded call that is asked for. How many records cannot be read. An error, too, if
/// `--as` names an agent that none of them is of.
pub(super) fn each(args: &Args, mut take: impl FnMut(Entry)) -> anyhow::Result<u64> {
    let path = configured::path(args.place.config.as_deref())?;
    let place = args.place.place_of(&path)?;
    let (mut unreadable, mut met) = (0, HashSet::new());
    let progress = reading();
    for call in LedgerCalls::open(&place.data)?.with_keys(configured::kept(&place)?) {
        progress.step();
        match call {
            Ok(call) if args.wanted.fits(&call.entry) => {
                if args.judged_as.agent_for(&call.entry.user_id).is_some() {
                    met.insert(call.entry.user_id.clone());
                }
                take(call.entry);
            }
            Ok(_) => {}
            Err(JournalError::Unreadable { .. }) => unreadable += 1,
            Err(error) => return Err(error.into()),
        }
    }
    drop(progress);
    args.wanted
        .say_unmet(&args.place, &mut LastingOutput(std::io::stderr()))?;
    args.judged_as.met(|recorded| met.contains(recorded))?;
    Ok(unreadable)
}

fn count(
    rows: &mut BTreeMap<ReplayRow, ReplayCount>,
    row: ReplayRow,
    calls: u64,
    action_id: String,
) {
    let others = || ReplayRow {
        agent: "…".to_owned(),
        tool: "…".to_owned(),
        ..row.clone()
    };
    let row = if rows.len() < MAX_REPORT_ROWS || rows.contains_key(&row) {
        row
    } else {
        others()
    };
    rows.entry(row)
        .or_insert(ReplayCount {
            count: 0,
            action_id,
        })
        .count += calls;
}

/// The arguments in the file, one object a line, by their hash.
fn arguments_by_hash(path: &Path) -> anyhow::Result<HashMap<String, Value>> {
    let cannot = || format!("{} cannot be read", path.display());
    let file = std::fs::File::open(path)
        .with_context(cannot)?
        .take(ARGUMENTS_FILE_BYTES_MAX);
    let mut found = HashMap::new();
    for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
        let line = line.with_context(cannot)?;
        if line.len() > ARGUMENTS_LINE_BYTES_MAX {
            bail!(
                "{}:{}: longer than {ARGUMENTS_LINE_BYTES_MAX} bytes",
                path.display(),
                index + 1
            );
        }
        if !line.trim_ascii().is_empty() {
            let arguments =
                explain::read(&format!("{}:{}", path.display(), index + 1), line.into())?;
            found.insert(params_hash(&arguments), arguments);
        }
    }
    Ok(found)
}

impl ReplayJudge {
    /// The configuration's policy, with the schemas of the packs and the arguments that are known.
    pub(super) fn new(args: &Args) -> anyhow::Result<Self> {
        let config = args.place.config.as_deref();
        let (path, loaded) = configured::supposed(config)?;
        let policy = loaded.reading.policy.context("the policy cannot be used")?;
        args.judged_as.check(&policy)?;
        let files = if args.paths.is_empty() {
            find::beside(&path, &loaded.reading.files)?
        } else {
            find::packs(&args.paths)?
        };
        let packs = files.iter().filter_map(|file| Pack::read(file).0).collect();
        let arguments = args
            .arguments
            .as_deref()
            .map(arguments_by_hash)
            .transpose()?
            .unwrap_or_default();
        Ok(Self {
            policy,
            packs,
            anything: explain::schema(None)?,
            arguments,
            judged_as: args.judged_as.clone(),
        })
    }

    /// What the policy says of the call now, as far as it can be known.
    pub(super) fn again(&self, entry: &Entry) -> PresentVerdict {
        let policy = &self.policy;
        if is_unjudged(entry) {
            return PresentVerdict::Undecided(UNJUDGED_NOTE);
        }
        if policy.version == entry.policy && self.judged_as.agent_for(&entry.user_id).is_none() {
            return PresentVerdict::Verdict(recorded(entry).to_owned());
        }
        let Some(caller) = self.judged_as.caller(policy, entry) else {
            return PresentVerdict::Undecided(UNKNOWN_AGENT_NOTE);
        };
        if entry.tool == SEVERAL_TOOLS {
            return PresentVerdict::Undecided(
                "refusals of several tools are summed up in one entry",
            );
        }
        let tool = ToolName::new(&entry.tool);
        let admitted = match visible(policy, &caller, &tool, &mut Silent) {
            Ok(admitted) => admitted,
            Err(refusal) => return PresentVerdict::Verdict(refusal.code().to_owned()),
        };
        if entry.schema_hash.is_none() {
            return PresentVerdict::Undecided("no server offered the tool then");
        }
        if let Some(refusal) = admitted.rules().permission.refuses(&caller) {
            return PresentVerdict::Verdict(refusal.code().to_owned());
        }
        if entry.count.is_some() {
            return PresentVerdict::Undecided(
                "several calls are summed up in one entry, which has the arguments of the last only",
            );
        }
        let audited = audited(entry);
        match audited
            .as_ref()
            .or_else(|| self.arguments.get(entry.sent_hash()))
        {
            None => {
                PresentVerdict::Undecided("the ledger has no arguments: give them with --arguments")
            }
            Some(arguments) => self.with(&admitted, &caller, entry, arguments),
        }
    }

    /// What to type so that more of them are judged.
    fn advice(&self, rows: &ReplayRows) -> String {
        let unknown = PresentVerdict::Undecided(UNKNOWN_AGENT_NOTE);
        let agents = rows.keys().filter(|row| row.now == unknown);
        let agents = agents.map(|row| row.agent.as_str()).collect();
        advice(&self.policy, &agents).map_or_else(String::new, |line| line + "\n")
    }

    fn with<'p>(
        &'p self,
        admitted: &Admitted<'p>,
        caller: &Caller,
        entry: &Entry,
        arguments: &Value,
    ) -> PresentVerdict {
        let tool = &ToolName::new(&entry.tool);
        let known = self.packs.iter().find_map(|pack| match pack.tool(tool) {
            KnownTool::Schema(schema) => Some(schema),
            KnownTool::Absent | KnownTool::Nothing => None,
        });
        let arguments = Arguments {
            caller,
            schema: known.unwrap_or(&self.anything),
            values: arguments,
        };
        match made(&self.policy, admitted, arguments, &mut Silent) {
            Err(Refusal::SchemaInvalid { .. }) if known.is_none() => {
                PresentVerdict::Undecided("no pack has the tool's schema under `servers`")
            }
            Err(refusal) => PresentVerdict::Verdict(refusal.code().to_owned()),
            Ok(made) => match passed(entry, made.rules) {
                Ok(verdict) => PresentVerdict::Verdict(verdict.to_owned()),
                Err(why) => PresentVerdict::Undecided(why),
            },
        }
    }
}

impl ReplayRow {
    fn has_changed(&self) -> bool {
        matches!(&self.now, PresentVerdict::Verdict(now) if *now != self.then)
    }
}

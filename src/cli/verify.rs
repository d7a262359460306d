//! `toolgate verify`: what is promised, tried with this configuration and its policy. Dry: in place of the tool servers
//! stands one that counts, and all that is recorded is thrown away.

mod agent;
mod candidates;
mod checks;
mod echo;
mod made;
mod person;
mod place;
mod plan;
mod rows;
mod trial;

use super::configured::{self, DataArgs};
use super::ledger::text::json_lines;
use super::operator;
use super::printed::print;
use super::released;
use super::runtime::{runtime, told_to_end};
use super::terminal::Terminal;
use super::terminal::progress::{ProgressUnit, WorkProgress};
use super::test::find::beside;
use crate::config::{self, Config};
use crate::guards::Mode;
use crate::model::caller::Caller;
use crate::model::disabled::TakenAway;
use crate::model::ids::ServerName;
use crate::owners::keep_private;
use crate::policy::Policy;
use crate::policy::pack::Pack;
use crate::policy::shape::suggest;
use crate::store::{disabling, incidents};
use anyhow::bail;
use candidates::TrialTool;
use checks::{approvals, at_most_once, budgets, closed, fences, ledgers};
use echo::{EchoServer, EchoTools};
use futures_util::FutureExt as _;
use place::TrialDirectory;
use plan::{TrialPlan, TrialSubject, TrialTerms};
use rows::{Guarantee, GuaranteeReport, GuaranteeRow, RowVerdict};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trial::Trial;

const OBSERVED: &str = "in observe mode nothing is refused, so that nothing is promised: verify takes `mode: enforce` in the configuration";
/// Why nothing is shown of agents that the configuration does not list.
const ISSUED_CALLERS: &str =
    "agents whom issuers name are not tried: verify has no token of theirs";

/// What to verify.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: DataArgs,
    /// Only this tool, as `server__tool`; may be given again
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    /// Only this agent of `callers`; may be given again
    #[arg(long, value_name = "AGENT")]
    caller: Vec<String>,
    /// 1 also where something can't be shown
    #[arg(long)]
    require_all: bool,
    /// One JSON object, in place of lines
    #[arg(long)]
    json: bool,
}

/// What is verified, as the files say it.
struct VerifiedFiles {
    config: Config,
    path: PathBuf,
    policy: Policy,
    servers: Vec<ServerName>,
    tools: Vec<Arc<TrialTool>>,
    /// All tools, also those that are not asked for: contracts name each other's.
    echoed: EchoTools,
    callers: Vec<Arc<Caller>>,
    left_out: Vec<String>,
    /// Whether there are agents whom issuers name, and all agents are asked for.
    has_issued_callers: bool,
}

/// Verifies. 0: nothing is broken; 1: something is, or can't be shown that has to be; 2: what was typed cannot be used.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    keep_private();
    let (config, released) = released::load(&args.place)?;
    let path = configured::path(args.place.config.as_deref())?;
    let policy = released.current();
    if policy.mode == Mode::Observe {
        return Ok(operator::misused(OBSERVED));
    }
    let servers = config.servers.values().filter(|server| !server.disabled);
    let servers: Vec<ServerName> = servers.map(|server| server.name.clone()).collect();
    let tools = plan::tools(&policy, &servers);
    let mut files = VerifiedFiles {
        echoed: plan::echoed(&tools),
        tools,
        policy: place::trial_policy(&policy),
        callers: Vec::new(),
        left_out: Vec::new(),
        has_issued_callers: policy.identity.issued().is_some() && args.caller.is_empty(),
        servers,
        config,
        path,
    };
    if let Err(why) = files.choose(args) {
        return Ok(operator::misused(&why));
    }
    let plan = files.plan()?;
    let own = ledgers::of_configuration(&files.config);
    let version = policy.version.clone();
    let mut rows = runtime()?.block_on(Box::pin(until_told(files, &plan)))?;
    let TrialPlan {
        rows: unseen,
        left_out,
        ..
    } = plan;
    rows.extend(unseen);
    rows.push(own);
    // What is about one tool stands together, and what is about none at the end.
    rows.sort_by_key(|row| (row.tool.is_none(), row.tool.clone(), row.caller.clone()));
    let report = GuaranteeReport {
        policy: version,
        rows,
        left_out,
        requires_all: args.require_all,
    };
    if args.json {
        print(&(json_lines(&report.json()) + "\n"))?;
    } else {
        print(&Terminal::stdout().tinted(&report.words()))?;
    }
    Ok(report.exit_code())
}

impl VerifiedFiles {
    /// Takes the callers and tools that are asked for; an error in words where there is none of that name.
    fn choose(&mut self, args: &Args) -> Result<(), String> {
        let all = self.policy.identity.callers();
        for caller in all {
            let is_known = self.callers.iter().any(|known| known.agent == caller.agent);
            if is_known {
                let agent = &caller.agent;
                self.left_out.push(format!(
                    "another entry of the agent {agent}: its first one stands for it"
                ));
            } else {
                self.callers.push(caller.clone());
            }
        }
        let agents: Vec<String> = self
            .callers
            .iter()
            .map(|caller| caller.agent.to_string())
            .collect();
        let names: Vec<String> = self
            .tools
            .iter()
            .map(|tool| tool.name.to_string())
            .collect();
        among("--caller", &args.caller, &agents)?;
        among("--tool", &args.tool, &names)?;
        let is_asked =
            |asked: &[String], name: &str| asked.is_empty() || asked.iter().any(|one| one == name);
        self.callers
            .retain(|caller| is_asked(&args.caller, caller.agent.as_str()));
        self.tools
            .retain(|tool| is_asked(&args.tool, tool.name.as_str()));
        Ok(())
    }

    /// What is tried.
    fn plan(&self) -> anyhow::Result<TrialPlan> {
        let (packs, unread) = packs(&self.path)?;
        let away = TakenAway {
            tools: disabling::read(&self.config.data)?,
            frozen: incidents::frozen(&self.config.data)?,
        };
        let terms = TrialTerms {
            policy: &self.policy,
            tools: &self.tools,
            callers: &self.callers,
            packs: &packs,
            away: &away,
        };
        let mut plan = terms.plan();
        if self.has_issued_callers {
            let why = RowVerdict::NotShown(ISSUED_CALLERS.to_owned());
            plan.rows
                .push(plan::row(Guarantee::AtMostOnce, None, None, why));
        }
        plan.left_out.extend(self.left_out.iter().cloned());
        plan.left_out.extend(unread);
        Ok(plan)
    }
}

/// An error in words where one of `asked` is not among `known`.
fn among(option: &str, asked: &[String], known: &[String]) -> Result<(), String> {
    match asked.iter().find(|name| !known.contains(name)) {
        Some(name) => {
            let near = suggest(name, known);
            Err(format!(
                "{option}: there is no `{}` to be verified; {near}",
                name.escape_debug()
            ))
        }
        None => Ok(()),
    }
}

/// The test packs beside the policies, whose samples are calls that may pass; and what is to be said of the others.
fn packs(path: &Path) -> anyhow::Result<(Vec<Pack>, Vec<String>)> {
    let files = config::load_supposing(path).reading.files;
    let (mut packs, mut unread) = (Vec::new(), Vec::new());
    for file in beside(path, &files)? {
        match Pack::read(&file).0 {
            Some(pack) => packs.push(pack),
            None => unread.push(format!(
                "samples of the test pack {}: it has errors, and `toolgate test` says which",
                file.display()
            )),
        }
    }
    Ok((packs, unread))
}

/// Tries everything until the end or a signal, and leaves nothing behind.
async fn until_told(files: VerifiedFiles, plan: &TrialPlan) -> anyhow::Result<Vec<GuaranteeRow>> {
    let mut told = Box::pin(told_to_end());
    // The signals are caught before there is anything that could be left behind.
    if (&mut told).now_or_never().is_some() {
        bail!("interrupted");
    }
    tokio::select! {
        biased;
        () = &mut told => bail!("interrupted: not everything has been verified"),
        rows = Box::pin(verify(files, plan)) => rows,
    }
}

async fn verify(files: VerifiedFiles, plan: &TrialPlan) -> anyhow::Result<Vec<GuaranteeRow>> {
    let directory = TrialDirectory::make()?;
    let echo = EchoServer::start(files.echoed).await?;
    let policy = files.policy;
    let read = config::reader(files.path, &files.config);
    let live = place::in_force(policy.clone(), read)?;
    let config = place::own(files.config, directory.data_dir(), &echo)?;
    let started = Trial::start(&config, &live, echo, directory);
    let trial = Box::pin(started).await?;
    let total = u64::try_from(plan.subjects.len()).ok();
    let progress = WorkProgress::of("verifying", total, ProgressUnit::Steps);
    let mut rows = Vec::new();
    for subject in &plan.subjects {
        rows.extend(Box::pin(of_subject(&trial, &policy, subject)).await?);
        progress.step();
    }
    for (caller, withheld) in &plan.withheld {
        let hidden = closed::hidden_tools(&trial, caller, &files.servers, withheld);
        rows.extend(Box::pin(hidden).await?);
    }
    rows.extend(Box::pin(closed::failing_store(&trial, &plan.subjects)).await?);
    let report = Box::pin(trial.end()).await?;
    rows.push(ledgers::of_trial(&report));
    Ok(rows)
}

/// All that is about one tool under one caller.
async fn of_subject(
    trial: &Trial,
    policy: &Policy,
    subject: &TrialSubject,
) -> anyhow::Result<Vec<GuaranteeRow>> {
    let once = Box::pin(at_most_once::verify(trial, subject)).await?;
    let mut rows = vec![subject.row(Guarantee::AtMostOnce, once)];
    rows.extend(Box::pin(approvals::verify(trial, subject)).await?);
    rows.extend(Box::pin(budgets::verify(trial, policy, subject)).await?);
    let fenced = Box::pin(fences::verify(trial, subject)).await?;
    rows.push(subject.row(Guarantee::Fencing, fenced));
    let invalid = Box::pin(closed::invalid_arguments(trial, subject)).await?;
    rows.push(subject.row(Guarantee::InvalidArguments, invalid));
    Ok(rows)
}

//! `toolgate approvals grants explain`: whether a grant can still cover a call, which covers one, and why others
//! do not. A toolgate that runs says it; where none does, its files and its ledger do.

use super::super::{Args, ask, parsed};
use super::{GrantCallerArgs, meant, path, put, whole};
use crate::admin::grants::explaining::{GrantsExplained, explained};
use crate::cli::configured::{self, DataArgs};
use crate::cli::operator::door::{self, DoorRequest};
use crate::cli::operator::{self, ReplyArgs};
use crate::cli::runtime::runtime;
use crate::cli::terminal::ids::TypedId;
use crate::gate::grant_rules::{GrantRulebook, ToolNow, pinned};
use crate::guards::approval::grant_miss::GrantDeath;
use crate::guards::approval::{GrantJudge as _, GrantedCall};
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::mcp::pretty::plain;
use crate::model::approvers::Approvers;
use crate::model::clock::Clock;
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::store::grants::at_rest::{self, GrantsAtRest};
use crate::store::grants::view::GrantView;
use serde_json::json;
use std::fmt::Write as _;

/// What is said where neither was.
const NOTHING_ASKED: &str = "say which grant, or which call";

#[derive(Debug, clap::Args)]
pub(super) struct GrantExplainArgs {
    /// The grant's id, or its beginning or end; without it, all grants for the tool are asked about
    #[arg(required_unless_present = "tool")]
    id: Option<TypedId>,
    /// The tool of the call, such as `bank__pay`; without it, whether the grant can still cover a call
    #[arg(long, value_name = "TOOL", requires = "agent")]
    tool: Option<String>,
    #[command(flatten)]
    caller: GrantCallerArgs,
    /// The call's arguments
    #[arg(long, value_name = "JSON", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// Says it; 0 whatever the answer is, 1 where a toolgate refuses, 2 where nothing can be asked.
pub(super) fn run(args: &Args, explain: &GrantExplainArgs) -> anyhow::Result<u8> {
    let call = match explain.call() {
        Ok(call) => call,
        Err(wrong) => return Ok(operator::misused(&wrong)),
    };
    let runs = || {
        let (address, _) = configured::door_of(&args.place)?;
        Ok::<_, anyhow::Error>(runtime()?.block_on(door::is_open(address)))
    };
    // Who names a directory has it read as it is.
    let is_asked = match args.place.data {
        Some(_) => Ok(false),
        None if args.door.is_named() => Ok(true),
        None => runs(),
    };
    match is_asked {
        Ok(true) => return asked(args, explain, call.as_ref()),
        Ok(false) => {}
        Err(why) => return Ok(operator::misused(&format!("{why:#}"))),
    }
    match GrantFiles::read(&args.place) {
        Ok(files) => files.told(explain, call.as_ref()),
        Err(why) => Ok(operator::misused(&format!("{why:#}"))),
    }
}

impl GrantExplainArgs {
    /// The call that is asked about, if one is.
    fn call(&self) -> Result<Option<GrantedCall>, String> {
        let Some(tool) = &self.tool else {
            return Ok(None);
        };
        let arguments = Text::read(self.arguments.clone().into(), &AGENT_JSON_LIMITS);
        let arguments = arguments.map_err(|error| format!("--arguments is no JSON: {error}"))?;
        let GrantCallerArgs {
            agent,
            tenant,
            user,
        } = self.caller.clone();
        Ok(Some(GrantedCall {
            agent: agent.unwrap_or_default(),
            tenant,
            user,
            tool: ToolName::new(tool),
            arguments: arguments.value(),
        }))
    }

    fn grant_told(&self, view: Result<GrantView, String>) -> anyhow::Result<u8> {
        self.reply.show(view, |view| Ok(can_still(&view)))
    }

    fn call_told(&self, told: Result<GrantsExplained, String>) -> anyhow::Result<u8> {
        self.reply.show(told, |told| Ok(reasons(&told)))
    }
}

/// What the toolgate says that runs.
fn asked(
    args: &Args,
    explain: &GrantExplainArgs,
    call: Option<&GrantedCall>,
) -> anyhow::Result<u8> {
    let id = match explain.id.as_ref().map(|id| meant(args, id)).transpose()? {
        Some(Err(why)) => return Ok(operator::refused(&why)),
        Some(Ok(id)) => Some(id),
        None => None,
    };
    match (id, call) {
        (Some(id), None) => explain.grant_told(parsed(ask(args, DoorRequest::get(path(id)))?)?),
        (id, Some(call)) => {
            let GrantedCall {
                agent, arguments, ..
            } = call;
            let tool = call.tool.as_str();
            let mut body = json!({ "agent": agent, "tool": tool, "arguments": arguments });
            put(&mut body, "tenant", call.tenant.as_ref());
            put(&mut body, "user", call.user.as_ref());
            put(&mut body, "grant", id.map(|id| id.to_string()).as_ref());
            let request = DoorRequest::post("/api/grants/explain", Text::of(&body));
            explain.call_told(parsed(ask(args, request)?)?)
        }
        (None, None) => Ok(operator::misused(NOTHING_ASKED)),
    }
}

/// What the files of a toolgate say that need not run.
struct GrantFiles {
    policy: Policy,
    approvers: Approvers,
    known: GrantsAtRest,
    /// What was read.
    from: String,
}

impl GrantFiles {
    fn read(named: &DataArgs) -> anyhow::Result<Self> {
        let (path, loaded) = configured::supposed(named.config.as_deref())?;
        let data = named.place_of(&path)?.data;
        if !data.is_dir() {
            anyhow::bail!(
                "there is no data directory {}: no toolgate has run on it yet",
                data.display()
            );
        }
        let config = loaded.config.as_ref();
        let approvers = config.map(|config| config.admin.approvers());
        let policy = configured::in_force(loaded, &data)?;
        let now = u64::try_from(Clock.wall().as_millisecond()).unwrap_or_default();
        let from = format!(
            "read from {} (policy {}), its pins, and the ledger in {}",
            path.display(),
            policy.version,
            data.display()
        );
        Ok(Self {
            approvers: approvers.unwrap_or_default(),
            known: at_rest::read(&data, now)?,
            policy,
            from,
        })
    }

    /// Says it, and what it was read from.
    fn told(&self, explain: &GrantExplainArgs, call: Option<&GrantedCall>) -> anyhow::Result<u8> {
        let GrantsAtRest { grants, now } = &self.known;
        let ids: Vec<String> = grants.iter().map(|grant| grant.id.to_string()).collect();
        let choose = |id: &TypedId| id.choose(ids.iter().map(String::as_str), "grant");
        let chosen = explain.id.as_ref().map(choose);
        let named = match chosen.transpose() {
            Ok(named) => named.map(|id| id.to_string()),
            Err(why) => return Ok(operator::refused(&why)),
        };
        let found = grants
            .iter()
            .find(|grant| Some(grant.id.to_string()) == named);
        if let (Some(named), None) = (&named, found) {
            let why = format!("grant {named} is forgotten or not found");
            return Ok(operator::refused(&why));
        }
        let tool = call.map(|call| &call.tool);
        let tool = tool.or_else(|| found.map(|grant| &grant.scope.tool));
        configured::say(&format!("toolgate: {}{}", self.from, self.unpinned(tool)));
        let judge = GrantRulebook {
            policy: &self.policy,
            approvers: &self.approvers,
            tools: &|tool| pinned(&self.policy, tool),
        };
        match (found, call) {
            (Some(grant), None) => {
                let dead = judge.dead(grant).map(GrantDeath::words);
                explain.grant_told(Ok(GrantView::of(grant, *now, dead)))
            }
            (_, Some(call)) => {
                let told = explained(&judge, grants, named.as_deref(), call, *now);
                explain.call_told(Ok(told))
            }
            (None, None) => Ok(operator::misused(NOTHING_ASKED)),
        }
    }

    /// What is supposed of a tool without a pin.
    fn unpinned(&self, tool: Option<&ToolName>) -> String {
        match tool.map(|tool| (tool, pinned(&self.policy, tool))) {
            Some((tool, ToolNow::Unknown)) => format!(
                "; no pin says how {} is defined, so it is taken to be as it was granted",
                plain(tool.as_str())
            ),
            _ => String::new(),
        }
    }
}

fn can_still(view: &GrantView) -> String {
    match &view.reason {
        Some(why) => format!(
            "it covers no call any more: it is {}, because {}\n",
            plain(&view.state),
            plain(why)
        ),
        None => "it can still cover a call\n".to_owned() + &whole(view),
    }
}

fn reasons(told: &GrantsExplained) -> String {
    let mut out = match (&told.covered_by, &told.never) {
        (Some(id), _) => format!("the call is covered by the grant {}\n", plain(id)),
        (None, Some(why)) => format!("no grant can cover the call: {}\n", plain(why)),
        (None, None) => "no grant covers the call: a person is asked\n".to_owned(),
    };
    for one in &told.grants {
        let (id, state) = (plain(&one.id), plain(&one.state));
        if one.why.is_none() {
            let _ = writeln!(out, "{id}  {state:<8}  covers the call");
        }
        for (nth, failed) in one.fails.iter().enumerate() {
            let (id, state) = if nth == 0 { (&*id, &*state) } else { ("", "") };
            let _ = writeln!(out, "{id:<36}  {state:<8}  {}", plain(&failed.why));
        }
    }
    out
}

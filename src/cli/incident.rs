//! `toolgate incident`: tools are frozen at once, what went wrong becomes a sample of the test packs, and
//! the tools come back when that is as expected (003-20, 003-43). Through the operators' door of a running
//! toolgate; on the data directory itself when none runs (the lock tells).

mod collect;
pub(super) mod evidence;
mod number;
mod place;
mod sample;
mod shown;

use super::configured::{self, DataArgs};
use super::ledger::text::{plain, short};
use super::operator::door::DoorRequest;
use super::operator::{self, DoorArgs, ReplyArgs, direct};
use super::test::incident_proof;
use crate::admin::incidents::IncidentList;
use crate::config::{self, DataPlace};
use crate::guards::allowlist::ToolPattern;
use crate::mcp::json::Text;
use crate::model::counted::counted;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::store::claims::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::incidents::{
    self, ClosingWish, Incident, IncidentError, IncidentWish, Incidents, RunPacks,
};
use crate::store::journal::{Journal, JournalReader};
use place::{IncidentPlace, ask, door_alone};
use serde_json::json;
use std::sync::Arc;

/// Opens, shows, samples and closes incidents. toolgate may be running or not; while it runs, this takes
/// the role `switch`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: IncidentVerb,
    #[command(flatten)]
    place: DataArgs,
    #[command(flatten)]
    door: DoorArgs,
}

#[derive(Debug, clap::Subcommand)]
enum IncidentVerb {
    /// Freeze tools: none is called, what is held of them is void, grants are revoked
    Open(OpenArgs),
    /// List incidents, the newest first; with --json one object per line
    List(ReplyArgs),
    /// Show one incident with its timeline
    Show(ShowArgs),
    /// Make the smallest sample of a recorded call that shows it, for the test packs
    ///
    /// It is written to the packs beside the policies, and the incident stays open until all packs are
    /// as expected with it. Where the policy refuses the call already as is expected, what of the
    /// arguments has no part in that is left out.
    Sample(Box<sample::SampleArgs>),
    /// Write all that there is about an incident to one file: its calls, policies, pins and versions
    ///
    /// Lines of JSON. Arguments and results are in it as far as the ledger has them in the open: as
    /// hashes, but for what a contract's `audit` names.
    Collect(collect::CollectArgs),
    /// Give the tools back, once the test packs pass with its samples
    Close(CloseArgs),
}

#[derive(Debug, clap::Args)]
struct OpenArgs {
    /// The tools, as a layer names them: `server__tool`, `server__*`
    #[arg(long, value_name = "PATTERN")]
    tool: String,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    reply: ReplyArgs,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The incident's number
    #[arg(value_parser = number::incident_number)]
    id: u64,
    #[command(flatten)]
    reply: ReplyArgs,
}

#[derive(Debug, clap::Args)]
struct CloseArgs {
    /// The incident's number
    #[arg(value_parser = number::incident_number)]
    id: u64,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Close it also where its samples or the test packs are not as expected; that is recorded
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// Runs the verb; 0 when it was done, 1 when it was refused or there is no such incident.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.verb {
        IncidentVerb::Open(open) => opened(args, open),
        IncidentVerb::List(reply) => operator::show(all(&IncidentPlace::of(args)?)?, |list| {
            if reply.is_json() {
                return shown::lines(&list);
            }
            Ok(shown::list(&list))
        }),
        IncidentVerb::Show(show) => {
            let found = found(&IncidentPlace::of(args)?, show.id)?;
            show.reply.show(found, |one| Ok(shown::details(&one)))
        }
        IncidentVerb::Sample(sample) => sample.run(args),
        IncidentVerb::Collect(collect) => collect.run(args),
        IncidentVerb::Close(close) => closed(args, close),
    }
}

/// The record of a toolgate that has run: without a journal there is nothing to open, and nothing is
/// to be made.
fn place_of(args: &Args) -> anyhow::Result<DataPlace> {
    let place = args.place.place()?;
    JournalReader::open(&place.data)?;
    Ok(place)
}

/// What the door makes of `request` that is named; else what `work` makes of the record of a toolgate that has
/// run, or the toolgate that has it.
fn changed(
    args: &Args,
    request: DoorRequest,
    work: impl AsyncFnOnce(&DataPlace, Journal) -> anyhow::Result<Result<Incident, String>>,
) -> anyhow::Result<Result<Incident, String>> {
    if let Some(door) = door_alone(args)? {
        return ask(&door, request);
    }
    let place = place_of(args)?;
    args.door
        .ask_anyone(&place, request, async |journal| work(&place, journal).await)
}

fn opened(args: &Args, open: &OpenArgs) -> anyhow::Result<u8> {
    let body = Text::of(&json!({ "tool": open.tool, "why": open.why }));
    let request = DoorRequest::post("/api/incidents", body);
    let opened = changed(args, request, async |place, journal| {
        let Some(tools) = scope_of(args, place, &open.tool) else {
            let words = "the pattern names tools of no server; name them as a layer does: `server__tool`, `server__*`";
            return Ok(Err(words.to_owned()));
        };
        let wish = IncidentWish {
            scope: open.tool.clone(),
            tools,
            who: direct::system_user(),
            why: open.why.clone(),
        };
        on_disk(place, journal, async |incidents, store| {
            incidents.begin(store, wish).await
        })
        .await
    })?;
    open.reply.show(opened, |incident| {
        let Incident { id, voided, revoked, tools, .. } = &incident;
        let (scope, who) = (short(&incident.scope), short(&incident.who));
        let (voided, revoked) = (counted(*voided, "held call"), counted(*revoked, "grant"));
        let doubt = if tools.is_empty() {
            "no tool is known that it names: look whether it is written right\n"
        } else {
            ""
        };
        Ok(format!(
            "incident {id} is open: {scope} is frozen by {who}\nvoid: {voided}; revoked: {revoked}\n{doubt}"
        ))
    })
}

fn closed(args: &Args, close: &CloseArgs) -> anyhow::Result<u8> {
    let id = close.id;
    let body = Text::of(&json!({ "why": close.why, "force": close.force }));
    let request = DoorRequest::post(format!("/api/incidents/{id}/close"), body);
    let closed = changed(args, request, async |place, journal| {
        let wish = ClosingWish {
            id,
            who: direct::system_user(),
            why: close.why.clone(),
            force: close.force,
        };
        let packs = packs(args);
        on_disk(place, journal, async |incidents, store| {
            incidents.close(store, wish, packs).await
        })
        .await
    })?;
    close.reply.show(closed, |incident| {
        let scope = short(&incident.scope);
        let end = incident.closed.as_ref();
        let how = end.map_or_else(String::new, |end| {
            let forced = if end.forced { "forced: " } else { "" };
            format!("{forced}{}", plain(&end.packs))
        });
        Ok(format!("incident {id} is closed: {scope} is back\n{how}\n"))
    })
}

/// All incidents: as the data directory has them, or the toolgate behind the door.
fn all(place: &IncidentPlace<'_>) -> anyhow::Result<Result<IncidentList, String>> {
    match place {
        IncidentPlace::Here(place) => {
            let known = incidents::read(&place.data)?;
            let incidents = known.into_values().rev().collect();
            Ok(Ok(IncidentList { incidents }))
        }
        IncidentPlace::Door(door) => ask(door, DoorRequest::get("/api/incidents")),
    }
}

fn found(place: &IncidentPlace<'_>, id: u64) -> anyhow::Result<Result<Incident, String>> {
    if let IncidentPlace::Door(door) = place {
        return ask(door, DoorRequest::get(format!("/api/incidents/{id}")));
    }
    let listed = all(place)?;
    Ok(listed.and_then(|IncidentList { incidents }| {
        let mut incidents = incidents.into_iter();
        let found = incidents.find(|one| one.id == id);
        found.ok_or_else(|| {
            format!("there is no incident {id}; `toolgate incident list` lists those there are")
        })
    }))
}

/// What `work` makes of the incidents of a toolgate that does not run.
async fn on_disk(
    place: &DataPlace,
    journal: Journal,
    work: impl AsyncFnOnce(&Incidents, &dyn Store) -> Result<Incident, IncidentError>,
) -> anyhow::Result<Result<Incident, String>> {
    let ledger = journal.clone();
    direct::with_store(place, journal, async |store: &EmbeddedStore| {
        let incidents = Incidents::open(&place.data, ledger, Arc::new(|_| ()))?;
        incidents.repair(store).await;
        match work(&incidents, store).await {
            Ok(incident) => Ok(Ok(incident)),
            Err(IncidentError::Store(error) | IncidentError::Unsettled(error)) => Err(error.into()),
            Err(why) => Ok(Err(why.to_string())),
        }
    })
    .await
}

/// The test packs that the configuration has.
fn packs(args: &Args) -> Arc<RunPacks> {
    match configured::path(args.place.config.as_deref()) {
        Ok(path) => incident_proof::runner(path),
        Err(_) => Arc::new(|_| Err("there is no configuration, and so no test pack".to_owned())),
    }
}

/// The tools of contracts that the pattern names; none where it is no pattern, or of no server that the
/// configuration has. Of a data directory that is named alone, nothing says which servers there are.
fn scope_of(args: &Args, place: &DataPlace, pattern: &str) -> Option<Vec<ToolName>> {
    let pattern = ToolPattern::compile(pattern, &mut Problems::default())?;
    let is_alone = args.place.data.is_some() && place.servers.is_empty();
    if !is_alone && !place.servers.iter().any(|server| pattern.reaches(server)) {
        return None;
    }
    let policy = configured::path(args.place.config.as_deref())
        .ok()
        .and_then(|path| config::load_supposing(&path).reading.policy);
    let Some(policy) = policy else {
        return Some(Vec::new());
    };
    let contracts = policy.allowlist.contracts();
    let named =
        contracts.filter(|tool| !tool.as_str().contains('*') && pattern.matches(tool.as_str()));
    Some(named.cloned().collect())
}

//! `toolgate incident sample`: a call that went wrong is asked for ever after, and its tools come back only
//! when the policy says of it what is expected.

use super::number::incident_number;
use super::place::{IncidentPlace, ask};
use super::{Args, all, changed, on_disk};
use crate::admin::incidents::IncidentList;
use crate::cli::configured;
use crate::cli::ledger::recorded;
use crate::cli::ledger::recorded_as::RecordedAs;
use crate::cli::ledger::text::plain;
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::{ReplyArgs, direct, print, refused};
use crate::cli::test::add::Add;
use crate::config;
use crate::mcp::json::Text;
use crate::model::entry::Entry;
use crate::model::wildcard;
use crate::policy::pack::{EXPECT_ALLOW, Pack};
use crate::store::incidents::{Incident, IncidentSample};
use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use url::form_urlencoded::byte_serialize;

/// The pack of incidents, in the directory of packs beside the policies.
const PACK_NAME: &str = "tests/incidents.yaml";

#[derive(Debug, clap::Args)]
pub(super) struct SampleArgs {
    /// The call's action id, or as much of its beginning or its end as no other call has
    action_id: String,
    /// The incident's number [default: the open one that freezes the call's tool]
    #[arg(long, value_name = "ID", value_parser = incident_number)]
    incident: Option<u64>,
    /// The arguments it had: the ledger keeps their hash, and compares. Not needed where the
    /// contract's `audit` names all
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// The pack to add it to [default: `tests/incidents.yaml` beside the policies]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// What is expected of the call from now on [default: what was said then]
    #[arg(long, value_name = "allow|CODE")]
    expect: Option<String>,
    /// What the sample shows [default: when and by whom it was called]
    #[arg(long)]
    name: Option<String>,
    /// Why the verdict that is expected is right
    #[arg(long, value_name = "WORDS")]
    because: Option<String>,
    /// All of the arguments, also what has no part in the verdict
    #[arg(long)]
    whole: bool,
    #[command(flatten)]
    judged_as: RecordedAs,
    #[command(flatten)]
    reply: ReplyArgs,
}

impl SampleArgs {
    /// Writes the sample, and notes it on the incident; 0, or 1 where there is no such incident.
    pub(super) fn run(&self, args: &Args) -> anyhow::Result<u8> {
        let (place, named) = (IncidentPlace::of(args)?, args.place.config.as_deref());
        let entry = match self.recorded(&place)? {
            Ok(entry) => entry,
            Err(why) => return Ok(refused(&why)),
        };
        let id = match self.chosen(&place, &entry.tool)? {
            Ok(id) => id,
            Err(why) => return Ok(refused(&why)),
        };
        let file = match &self.to {
            Some(file) => file.clone(),
            None => usual_pack(&configured::path(named)?)?,
        };
        let (action_id, tool) = (entry.action_id.clone(), entry.tool.clone());
        let expect = match there(&file, &action_id)? {
            Some(expect) => expect,
            None => self.added(args, &file, entry)?,
        };
        let sample = IncidentSample {
            action_id,
            expect,
            file: file.display().to_string(),
            tool: Some(tool),
        };
        let IncidentSample {
            action_id,
            expect,
            file,
            ..
        } = &sample;
        let body = Text::of(&json!({ "action_id": action_id, "expect": expect, "file": file }));
        let request = DoorRequest::post(format!("/api/incidents/{id}/samples"), body);
        let noted = changed(args, request, async |place, journal| {
            let who = direct::system_user();
            on_disk(place, journal, async |incidents, store| {
                incidents.sampled(store, id, sample, &who).await
            })
            .await
        })?;
        self.reply.show(noted, |Incident { samples, .. }| {
            let last = samples.last().map(|last| plain(&last.expect));
            Ok(format!(
                "incident {id} is closed once all packs pass and this call is {}\n",
                last.unwrap_or_default()
            ))
        })
    }

    /// The call as the ledger has it; in words, why the door does not tell.
    fn recorded(&self, place: &IncidentPlace<'_>) -> anyhow::Result<Result<Entry, String>> {
        match place {
            IncidentPlace::Here(place) => {
                let kept = configured::kept(place)?;
                recorded::find(&place.data, kept, &self.action_id).map(Ok)
            }
            IncidentPlace::Door(door) => {
                let id: String = byte_serialize(self.action_id.as_bytes()).collect();
                ask(door, DoorRequest::get(format!("/api/incidents/calls/{id}")))
            }
        }
    }

    /// Adds the sample to the pack in `file`, and says what is said of it now; what is expected of it.
    fn added(&self, args: &Args, file: &Path, entry: Entry) -> anyhow::Result<String> {
        let add = Add {
            action_id: self.action_id.clone(),
            arguments: self.arguments.clone(),
            to: Some(file.to_owned()),
            expect: self.expect.clone(),
            name: self.name.clone(),
            because: self.because.clone(),
            json: false,
            is_smallest: !self.whole,
            judged_as: self.judged_as.clone(),
        };
        let mut said = String::new();
        let sample = add.add_call(entry, &args.place, &mut said)?;
        if !self.reply.is_json() {
            print(&said)?;
        }
        let expect = sample.get("expect").and_then(Value::as_str);
        Ok(expect.unwrap_or(EXPECT_ALLOW).to_owned())
    }

    /// The incident that is meant, or in words why there is none.
    fn chosen(&self, place: &IncidentPlace<'_>, tool: &str) -> anyhow::Result<Result<u64, String>> {
        let IncidentList { incidents } = match all(place)? {
            Ok(list) => list,
            Err(why) => return Ok(Err(why)),
        };
        let of_tool = |one: &&Incident| wildcard::matches(&one.scope, tool, false);
        let open: Vec<&Incident> = incidents.iter().filter(|one| one.is_open()).collect();
        let mut fitting = open.iter().copied().filter(of_tool);
        Ok(match (self.incident, fitting.next(), fitting.next()) {
            (Some(id), ..) if open.iter().any(|one| one.id == id && of_tool(one)) => Ok(id),
            (Some(id), ..) if open.iter().any(|one| one.id == id) => {
                Err(format!("incident {id} does not freeze that tool"))
            }
            (Some(id), ..) => Err(format!("no incident {id} is open")),
            (None, Some(one), None) => Ok(one.id),
            (None, Some(_), Some(_)) => {
                Err("several open incidents freeze that tool; name one with --incident".to_owned())
            }
            (None, None, _) => Err(
                "no open incident freezes that tool; `toolgate incident open` opens one".to_owned(),
            ),
        })
    }
}

/// The pack of incidents beside the policies of the configuration at `path`.
fn usual_pack(path: &Path) -> anyhow::Result<PathBuf> {
    let loaded = config::load_supposing(path);
    let pins = loaded.config.and_then(|config| config.pins);
    let pins = pins.map(|pins| pins.file);
    let mut policies = loaded
        .reading
        .files
        .into_iter()
        .filter(|file| file != path && Some(file) != pins.as_ref());
    let policies = policies.next().context(
        "the configuration names no policies, so that no pack can stand beside them; name one with --to",
    )?;
    Ok(if policies.is_dir() {
        policies.join(PACK_NAME)
    } else {
        policies.with_file_name(PACK_NAME)
    })
}

/// What the pack in `file` expects of the call `action` already, if it has a sample of that.
fn there(file: &Path, action: &str) -> anyhow::Result<Option<String>> {
    if !file.exists() {
        return Ok(None);
    }
    let (pack, diagnostics) = Pack::read(file);
    let Some(pack) = pack else {
        let words: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        bail!("{} cannot be used:\n{}", file.display(), words.join("\n"));
    };
    let mut samples = pack.samples.iter();
    let found = samples.find(|sample| sample.repro.as_deref() == Some(action));
    Ok(found.map(|sample| {
        sample
            .expect
            .clone()
            .unwrap_or_else(|| EXPECT_ALLOW.to_owned())
    }))
}

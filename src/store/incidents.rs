//! Incidents (003-20, 003-43): tools that nobody may call until a sample of what went wrong is as expected.
//! What an incident freezes stands in a file of the data directory, which every start reads; what happened
//! in it stands in the journal.
//!
//! To open one is one act: its file is durable and its tools are frozen before anything else is done. What a
//! crash leaves undone then, held calls and grants, the next start does. To close one is recorded first:
//! whatever breaks in between, tools are frozen rather than back without a record.

mod closing;
mod evidence;
mod files;
mod freezing;
mod open_now;
mod record;
mod wish;

pub(crate) use evidence::{BundleCount, BundleSpan, IncidentEvidence};
pub(crate) use files::{KnownIncidents, frozen, read};
pub(crate) use record::{Incident, IncidentEvent, IncidentSample, IncidentState};
pub(crate) use wish::{BREAKER, ClosingWish, IncidentError, IncidentWish};

use super::claims::{Store, StoreError};
use super::disabling::note;
use super::journal::Journal;
use super::operator::{MAX_RESOLVE_REASON_BYTES, reason, time};
use super::state::Millis;
use super::state::event::{IncidentStep, Note, Noted};
use crate::failpoint;
use crate::model::counted::counted;
use crate::model::disabled::FrozenScope;
use crate::model::ids::ToolName;
use record::{MAX_INCIDENT_SAMPLES, MAX_INCIDENT_TOOLS};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;
use wish::{MAX_OPEN_INCIDENTS, MAX_TRIPPED_INCIDENTS};

/// Puts what is frozen in force: all of it; blocks.
pub(crate) type ApplyFrozen = dyn Fn(Vec<FrozenScope>) + Send + Sync;
/// Runs the test packs, which have to hold each of these samples with what it expects; in words, whether all
/// is as expected. Blocks.
pub(crate) type RunPacks = dyn Fn(&[IncidentSample]) -> Result<String, String> + Send + Sync;

/// Who does what happens by itself.
const ITSELF: &str = "toolgate";

/// All incidents, and the way to change them.
pub(crate) struct Incidents {
    data: PathBuf,
    journal: Journal,
    apply: Arc<ApplyFrozen>,
    known: Mutex<KnownIncidents>,
}

/// What happens in an incident, and by whom.
struct IncidentNews<'a> {
    step: IncidentStep,
    who: &'a str,
    why: String,
    at: Millis,
}

impl Incidents {
    /// Reads the incidents in the data directory `data` and freezes what the open ones do. An error
    /// when that cannot be known: then nothing may be served. Blocks.
    pub(crate) fn open(
        data: &Path,
        journal: Journal,
        apply: Arc<ApplyFrozen>,
    ) -> Result<Self, StoreError> {
        let known = read(data)?;
        let frozen = frozen_by(&known);
        if !frozen.is_empty() {
            tracing::warn!(
                incidents = frozen.len(),
                "incidents are open, and their tools frozen; `toolgate incident list` lists them"
            );
            apply(frozen);
        }
        Ok(Self {
            data: data.to_owned(),
            journal,
            apply,
            known: Mutex::new(known),
        })
    }

    /// All of them, the newest first.
    pub(crate) async fn all(&self) -> Vec<Incident> {
        self.known.lock().await.values().rev().cloned().collect()
    }

    /// What the open ones freeze.
    pub(crate) async fn frozen(&self) -> Vec<FrozenScope> {
        frozen_by(&*self.known.lock().await)
    }

    /// The incident `id`, if it is kept.
    pub(crate) async fn find(&self, id: u64) -> Option<Incident> {
        self.known.lock().await.get(&id).cloned()
    }

    /// Opens an incident: its tools are frozen, durably, and what was held or granted of them is taken
    /// back when this returns well.
    pub(crate) async fn begin(
        &self,
        store: &dyn Store,
        wish: IncidentWish,
    ) -> Result<Incident, IncidentError> {
        let why = reason(&wish.why, MAX_RESOLVE_REASON_BYTES).map_err(IncidentError::Unfit)?;
        let scope = wish::scope(&wish.scope)?;
        let mut known = self.known.lock().await;
        let open = || known.values().filter(|incident| incident.is_open());
        if let Some(same) = open().find(|incident| incident.scope == scope) {
            return Err(IncidentError::AlreadyOpen(same.id));
        }
        if open().count() >= MAX_OPEN_INCIDENTS {
            return Err(IncidentError::TooMany);
        }
        let of_breakers = open().filter(|incident| incident.who == BREAKER);
        if wish.who == BREAKER && of_breakers.count() >= MAX_TRIPPED_INCIDENTS {
            return Err(IncidentError::TooManyTripped);
        }
        let at = store.now();
        let tools = wish.tools.iter().take(MAX_INCIDENT_TOOLS);
        let mut incident = Incident {
            id: known.keys().next_back().map_or(1, |last| last + 1),
            state: IncidentState::Open,
            scope,
            who: wish.who,
            why,
            opened: time(at),
            tools: tools.map(ToolName::to_string).collect(),
            settled: false,
            voided: 0,
            revoked: 0,
            samples: Vec::new(),
            timeline: Vec::new(),
            more: 0,
            closed: None,
        };
        let (who, why) = (incident.who.clone(), incident.why.clone());
        incident.note(event(IncidentStep::Opened, &who, why, at));
        Box::pin(self.put(&mut known, incident.clone())).await?;
        failpoint::reached("incident-opened");
        let Incident { id, scope, .. } = &incident;
        tracing::warn!(id, scope, who, "an incident is open: its tools are frozen");
        Box::pin(self.settle(store, &mut known, incident)).await
    }

    /// Does what a crash has left undone of incidents that were just opened.
    pub(crate) async fn repair(&self, store: &dyn Store) {
        let mut known = self.known.lock().await;
        let begun = known.values().filter(|one| one.is_open() && !one.settled);
        let begun: Vec<Incident> = begun.cloned().collect();
        for incident in begun {
            let id = incident.id;
            if let Err(error) = Box::pin(self.settle(store, &mut known, incident)).await {
                tracing::error!(%error, id, "an incident is not settled; it is tried at the next start again");
            }
        }
    }

    /// Notes that a recorded call has become a sample, which has to be as expected from now on. That the ledger has
    /// the call, and of which tool it is, is known to who asks.
    pub(crate) async fn sampled(
        &self,
        store: &dyn Store,
        id: u64,
        sample: IncidentSample,
        who: &str,
    ) -> Result<Incident, IncidentError> {
        let mut known = self.known.lock().await;
        let mut incident = open_one(&known, id)?;
        let of_scope = |tool: &String| freezing::names(&incident, tool);
        if !sample.tool.as_ref().is_some_and(of_scope) {
            return Err(IncidentError::NoSuchCall);
        }
        let of_call = |one: &IncidentSample| one.action_id != sample.action_id;
        incident.samples.retain(of_call);
        if incident.samples.len() >= MAX_INCIDENT_SAMPLES {
            return Err(IncidentError::TooManySamples);
        }
        let IncidentSample {
            action_id,
            expect,
            file,
            tool: _,
        } = &sample;
        let why = format!("{action_id} is to be {expect}, in {file}");
        let why = reason(&why, MAX_RESOLVE_REASON_BYTES).map_err(IncidentError::Unfit)?;
        incident.samples.push(sample);
        let step = IncidentStep::Sampled;
        let at = store.now();
        let news = IncidentNews { step, who, why, at };
        Box::pin(self.keep(&mut known, incident, news)).await
    }

    /// Notes on all open incidents that the files of the policy have changed.
    pub(crate) async fn reloaded(&self, store: &dyn Store, words: &str) {
        let mut known = self.known.lock().await;
        let open = known.values().filter(|one| one.is_open());
        let open: Vec<Incident> = open.cloned().collect();
        for incident in open {
            let id = incident.id;
            let news = IncidentNews {
                step: IncidentStep::Reloaded,
                who: ITSELF,
                why: words.to_owned(),
                at: store.now(),
            };
            if let Err(error) = Box::pin(self.keep(&mut known, incident, news)).await {
                tracing::error!(%error, id, "a reload cannot be noted on an incident");
            }
        }
    }

    /// Takes back what is held or granted of the tools of `incident`, which is frozen already.
    async fn settle(
        &self,
        store: &dyn Store,
        known: &mut KnownIncidents,
        mut incident: Incident,
    ) -> Result<Incident, IncidentError> {
        let (who, why) = (incident.who.clone(), incident.why.clone());
        let opened = IncidentNews {
            step: IncidentStep::Opened,
            who: &who,
            why,
            at: store.now(),
        };
        self.record(&incident, &opened)
            .await
            .map_err(IncidentError::Unsettled)?;
        let count = freezing::freeze(store, &incident).await;
        let count = count.map_err(IncidentError::Unsettled)?;
        incident.voided += count.voided;
        incident.revoked += count.revoked;
        incident.settled = true;
        let (voided, revoked) = (
            counted(count.voided, "held call"),
            counted(count.revoked, "grant"),
        );
        let news = IncidentNews {
            step: IncidentStep::Frozen,
            who: ITSELF,
            why: format!("its tools are away; void: {voided}; revoked: {revoked}"),
            at: store.now(),
        };
        Box::pin(self.keep(known, incident, news)).await
    }

    /// Records `news`, then keeps it in the timeline of `incident`, and what else has changed of it.
    async fn keep(
        &self,
        known: &mut KnownIncidents,
        mut incident: Incident,
        news: IncidentNews<'_>,
    ) -> Result<Incident, IncidentError> {
        self.record(&incident, &news).await?;
        failpoint::reached("incident-noted");
        let IncidentNews { step, who, why, at } = news;
        incident.note(event(step, who, why, at));
        Box::pin(self.put(known, incident.clone())).await?;
        Ok(incident)
    }

    /// Makes `incident` durable, then puts what is frozen in force, where that is something else.
    async fn put(&self, known: &mut KnownIncidents, incident: Incident) -> Result<(), StoreError> {
        let (data, apply) = (self.data.clone(), Arc::clone(&self.apply));
        let (before, mut next) = (frozen_by(known), known.clone());
        next.insert(incident.id, incident.clone());
        let put = tokio::task::spawn_blocking(move || {
            files::write(&data, &incident)?;
            let frozen = frozen_by(&next);
            if frozen != before {
                apply(frozen);
            }
            Ok(next)
        });
        *known = put
            .await
            .map_err(|error| StoreError::Broken(error.to_string()))
            .flatten()?;
        Ok(())
    }

    async fn record(&self, incident: &Incident, news: &IncidentNews<'_>) -> Result<(), StoreError> {
        let noted = Noted {
            at: news.at,
            note: Note::Incident {
                incident: incident.id,
                step: news.step,
                scope: incident.scope.clone(),
                who: news.who.to_owned(),
                why: news.why.clone(),
            },
        };
        note(&self.journal, noted)?
            .durable()
            .await
            .map(drop)
            .map_err(|error| StoreError::Broken(error.to_string()))
    }
}

fn frozen_by(known: &KnownIncidents) -> Vec<FrozenScope> {
    known.values().filter_map(Incident::frozen).collect()
}

/// The incident `id`, while it is open.
fn open_one(known: &KnownIncidents, id: u64) -> Result<Incident, IncidentError> {
    let found = known.get(&id).ok_or(IncidentError::Gone(id))?;
    if found.is_open() {
        Ok(found.clone())
    } else {
        Err(IncidentError::Closed(id))
    }
}

fn event(step: IncidentStep, who: &str, why: String, at: Millis) -> IncidentEvent {
    let (at, who) = (time(at), who.to_owned());
    IncidentEvent { at, step, who, why }
}

#[cfg(test)]
mod tests;

//! How an incident ends: its samples and the packs are as expected, or an operator forces it.

use super::files::{self, KnownIncidents};
use super::record::{Incident, IncidentClosing, IncidentState};
use super::wish::{ClosingWish, IncidentError};
use super::{IncidentNews, Incidents, RunPacks, freezing, open_one};
use crate::store::claims::Store;
use crate::store::operator::{MAX_RESOLVE_REASON_BYTES, reason, time};
use crate::store::state::event::IncidentStep;
use std::sync::Arc;

/// Closed incidents that are kept; of older ones the ledger tells.
pub(super) const MAX_CLOSED_INCIDENTS: usize = 64;

/// What is asked, and what the packs say of it.
struct JudgedClosing {
    wish: ClosingWish,
    packs: Result<String, String>,
}

impl Incidents {
    /// Closes an incident, durably: its tools are back. Only where `packs` and its samples are as
    /// expected, or the operator forces it, which is recorded.
    pub(crate) async fn close(
        &self,
        store: &dyn Store,
        wish: ClosingWish,
        packs: Arc<RunPacks>,
    ) -> Result<Incident, IncidentError> {
        let why = reason(&wish.why, MAX_RESOLVE_REASON_BYTES).map_err(IncidentError::Unfit)?;
        let wish = ClosingWish { why, ..wish };
        let before = open_one(&*self.known.lock().await, wish.id)?;
        let packs = judged(&before, packs).await;
        let mut known = self.known.lock().await;
        let incident = open_one(&known, wish.id)?;
        if incident.samples != before.samples {
            return Err(IncidentError::Changed);
        }
        if let (Err(words), false) = (&packs, wish.force) {
            let news = IncidentNews {
                step: IncidentStep::Refused,
                who: &wish.who,
                why: words.clone(),
                at: store.now(),
            };
            Box::pin(self.keep(&mut known, incident, news)).await?;
            return Err(IncidentError::Failing(words.clone()));
        }
        let closing = JudgedClosing { wish, packs };
        Box::pin(self.end(store, &mut known, incident, closing)).await
    }

    /// Gives the tools of `incident` back.
    async fn end(
        &self,
        store: &dyn Store,
        known: &mut KnownIncidents,
        mut incident: Incident,
        closing: JudgedClosing,
    ) -> Result<Incident, IncidentError> {
        let JudgedClosing { wish, packs } = closing;
        // Calls that were on their way may have been held since, and a crash may have left more.
        incident.voided += freezing::void(store, &incident).await?;
        if !incident.settled {
            incident.revoked += freezing::revoke(store, &incident).await?;
            incident.settled = true;
        }
        let (at, forced) = (store.now(), packs.is_err());
        let packs = packs.unwrap_or_else(|words| words);
        let how = if forced { "forced: " } else { "" };
        let words = format!("{}; {how}{packs}", wish.why);
        incident.state = IncidentState::Closed;
        incident.closed = Some(IncidentClosing {
            who: wish.who.clone(),
            why: wish.why,
            at: time(at),
            forced,
            packs,
        });
        let news = IncidentNews {
            step: IncidentStep::Closed,
            who: &wish.who,
            why: words,
            at,
        };
        let closed = Box::pin(self.keep(known, incident, news)).await?;
        let Incident { id, scope, .. } = &closed;
        tracing::warn!(
            id,
            scope,
            who = wish.who,
            forced,
            "an incident is closed: its tools are back"
        );
        self.forget(known);
        Ok(closed)
    }

    /// Forgets the oldest closed ones beyond those that are kept; never the newest of all, whose number is
    /// never given again.
    fn forget(&self, known: &mut KnownIncidents) {
        let closed = known.values().filter(|one| !one.is_open());
        let closed: Vec<u64> = closed.map(|one| one.id).collect();
        for id in closed.iter().rev().skip(MAX_CLOSED_INCIDENTS) {
            known.remove(id);
            files::forget(&self.data, *id);
        }
    }
}

/// What the packs say, which have to hold every sample of `incident`; without one, nothing shows that
/// anything is mended.
async fn judged(incident: &Incident, packs: Arc<RunPacks>) -> Result<String, String> {
    let samples = incident.samples.clone();
    if samples.is_empty() {
        let words = "no recorded call is its sample, so nothing shows that it is mended; `toolgate incident sample` makes one";
        return Err(words.to_owned());
    }
    let ran = tokio::task::spawn_blocking(move || packs(&samples)).await;
    let said = ran.unwrap_or_else(|error| Err(error.to_string()));
    said.map(short).map_err(short)
}

/// Of `words`, what stands in the ledger beside an operator's reason.
fn short(mut words: String) -> String {
    words.truncate(words.floor_char_boundary(MAX_RESOLVE_REASON_BYTES));
    words
}

//! What the store cannot say yet is told once it can.

use super::{MIDNIGHT, action, held, receiver, settled};
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::notify::journal_tail::JournalTail;
use crate::notify::notice::NoticeKind;
use crate::notify::{Notifier, NotifierParts};
use crate::store::journal::{Item, Journal, JournalOptions};
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::store::state::kinship::Kinship;
use crate::store::tests::troubled_store::TroubledStore;
use crate::telemetry::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CALL: u8 = 9;

fn phase() -> ClaimPhase {
    ClaimPhase::Unknown {
        why: "the connection broke".to_owned(),
    }
}

/// The call of which nobody knows whether it ran, and which was not held.
fn claim() -> Claim {
    let digest = Digest::of(b"it");
    Claim {
        action: action(CALL),
        fingerprint: digest,
        attempt: 1,
        brought: None,
        answered: Vec::new(),
        phase: phase(),
        began: MIDNIGHT,
        changed: MIDNIGHT,
        ttl: 1,
        keep: 1,
        task: digest,
        account: None,
        session: digest,
        fence: 1,
        reserved: 0,
        tool: ToolName::new("bank__pay"),
        counted: None,
        agent: "bot".to_owned(),
        user: None,
        kinship: Kinship::default(),
        grant: None,
        edited: None,
        is_late: false,
        was_unknown: false,
        inquiry: None,
        undo: None,
        undoes: None,
        may_undo: None,
    }
}

/// A store that does not answer delays what is told, and loses nothing of it: neither of the call it was asked
/// about nor of what the journal says after it, and what came before is told once.
#[tokio::test]
async fn an_unknown_outcome_waits_for_the_store() {
    let data = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::open(data.path(), JournalOptions::default()).unwrap());
    let store = Arc::new(TroubledStore::with(Some(claim())));
    store.is_mute.store(true, Ordering::SeqCst);
    let notifier = Notifier::open(NotifierParts {
        receivers: vec![receiver("ops")],
        public_url: None,
        data: data.path().to_owned(),
        journal: journal.clone(),
        store: store.clone(),
        metrics: Arc::new(Metrics::new()),
    })
    .unwrap();
    let now = notifier.parts.store.now();
    for event in [held(1, now), settled(CALL, now, phase()), held(2, now)] {
        let item = Item::Event(event.encode().unwrap());
        drop(journal.append(vec![item]).unwrap());
    }
    journal.flush().await.unwrap();
    let mut tail = JournalTail::new(data.path().to_owned());
    let kinds = || {
        let (mut told, mut outbox) = (Vec::new(), notifier.outbox.lock());
        while let Ok((notice, _)) = outbox.next_for("ops", now + 60_000) {
            outbox.delivered(&notice.id, "ops");
            told.push((notice.kind, notice.about.id));
        }
        told
    };
    for _ in 0..2 {
        notifier.take_in(&mut tail).await.unwrap_err();
    }
    let requested = |number| (NoticeKind::Requested, action(number).to_string());
    assert_eq!(kinds(), [requested(1)]);
    store.is_mute.store(false, Ordering::SeqCst);
    notifier.take_in(&mut tail).await.unwrap();
    let unknown = (NoticeKind::Unknown, action(CALL).to_string());
    assert_eq!(kinds(), [unknown, requested(2)]);
    notifier.take_in(&mut tail).await.unwrap();
    assert!(kinds().is_empty(), "nothing is told twice");
}

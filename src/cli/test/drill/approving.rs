//! Who stands for the people who would have to allow the calls of a drill: with `--approve`, who runs it; else
//! nobody, and what is held is denied at once, so that nothing waits for nobody.

use crate::app::App;
use crate::cli::operator::direct::system_user;
use crate::config::Operator;
use crate::gate::Gate;
use crate::model::absence::DecidingRight;
use crate::model::ids::{ActionId, unguessable};
use crate::model::secret::Secret;
use crate::store::approvals::{DecisionError, DecisionRequest, decide};
use crate::store::hold_news::HoldNews;
use crate::store::state::hold::{Hold, HoldPhase};
use crate::telemetry::tasks;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

/// Operators that a contract can ask for, at most.
const MAX_NEEDED: u32 = 5;
/// How long it is waited for the words, which are said at once.
const MAX_DECISION_WAIT: Duration = Duration::from_secs(10);
/// What stands in the drill's ledger, for one as for the other.
const ALLOWED: &str = "a drill, with --approve";
const DENIED: &str = "a drill, without --approve";

/// Those who stand for the people of the contracts, as operators that the configuration names: a word of anybody
/// else counts for nothing. Their tokens are told to nobody.
pub(super) fn stand_ins(operators: &[Operator]) -> Vec<Operator> {
    let account = system_user();
    let mut roles: Vec<String> = operators
        .iter()
        .flat_map(|known| known.roles.clone())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let stand_in = |nth| Operator {
        name: name_of(&account, nth),
        token: Secret::new(unguessable()),
        previous: Vec::new(),
        roles: roles.clone(),
    };
    (1..=MAX_NEEDED).map(stand_in).collect()
}

fn name_of(account: &str, nth: u32) -> String {
    format!("{account}, in a drill ({nth})")
}

/// Decides on what the drill's calls are held for, until it is aborted: who is asked is who runs the drill.
pub(super) fn attend(app: &App, approves: bool) -> JoinHandle<()> {
    let gate = app.door.gate.clone();
    let mut news = gate.effects.store.look_on();
    let account = system_user();
    tasks::spawn("the people of a drill", async move {
        loop {
            match news.recv().await {
                Ok(hold) if hold.is_new => {
                    let said = said(&gate, &account, hold.id, approves).await;
                    if let Err(error) = said {
                        // The call ends by itself then, as one on which nobody decides.
                        tracing::warn!(%error, "a call of a drill is not decided on");
                    }
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    })
}

/// Whether the call that is held as `id` was allowed, once that is decided.
pub(super) async fn is_allowed(news: &mut Receiver<HoldNews>, id: &str) -> bool {
    let decided = async {
        loop {
            match news.recv().await {
                Ok(hold) if hold.phase != HoldPhase::Pending && hold.id.to_string() == id => {
                    return hold.phase == HoldPhase::Allowed;
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return false,
            }
        }
    };
    tokio::time::timeout(MAX_DECISION_WAIT, decided)
        .await
        .unwrap_or(false)
}

/// Says one word on a held call, or as many as its contract wants.
async fn said(
    gate: &Arc<Gate>,
    account: &str,
    id: ActionId,
    allow: bool,
) -> Result<(), DecisionError> {
    let store = &*gate.effects.store;
    let judge = gate.clone();
    let void = move |hold: &Hold| judge.void(hold);
    let known = store.find_hold(id).await?;
    let roles = known.map(|(_, hold)| hold.roles).unwrap_or_default();
    let why = if allow { ALLOWED } else { DENIED };
    for nth in 1..=MAX_NEEDED {
        let word = DecisionRequest {
            who: name_of(account, nth),
            right: DecidingRight {
                roles: roles.clone(),
                on_behalf: None,
            },
            allow,
            why: why.to_owned(),
            usual: None,
            shown: None,
            surface: None,
        };
        let came = decide(store, &void, id, word).await?;
        if came.state != "pending" {
            break;
        }
    }
    Ok(())
}

//! Who runs a drill with `--approve` is every operator who has to allow its calls.

use crate::app::App;
use crate::cli::operator::direct::system_user;
use crate::model::absence::DecidingRight;
use crate::model::ids::ActionId;
use crate::store::approvals::{DecisionRequest, decide};
use crate::store::state::hold::Hold;

/// Operators that a contract can ask for, at most.
const MAX_NEEDED: u32 = 5;

/// Allows a held call of the drill, as often as its contract wants.
///
/// # Errors
/// Why it is not allowed, in words.
pub(super) async fn allow(app: &App, id: ActionId) -> Result<(), String> {
    let gate = app.door.gate.clone();
    let store = gate.effects.store.clone();
    let judge = gate.clone();
    let void = move |hold: &Hold| judge.void(hold);
    let known = store.find_hold(id).await.map_err(|why| why.to_string())?;
    let roles = known.map(|(_, hold)| hold.roles).unwrap_or_default();
    let account = system_user();
    let mut state = String::new();
    for nth in 1..=MAX_NEEDED {
        let said = DecisionRequest {
            who: format!("{account}, for a drill ({nth})"),
            right: DecidingRight {
                roles: roles.clone(),
                on_behalf: None,
            },
            allow: true,
            why: "a drill".to_owned(),
            usual: None,
            shown: None,
            surface: None,
        };
        let came = decide(&*store, &void, id, said).await;
        state = came.map_err(|why| why.to_string())?.state;
        if state != "pending" {
            break;
        }
    }
    if state == "allowed" {
        return Ok(());
    }
    Err(format!("it is {state}"))
}

//! What the path and the query of an operator's request ask for.

use super::unfit;
use crate::model::ids::ActionId;
use axum::http::Uri;
use axum::response::Response;

/// The call that `text` names.
pub(super) fn action_of(text: &str) -> Result<ActionId, Response> {
    let action = text.parse::<ActionId>();
    action.map_err(|_| unfit("an action id is a UUID, as answers and the ledger have it"))
}

/// The one of `states` that the query asks for, where it asks for one. It can ask for nothing else.
pub(super) fn state_of(uri: &Uri, states: &[&str]) -> Result<Option<String>, Response> {
    let query = uri.query().unwrap_or_default().as_bytes();
    let mut state = None;
    for (name, value) in url::form_urlencoded::parse(query) {
        if name != "state" || !states.contains(&&*value) {
            let (last, others) = states.split_last().unwrap_or((&"", &[]));
            let others = others.join(", ");
            let hint = format!("only ?state={others} or {last} can be asked for");
            return Err(unfit(&hint));
        }
        state = Some(value.into_owned());
    }
    Ok(state)
}

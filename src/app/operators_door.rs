//! The operators' door: who they are, and how a connection proves whose it is.

use crate::admin;
use crate::admin::operators::{OperatorIdentity, Operators};
use crate::config;
use crate::downstream::connection_limit::Guest;
use std::sync::Arc;

/// Who may ask there.
pub(super) fn operators(admin: &config::Admin) -> Operators {
    let operators = admin.tokens.iter().map(|operator| {
        let known = OperatorIdentity {
            name: operator.name.clone(),
            roles: operator.roles.clone(),
            stands_in: admin.stands_in(&operator.name),
        };
        (known, &operator.token)
    });
    Operators::new(operators, admin.verbs.clone())
}

/// Answers one request at the operators' door, of `guest`, who is `holder` if it proves that.
pub(super) async fn answer(
    router: axum::Router,
    request: http::Request<hyper::body::Incoming>,
    holder: Option<String>,
    guest: Arc<Guest>,
) -> axum::response::Response {
    if let Some(Err(crowded)) = holder.map(|holder| guest.prove(&holder)) {
        return admin::overloaded(&crowded.to_string());
    }
    let Ok(answer) = tower::ServiceExt::oneshot(router, request).await;
    match (answer.status() == http::StatusCode::UNAUTHORIZED).then(|| guest.fail()) {
        Some(Err(wait)) => admin::too_many(wait),
        Some(Ok(())) | None => answer,
    }
}

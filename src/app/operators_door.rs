//! The operators' door: how a connection proves whose it is.

use crate::admin;
use crate::admin::operators::Operators;
use crate::downstream::connection_limit::Guest;
use std::sync::Arc;

/// What stands before the routes.
pub(super) struct OperatorsEntry {
    /// The routes.
    pub(super) router: axum::Router,
    /// Who may ask.
    pub(super) known: Operators,
    /// Names under which the door is called.
    pub(super) hosts: Vec<String>,
}

impl OperatorsEntry {
    /// Answers one request of `guest`.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: http::Request<hyper::body::Incoming>,
        guest: Arc<Guest>,
    ) -> axum::response::Response {
        if let Some(lacking) = self.known.lacking_key(request.headers()) {
            self.known.supply(lacking).await;
        }
        let holder = admin::holder(&self.known, &self.hosts, &request);
        if let Some(Err(crowded)) = holder.map(|holder| guest.prove(&holder)) {
            return admin::overloaded(&crowded.to_string());
        }
        let Ok(answer) = tower::ServiceExt::oneshot(self.router.clone(), request).await;
        match (answer.status() == http::StatusCode::UNAUTHORIZED).then(|| guest.fail()) {
            Some(Err(wait)) => admin::too_many(wait),
            Some(Ok(())) | None => answer,
        }
    }
}

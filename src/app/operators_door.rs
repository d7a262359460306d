//! The operators' door: who they are, and how a connection proves whose it is.

use crate::admin;
use crate::admin::operators::{OperatorIdentity, Operators};
use crate::config;
use crate::downstream::connection_limit::Guest;
use std::sync::Arc;

/// Who may ask there.
pub(super) fn operators(admin: &config::Admin) -> Operators {
    let mut known: Vec<OperatorIdentity> = Vec::new();
    for operator in &admin.tokens {
        if known.iter().any(|one| one.name == operator.name) {
            continue;
        }
        known.push(OperatorIdentity {
            name: operator.name.clone(),
            roles: operator.roles.clone(),
            stands_in: admin.stands_in(&operator.name),
        });
    }
    let known = Operators::with_tokens(known, admin.live.clone(), admin.verbs.clone());
    known.with_issued(admin.issued.clone())
}

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

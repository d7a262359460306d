//! What a request shows a server of who asks: the headers of the caller's class, and the token that
//! belongs to it, at the latest as it leaves.

use super::heads::RequestHeads;
use super::{Arriving, EndpointInner, Payload, ServerEndpoint, Wire};
use crate::model::reply::Fault;
use crate::upstream::credentials::classes::CredentialName;
use crate::upstream::credentials::{Credentials, TokenSource};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use std::sync::Arc;

/// Heads with `headers` alone, and then with those of each class in place of the same ones.
pub(super) fn heads(headers: &HeaderMap, credentials: &Credentials) -> Arc<[RequestHeads]> {
    let of_class = |class: &HeaderMap| {
        let mut headers = headers.clone();
        for (name, value) in class {
            headers.insert(name.clone(), value.clone());
        }
        RequestHeads::new(headers)
    };
    let classes = credentials.class_headers().map(of_class);
    std::iter::once(RequestHeads::new(headers.clone()))
        .chain(classes)
        .collect()
}

/// The headers with what `wire` has to show.
pub(super) fn shown(mut headers: HeaderMap, wire: &Wire) -> HeaderMap {
    if let Some(proof) = &wire.proof {
        headers.insert(AUTHORIZATION, proof.clone());
    }
    headers
}

impl ServerEndpoint {
    /// In whose name requests are.
    pub(in crate::upstream) fn name(&self) -> &CredentialName {
        &self.0.name
    }

    /// The same for requests in another name, whose caller proved itself by what has that digest.
    pub(in crate::upstream) fn named(
        &self,
        name: CredentialName,
        made_of: Option<[u8; 32]>,
    ) -> Self {
        let EndpointInner {
            connections,
            lane,
            uri,
            target,
            heads,
            credentials,
            name: _,
            made_of: _,
        } = &*self.0;
        Self(Arc::new(EndpointInner {
            connections: connections.clone(),
            lane: lane.clone(),
            uri: uri.clone(),
            target: target.clone(),
            heads: heads.clone(),
            credentials: credentials.clone(),
            name,
            made_of,
        }))
    }

    /// What requests begin with, of the class in whose name they are.
    pub(super) fn heads(&self) -> &RequestHeads {
        let place = self.0.name.class.map_or(0, |class| class + 1);
        self.0.heads.get(place).unwrap_or(self.plain_heads())
    }

    /// What requests of no class begin with.
    pub(super) fn plain_heads(&self) -> &RequestHeads {
        // There is always one: a slice has no other way to say so.
        &self.0.heads[0]
    }

    /// What the next request shows, fetched if need be; none where nothing is shown.
    ///
    /// # Errors
    ///
    /// When it cannot be had: then nothing is to be sent.
    pub(in crate::upstream) async fn proof(&self) -> Result<Option<HeaderValue>, Fault> {
        let Some(source) = self.source()? else {
            return Ok(None);
        };
        match source.good() {
            Some(good) => Ok(Some(good)),
            None => Box::pin(source.token()).await.map(Some),
        }
    }

    fn source(&self) -> Result<Option<Arc<TokenSource>>, Fault> {
        let EndpointInner {
            credentials,
            name,
            made_of,
            ..
        } = &*self.0;
        credentials.source(name, made_of.as_ref())
    }

    /// Whether another proof than `sent` would be shown now.
    pub(in crate::upstream) fn shows_another(&self, sent: &HeaderValue) -> bool {
        let source = self.source().ok().flatten();
        source.is_some_and(|source| !source.holds(sent))
    }

    /// Nothing leaves without a token. One that the server does not take is not shown again.
    pub(super) async fn sent_with_token(
        &self,
        mut request: Request<Payload>,
    ) -> Result<Response<Arriving>, Fault> {
        let shown = if let Some(shown) = request.headers().get(AUTHORIZATION) {
            shown.clone()
        } else {
            let proof = self.proof().await?;
            let proof = proof.ok_or_else(|| Fault::unsent("there is no token to show"))?;
            request.headers_mut().insert(AUTHORIZATION, proof.clone());
            proof
        };
        let sent = match &self.0.lane {
            Some(lane) => lane.send(request).await,
            None => self.sent_with_tls(request).await,
        };
        let status = sent.as_ref().ok().map(Response::status);
        if status == Some(StatusCode::UNAUTHORIZED)
            && let Ok(Some(source)) = self.source()
        {
            source.refused(&shown);
        }
        sent
    }
}

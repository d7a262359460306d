//! Another address of the same server, as the server itself names it (protocol §3.5): never another
//! server's, or a tool server could have toolgate send what it knows to where it wants.

use super::{EndpointInner, ServerEndpoint};
use crate::model::reply::Fault;
use http::Uri;
use url::Url;

/// Longest address that a server may name, in bytes (threat-model §8).
const MAX_ADDRESS_BYTES: usize = 4 << 10;

impl ServerEndpoint {
    /// The address that `said` names, seen from this one; with the same headers and credentials.
    pub(in crate::upstream) fn beside(&self, said: &str) -> Result<Self, Fault> {
        let EndpointInner {
            connections,
            uri,
            credentials,
            name,
            ..
        } = &*self.0;
        let uri = address(uri, said).map_err(|why| {
            Fault::unsent(format!(
                "the address that the tool server names for messages {why}; it is not used"
            ))
        })?;
        let headers = self.plain_heads().of_all().clone();
        let (connections, credentials) = (connections.clone(), credentials.clone());
        let name = name.clone();
        Ok(Self::new(connections, uri, headers, credentials, name))
    }
}

fn address(base: &Uri, said: &str) -> Result<Uri, &'static str> {
    if said.len() > MAX_ADDRESS_BYTES {
        return Err("is too long");
    }
    let base_url = Url::parse(&base.to_string()).map_err(|_| "cannot be told")?;
    let url = base_url.join(said).map_err(|_| "is no address")?;
    if url.origin() != base_url.origin() || !url.username().is_empty() || url.password().is_some() {
        return Err("is not on the same server");
    }
    let mut path = url.path().to_owned();
    if let Some(query) = url.query() {
        path = format!("{path}?{query}");
    }
    // Scheme, host and port stay the configured ones.
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path.parse().map_err(|_| "is no address")?);
    Uri::from_parts(parts).map_err(|_| "is no address")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_from(base: &str, said: &str) -> Result<String, &'static str> {
        address(&base.parse().unwrap(), said).map(|uri| uri.to_string())
    }

    #[test]
    fn an_address_is_on_the_same_server() {
        let base = "http://tools.example:8080/api/sse?x=1";
        for (said, address) in [
            ("/messages?id=1", "/messages?id=1"),
            ("messages/?id=1", "/api/messages/?id=1"),
            ("../m#part", "/m"),
            ("?id=1", "/api/sse?id=1"),
            ("http://TOOLS.example:8080/m", "/m"),
            ("//tools.example:8080/m", "/m"),
        ] {
            let whole = format!("http://tools.example:8080{address}");
            assert_eq!(seen_from(base, said), Ok(whole), "{said}");
        }
        let long = format!("/{}", "a".repeat(MAX_ADDRESS_BYTES));
        for said in [
            "http://tools.example/m",
            "https://tools.example:8080/m",
            "http://169.254.169.254/latest/meta-data",
            "//other.example:8080/m",
            "/\\other.example/m",
            "http://user@tools.example:8080/m",
            "http://:secret@tools.example:8080/m",
            "file:///etc/passwd",
            "javascript:1",
            "http://",
            &long,
        ] {
            assert!(seen_from(base, said).is_err(), "{said}");
        }
    }
}

//! Which servers toolgate believes, where it connects with TLS: those for whom the machine's root certificates vouch.

use crate::model::reply::Fault;
use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, Once};

/// TLS as a client. A machine without root certificates, such as an empty container, vouches for nobody: what is
/// reached without TLS works, and every connection with it fails.
///
/// # Errors
/// TLS cannot be set up at all.
pub(super) fn client_config() -> Result<ClientConfig, Fault> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::unsent(format!("TLS cannot be set up: {error}")))?;
    let nobody = builder.clone();
    let trusting = builder.try_with_platform_verifier();
    Ok(trusting
        .unwrap_or_else(|error| {
            say_once(&error);
            nobody.with_root_certificates(RootCertStore::empty())
        })
        .with_no_client_auth())
}

/// Several kinds of connections are made at a start, and all of them lack the same.
fn say_once(error: &rustls::Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            %error,
            hint = "install the package ca-certificates, or name a file of them in SSL_CERT_FILE",
            "this machine has no root certificates: no server can be reached with TLS"
        );
    });
}

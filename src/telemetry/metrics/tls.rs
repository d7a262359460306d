//! How long the certificates of the doors hold.

use super::Metrics;
use super::labels::LabelPair;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Default)]
pub(super) struct TlsMetrics {
    expires: Family<LabelPair, Gauge>,
}

impl TlsMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_tls_certificate_expires_seconds",
            "For how long the certificate of a door holds on; less than 0: it has expired",
            self.expires.clone(),
        );
    }
}

impl Metrics {
    /// The certificate of `door` holds on for so many seconds.
    pub fn certificate(&self, door: &'static str, left: i64) {
        let of = self.tls.expires.get_or_create(&LabelPair("door", door));
        of.set(left);
    }
}

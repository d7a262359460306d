//! OTLP over HTTP: what leaves for a collector when an operator names one. Spans are made by the
//! OpenTelemetry library; metrics and log records, which toolgate keeps in its own way, are written
//! here.

pub(crate) mod endpoint;
pub(crate) mod post;
pub(crate) mod records;
pub(crate) mod requests;
pub(crate) mod scrapes;
pub(crate) mod tallies;
#[cfg(test)]
mod tests;

//! Floor 0: the wire. JSON-RPC and the few MCP shapes toolgate touches; everything else travels as
//! it was read.

pub(crate) mod answer;
pub(crate) mod bridge;
pub mod canonical;
pub(crate) mod envelope;
pub(crate) mod error_codes;
pub mod headers;
pub mod json;
pub(crate) mod members;
pub mod message;
pub(crate) mod methods;
pub(crate) mod own;
pub mod pretty;
pub mod readable;
pub mod revision;
pub mod round;
pub(crate) mod scrub;
pub(crate) mod seen;
pub(crate) mod skeleton;
pub mod sse;
pub mod tools;
pub(crate) mod uri;

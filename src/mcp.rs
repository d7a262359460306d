//! Floor 0: the wire. JSON-RPC and the few MCP shapes toolgate touches; everything else travels as
//! it was read.

pub mod answer;
pub mod canonical;
pub mod envelope;
pub mod error_codes;
pub mod headers;
pub mod json;
pub mod members;
pub mod message;
pub mod methods;
pub mod own;
pub mod pretty;
pub mod readable;
pub mod revision;
pub mod round;
pub mod scrub;
pub mod skeleton;
pub mod sse;
pub mod tools;
pub mod uri;

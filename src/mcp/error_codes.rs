//! The codes of JSON-RPC errors, as every revision has them.

/// Parse error.
pub(crate) const PARSE_ERROR: i64 = -32700;
/// Not a request.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// Parameters are wrong; also the unknown tool.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// Something broke.
pub(crate) const INTERNAL_ERROR: i64 = -32603;
/// A mirrored header disagrees with the body.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
/// The agent did not declare a capability the server needs.
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
/// The named revision is not served.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// Pages have to be opened before the request is done (2025-11-25).
pub(crate) const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The agent cancelled the request; what SDKs' servers say then.
pub(crate) const REQUEST_CANCELLED: i64 = -32800;

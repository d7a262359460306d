//! What operators read of calls that stand in a way: the status of the answer, and where to look.

use axum::http::StatusCode;

/// It waits for a person.
pub(super) const HELD: (StatusCode, &str) = (
    StatusCode::CONFLICT,
    "GET /api/approvals shows what is asked",
);
/// It has ended, and that is known.
pub(super) const KNOWN: (StatusCode, &str) = (
    StatusCode::CONFLICT,
    "`toolgate ledger show` says how that is known",
);
/// What was said cannot be used.
pub(super) const UNFIT: (StatusCode, &str) = (StatusCode::BAD_REQUEST, "correct the request");
/// The store cannot be read or written.
pub(super) const NO_STORE: (StatusCode, &str) = (
    StatusCode::SERVICE_UNAVAILABLE,
    "/readyz and the log say what is wrong",
);

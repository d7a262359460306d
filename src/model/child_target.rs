//! Where in the log tool servers speak.

/// The target of what tool servers write to their standard error, and of what toolgate says of that.
pub(crate) const CHILD_TARGET: &str = "toolgate::child";

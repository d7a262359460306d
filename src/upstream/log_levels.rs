//! How verbose the levels of a server's log are.

/// Log levels, the most verbose first.
pub(crate) const LOG_LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// How verbose a log level is: 0 the most.
pub(crate) fn rank(level: &str) -> Option<usize> {
    LOG_LEVELS.iter().position(|known| *known == level)
}

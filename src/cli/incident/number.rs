//! The number of an incident, as it is typed.

/// It; for clap.
pub(super) fn incident_number(typed: &str) -> Result<u64, String> {
    let parsed = typed.parse();
    parsed.map_err(|_| "give its number, as `toolgate incident list` has it".to_owned())
}

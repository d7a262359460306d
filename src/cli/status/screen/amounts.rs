//! Times and sizes for people.

/// So many seconds in the two largest units that matter.
pub(super) fn lasting(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        (_, _, _) => format!("{days} d {} h", hours % 24),
    }
}

/// Bytes in the unit that leaves few digits.
#[expect(clippy::cast_precision_loss, reason = "a number for people")]
pub(in crate::cli) fn bytes(count: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| count >> shift > 0);
    unit.map_or_else(
        || format!("{count} B"),
        |(unit, shift)| format!("{:.1} {unit}", count as f64 / (1_u64 << shift) as f64),
    )
}

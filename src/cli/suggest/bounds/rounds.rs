//! Numbers that a person would have written.

/// The next of 0, 1, 2, 5, 10, 20, … that is not below `most`.
pub(in crate::cli::suggest) fn widened_up(most: f64) -> i64 {
    if most < 0.0 {
        -rounds()
            .take_while(|round| as_number(*round) <= -most)
            .last()
            .unwrap_or(0)
    } else {
        rounds()
            .find(|round| as_number(*round) >= most)
            .unwrap_or(i64::MAX)
    }
}

/// 1, where nothing less was given: what must not be 0 is bounded. Else 0, or the next of -1, -2, -5,
/// … that is not above `least`.
pub(super) fn widened_down(least: f64) -> i64 {
    if least < 0.0 {
        -widened_up(-least)
    } else {
        i64::from(least >= 1.0)
    }
}

/// 0, 1, 2, 5, 10, 20, …
fn rounds() -> impl Iterator<Item = i64> {
    let powers = (0..=16).map(|power| 10_i64.pow(power));
    std::iter::once(0).chain(powers.flat_map(|power| [power, 2 * power, 5 * power]))
}

/// All rounds that are looked at are exact.
#[expect(clippy::cast_precision_loss, reason = "few digits, then zeros")]
fn as_number(round: i64) -> f64 {
    round as f64
}

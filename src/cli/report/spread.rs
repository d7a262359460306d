//! Many milliseconds in little memory: counted in steps of about one percent, by which quantiles
//! are right.

use std::collections::BTreeMap;

/// Steps for each doubling.
const STEPS_PER_DOUBLING: f64 = 64.0;
/// The shortest and the longest that are told apart, in milliseconds: a microsecond, and half a
/// day.
const SHORTEST_MS: f64 = 1e-3;
const LONGEST_MS: f64 = 4.32e7;

/// How many there are in each step, and their sum; no more than there are steps between
/// [`SHORTEST_MS`] and [`LONGEST_MS`], some 2300.
#[derive(Debug, Default)]
pub(super) struct Spread {
    steps: BTreeMap<i32, (u64, f64)>,
    all: u64,
}

impl Spread {
    /// Counts so many milliseconds; what is no number counts as the shortest.
    pub(super) fn add(&mut self, milliseconds: f64) {
        let milliseconds = if milliseconds.is_nan() {
            SHORTEST_MS
        } else {
            milliseconds.clamp(SHORTEST_MS, LONGEST_MS)
        };
        let (count, sum) = self.steps.entry(step(milliseconds)).or_default();
        *count += 1;
        *sum += milliseconds;
        self.all += 1;
    }

    /// The milliseconds that the share `share`, from 0 to 1, does not exceed; none when nothing was
    /// counted.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = share.clamp(0.0, 1.0) * number(self.all);
        let mut below = 0_u64;
        let reached = self.steps.values().find(|(count, _)| {
            below += count;
            number(below) >= wanted
        });
        reached.map(|(count, sum)| sum / number(*count))
    }

    /// Between what the quantile `share` lies, but for chance: by two standard errors of how many
    /// calls are below it.
    pub(super) fn between(&self, share: f64) -> Option<(f64, f64)> {
        let error = 2.0 * (share * (1.0 - share) / number(self.all.max(1))).sqrt();
        Some((self.quantile(share - error)?, self.quantile(share + error)?))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "between the bounds it is small"
)]
fn step(milliseconds: f64) -> i32 {
    (milliseconds.log2() * STEPS_PER_DOUBLING).floor() as i32
}

#[expect(clippy::cast_precision_loss, reason = "a count for a share")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 003-117: quantiles are right by a percent, whatever was counted, and memory has an end.
    #[test]
    fn quantiles_are_right_by_a_percent() {
        let mut spread = Spread::default();
        assert!(spread.quantile(0.5).is_none() && spread.between(0.5).is_none());
        (1..=1000).for_each(|n| spread.add(f64::from(n) / 10.0));
        for (share, right) in [(0.5, 50.0), (0.95, 95.0), (1.0, 100.0), (0.001, 0.1)] {
            let found = spread.quantile(share).unwrap();
            assert!(
                (found / right - 1.0).abs() < 0.011,
                "{share}: {found} and not {right}"
            );
        }
        let (low, high) = spread.between(0.5).unwrap();
        assert!(
            (low / 46.8 - 1.0).abs() < 0.02 && (high / 53.2 - 1.0).abs() < 0.02,
            "{low} {high}"
        );
        for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            spread.add(odd);
        }
        (0..100_000).for_each(|n| spread.add(1.001_f64.powi(n)));
        assert!(spread.steps.len() < 2300, "{}", spread.steps.len());
    }
}

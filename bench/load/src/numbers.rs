//! Numbers of one turn, and what several turns say together.

use crate::caller::Loaded;
use serde::{Deserialize, Serialize};

/// What one turn of a way found. Times are microseconds of one call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Calls that were answered.
    pub(crate) calls: u32,
    /// Calls a second.
    pub(crate) rate: f64,
    /// CPU time of the processes in between.
    pub(crate) cpu: f64,
    /// The share of it in the program and not in the kernel, 0 to 1, by ticks; none where there was
    /// no tick.
    pub(crate) user_share: Option<f64>,
    /// Half of the calls took at most this.
    pub(crate) p50: f64,
    /// 99 of 100 took at most this.
    pub(crate) p99: f64,
    /// Syncs of the journal per call, where that was asked for.
    pub(crate) syncs: Option<f64>,
}

impl Round {
    /// What `loaded` comes to.
    pub(crate) fn of(mut loaded: Loaded) -> Self {
        loaded.latencies.sort_unstable();
        let calls = u32::try_from(loaded.latencies.len()).unwrap_or(u32::MAX);
        Self {
            calls,
            rate: f64::from(calls) / loaded.time.as_secs_f64(),
            cpu: loaded.spent.total.as_secs_f64() * 1e6 / f64::from(calls),
            user_share: loaded.spent.user_share(),
            p50: quantile(&loaded.latencies, 50),
            p99: quantile(&loaded.latencies, 99),
            syncs: None,
        }
    }

    /// CPU time in the program itself, in microseconds.
    pub(crate) fn user(&self) -> Option<f64> {
        self.user_share.map(|share| share * self.cpu)
    }

    /// CPU time in the kernel, in microseconds.
    pub(crate) fn kernel(&self) -> Option<f64> {
        self.user_share.map(|share| (1.0 - share) * self.cpu)
    }
}

/// Microseconds within which so many hundredths of the calls stay, of nanoseconds in order.
pub(crate) fn quantile(sorted: &[u32], hundredths: usize) -> f64 {
    let place = (sorted.len() * hundredths / 100).min(sorted.len().saturating_sub(1));
    sorted
        .get(place)
        .map_or(0.0, |nanoseconds| f64::from(*nanoseconds) / 1e3)
}

/// The middle of some numbers, and how far they go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Half of them are below it.
    pub(crate) median: f64,
    /// The least.
    pub(crate) low: f64,
    /// The most.
    pub(crate) high: f64,
}

impl Spread {
    /// Of `values`; none where there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let lower = values[(values.len() - 1) / 2];
        Some(Self {
            median: f64::midpoint(lower, upper),
            low: values[0],
            high: values[values.len() - 1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Round, Spread, quantile};
    use crate::caller::Loaded;
    use crate::cpu::Spent;
    use std::time::Duration;

    #[test]
    fn a_spread_is_the_middle_and_both_ends() {
        let spread = Spread::of([3.0, 1.0, 8.0]).unwrap();
        assert_eq!((spread.median, spread.low, spread.high), (3.0, 1.0, 8.0));
        let even = Spread::of([4.0, 2.0]).map(|spread| spread.median);
        assert_eq!(even, Some(3.0));
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn quantiles_are_calls_that_happened() {
        let sorted: Vec<u32> = (1..=200).map(|place| place * 1000).collect();
        assert_eq!(
            (quantile(&sorted, 50), quantile(&sorted, 99)),
            (101.0, 199.0)
        );
        assert_eq!((quantile(&[], 50), quantile(&[7000], 99)), (0.0, 7.0));
    }

    #[test]
    fn a_round_is_per_call() {
        let round = Round::of(Loaded {
            latencies: vec![3000, 1000, 2000, 4000],
            time: Duration::from_millis(2),
            spent: Spent {
                total: Duration::from_micros(100),
                ..Spent::default()
            },
        });
        assert_eq!((round.calls, round.rate, round.cpu), (4, 2000.0, 25.0));
        assert_eq!((round.p50, round.user()), (3.0, None));
        let split = Round {
            user_share: Some(0.6),
            ..round
        };
        assert_eq!((split.user(), split.kernel()), (Some(15.0), Some(10.0)));
    }
}

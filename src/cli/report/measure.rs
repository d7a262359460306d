//! What is measured of a version, each with how far chance alone may lead it astray.

use super::spread::{Spread, number};
use super::versions::Version;

/// With fewer calls of one version nothing is said to be worse.
pub(super) const MIN_CALLS: u64 = 20;
/// Two standard errors: of twenty differences that are none, one is larger.
const STANDARD_ERRORS: f64 = 2.0;
/// Latencies that differ by less milliseconds are nobody's concern.
const MIN_LATENCY_DIFFERENCE_MS: f64 = 1.0;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Of all calls.
    Violations,
    /// Of all calls.
    Overruns,
    /// Of the calls that were sent.
    Success,
    /// Of a call that was sent, in units.
    Cost,
    GateP50,
    GateP95,
    UpstreamP50,
    UpstreamP95,
}

impl Measure {
    /// In the order of the documents (003-117).
    pub(super) const ALL: [Self; 8] = [
        Self::Violations,
        Self::Overruns,
        Self::Success,
        Self::Cost,
        Self::GateP50,
        Self::GateP95,
        Self::UpstreamP50,
        Self::UpstreamP95,
    ];

    /// What people read.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Violations => "violations",
            Self::Overruns => "overruns",
            Self::Success => "success",
            Self::Cost => "cost per call",
            Self::GateP50 => "gate p50 ms",
            Self::GateP95 => "gate p95 ms",
            Self::UpstreamP50 => "upstream p50 ms",
            Self::UpstreamP95 => "upstream p95 ms",
        }
    }

    /// What programs read.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Violations => "violation_rate",
            Self::Overruns => "overrun_rate",
            Self::Success => "success_rate",
            Self::Cost => "cost_per_call",
            Self::GateP50 => "gate_p50_ms",
            Self::GateP95 => "gate_p95_ms",
            Self::UpstreamP50 => "upstream_p50_ms",
            Self::UpstreamP95 => "upstream_p95_ms",
        }
    }

    /// Is it a share, from 0 to 1?
    pub(super) fn is_share(self) -> bool {
        matches!(self, Self::Violations | Self::Overruns | Self::Success)
    }

    /// Is more of it better?
    pub(super) fn is_good(self) -> bool {
        self == Self::Success
    }

    /// Its value; none where there is no call to measure.
    pub(super) fn of(self, version: &Version) -> Option<f64> {
        match self {
            Self::Violations => share(version.violations, version.calls),
            Self::Overruns => share(version.overruns, version.calls),
            Self::Success => share(version.successes, version.sent),
            Self::Cost => (version.sent > 0).then(|| version.cost.0 / number(version.sent)),
            Self::GateP50 | Self::GateP95 | Self::UpstreamP50 | Self::UpstreamP95 => {
                let (spread, quantile) = self.spread(version);
                spread.quantile(quantile)
            }
        }
    }

    /// Is the difference, which is larger than the threshold, more than chance and large enough to
    /// matter?
    pub(super) fn is_certain(self, old: &Version, new: &Version) -> bool {
        let Some((before, after)) = self.of(old).zip(self.of(new)) else {
            return false;
        };
        if self.measured(old).min(self.measured(new)) < MIN_CALLS {
            return false;
        }
        let difference = (after - before).abs();
        match self {
            Self::Violations | Self::Overruns => is_beyond(
                difference,
                MeasuredShare::pooled(
                    &MeasuredShare {
                        share: before,
                        of: old.calls,
                    },
                    &MeasuredShare {
                        share: after,
                        of: new.calls,
                    },
                ),
            ),
            Self::Success => is_beyond(
                difference,
                MeasuredShare::pooled(
                    &MeasuredShare {
                        share: before,
                        of: old.sent,
                    },
                    &MeasuredShare {
                        share: after,
                        of: new.sent,
                    },
                ),
            ),
            Self::Cost => is_beyond(
                difference,
                variance(old) / number(old.sent) + variance(new) / number(new.sent),
            ),
            Self::GateP50 | Self::GateP95 | Self::UpstreamP50 | Self::UpstreamP95 => {
                let between = [old, new].map(|version| {
                    let (spread, quantile) = self.spread(version);
                    spread.between(quantile)
                });
                let [Some(old), Some(new)] = between else {
                    return false;
                };
                difference >= MIN_LATENCY_DIFFERENCE_MS && (old.1 < new.0 || new.1 < old.0)
            }
        }
    }

    /// How many calls it is measured on.
    fn measured(self, version: &Version) -> u64 {
        match self {
            Self::Violations | Self::Overruns | Self::GateP50 | Self::GateP95 => version.calls,
            Self::Success | Self::Cost | Self::UpstreamP50 | Self::UpstreamP95 => version.sent,
        }
    }

    fn spread(self, version: &Version) -> (&Spread, f64) {
        let quantile = if matches!(self, Self::GateP95 | Self::UpstreamP95) {
            0.95
        } else {
            0.5
        };
        let is_gate = matches!(self, Self::GateP50 | Self::GateP95);
        (
            if is_gate {
                &version.gate
            } else {
                &version.upstream
            },
            quantile,
        )
    }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| number(part) / number(of))
}

/// A share, and of how many calls it is.
struct MeasuredShare {
    share: f64,
    of: u64,
}

impl MeasuredShare {
    /// The square of the standard error of a difference of shares that are really one.
    fn pooled(old: &Self, new: &Self) -> f64 {
        let (of_old, of_new) = (number(old.of), number(new.of));
        let both = old.share.mul_add(of_old, new.share * of_new) / (of_old + of_new);
        both * (1.0 - both) * (1.0 / of_old + 1.0 / of_new)
    }
}

fn variance(version: &Version) -> f64 {
    let (sum, squares) = version.cost;
    let mean = sum / number(version.sent);
    mean.mul_add(-mean, squares / number(version.sent)).max(0.0)
}

fn is_beyond(difference: f64, square: f64) -> bool {
    difference > STANDARD_ERRORS * square.sqrt()
}

//! Two versions beside each other, like for like, and whether the new one is worse.

use super::measure::{MIN_CALLS, Measure};
use super::versions::Version;

/// Costs have six decimals; what is less comes of adding.
const COST_ROUNDING_ERROR: f64 = 1e-9;

/// What is put up with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportThreshold {
    /// So much more of what is bad, or less of what is good, in percent of the old version's.
    pub(super) percent: u32,
}

/// The table, and its sum.
pub(super) struct Comparison<'a> {
    pub(super) old: &'a Version,
    pub(super) new: &'a Version,
    pub(super) limits: ReportThreshold,
    pub(super) rows: Vec<MeasureRow>,
}

/// One measure of both.
pub(super) struct MeasureRow {
    pub(super) measure: Measure,
    pub(super) old: Option<f64>,
    pub(super) new: Option<f64>,
    pub(super) verdict: MeasureVerdict,
}

/// What the difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasureVerdict {
    /// Within the threshold, or better.
    Fine,
    /// Beyond the threshold, and perhaps only by chance, or too small to matter.
    Unclear,
    /// Beyond the threshold.
    Worse,
}

impl MeasureVerdict {
    /// What programs read.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Unclear => "unclear",
            Self::Worse => "worse",
        }
    }
}

impl<'a> Comparison<'a> {
    /// Compares `new` with `old`.
    pub(super) fn of(old: &'a Version, new: &'a Version, limits: ReportThreshold) -> Self {
        let row = |measure: Measure| {
            let (before, after) = (measure.of(old), measure.of(new));
            let is_beyond = before.zip(after).is_some_and(|(before, after)| {
                let more = if measure.is_good() {
                    before - after
                } else {
                    after - before
                };
                more > (f64::from(limits.percent) / 100.0 * before).max(COST_ROUNDING_ERROR)
            });
            let verdict = match (is_beyond, is_beyond && measure.is_certain(old, new)) {
                (false, _) => MeasureVerdict::Fine,
                (true, false) => MeasureVerdict::Unclear,
                (true, true) => MeasureVerdict::Worse,
            };
            MeasureRow {
                measure,
                old: before,
                new: after,
                verdict,
            }
        };
        Self {
            old,
            new,
            limits,
            rows: Measure::ALL.map(row).into(),
        }
    }

    /// Are there too few calls to say anything?
    pub(super) fn is_thin(&self) -> bool {
        self.old.calls.min(self.new.calls) < MIN_CALLS
    }

    /// The measures that are worse.
    pub(super) fn worse(&self) -> Vec<Measure> {
        let worse = self
            .rows
            .iter()
            .filter(|row| row.verdict == MeasureVerdict::Worse)
            .map(|row| row.measure);
        if self.is_thin() {
            Vec::new()
        } else {
            worse.collect()
        }
    }

    /// Is it better to go back to the old version?
    pub(super) fn is_worse(&self) -> bool {
        !self.worse().is_empty()
    }

    /// The tools that were called under one of them only: what they say is not alike.
    pub(super) fn unlike(&self) -> Vec<&str> {
        self.old
            .tools
            .symmetric_difference(&self.new.tools)
            .map(String::as_str)
            .collect()
    }
}

impl MeasureRow {
    /// The change in percent of the old value; none where that is zero or one of them is not there.
    pub(super) fn change(&self) -> Option<f64> {
        let (old, new) = self.old.zip(self.new)?;
        (old > 0.0).then(|| 100.0 * (new - old) / old)
    }
}

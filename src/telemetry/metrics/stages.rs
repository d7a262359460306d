//! The stage histogram, found without a lock or a hash: a call passes a dozen stages.

use super::labels::LabelPair;
use super::{Buckets, buckets};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::OnceLock;
use std::time::Duration;

/// More stages than any call has; what comes after them is observed as `other`.
const MAX_STAGES: usize = 32;

#[derive(Debug)]
pub(super) struct Stages {
    family: Family<LabelPair, Histogram, Buckets>,
    slots: [OnceLock<(&'static str, Histogram)>; MAX_STAGES],
}

impl Stages {
    pub(super) fn new() -> Self {
        Self {
            family: Family::new_with_constructor(Buckets(buckets::STAGE_SECONDS)),
            slots: [const { OnceLock::new() }; MAX_STAGES],
        }
    }

    pub(super) fn family(&self) -> Family<LabelPair, Histogram, Buckets> {
        self.family.clone()
    }

    pub(super) fn observe(&self, stage: &'static str, time: Duration) {
        for slot in &self.slots {
            let (name, histogram) = slot.get_or_init(|| (stage, self.histogram(stage)));
            // The address is equal nearly always and needs no look at the text.
            if std::ptr::eq(*name, stage) || *name == stage {
                histogram.observe(time.as_secs_f64());
                return;
            }
        }
        self.histogram("other").observe(time.as_secs_f64());
    }

    fn histogram(&self, stage: &'static str) -> Histogram {
        self.family.get_or_create_owned(&LabelPair("stage", stage))
    }
}

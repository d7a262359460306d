//! Lines for what takes long.

use super::Page;
use super::amounts::{bytes, lasting};
use crate::admin::status::WorkStatus;
use crate::model::long_work::WorkUnit;

/// One for each work that is under way.
pub(super) fn lines(out: &mut String, all: &[WorkStatus], page: Page) {
    page.lines(out, "working", all.iter().map(words));
}

/// How far it is, and how long it takes already.
fn words(work: &WorkStatus) -> String {
    let WorkStatus {
        what,
        unit,
        done,
        all,
        seconds,
    } = work;
    let (done, all) = if unit == WorkUnit::Bytes.word() {
        (bytes(*done), bytes(*all))
    } else {
        (done.to_string(), format!("{all} {unit}"))
    };
    format!("{what}: {done} of {all}, for {}", lasting(*seconds))
}

//! Scenarios of the guards together.

mod cost;
mod refusals;

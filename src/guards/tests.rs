//! Scenarios of the guards together.

mod cost;

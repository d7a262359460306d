//! Scenarios against the built program and real processes.

mod children;

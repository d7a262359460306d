//! The gate as a whole, simulated. Scenarios with real processes are in `tests/it/`.

mod simulation;

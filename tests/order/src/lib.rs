//! The gate's order alone, without the gate: what the test takes apart. A package of its own, so
//! that compiling the mutants compiles nothing else.

#[path = "../../../src/gate/pipeline.rs"]
pub mod pipeline;

//! The oracle: a tool server in raw JSON that notes every execution before it answers, and
//! misbehaves when told to.

pub mod folding;
pub mod script;
pub mod stdio;

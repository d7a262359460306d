//! Breaks what toolgate stands on, and checks what it promises (threat-model §12): agents that send
//! again, connections that break, kills, and the invariants I1 to I9 over what the tool server, the
//! agents and the journal say afterwards.

#![expect(
    clippy::disallowed_methods,
    reason = "what breaks toolgate is no part of its process"
)]

pub mod agent;
pub mod dice;
pub mod invariants;
pub mod kills;
pub mod operators;
pub mod oracle;
pub mod proxy;
pub mod rows;
pub mod stand;
pub mod trace;
pub mod wire;

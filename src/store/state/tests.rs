//! The state machine as SEMANTICS §3 to §6 have it.

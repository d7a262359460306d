//! The tools of all servers as they stand: what is offered, how it is shown, what is withheld.

pub(in crate::gate) mod collisions;
pub(crate) mod contract_mismatch;
pub(crate) mod hidden;
pub mod last_fit;
pub mod list;
pub(in crate::gate) mod notes;
pub(in crate::gate) mod offered;
pub(in crate::gate) mod own_tools;
pub(crate) mod pinned;
pub mod tool;
pub mod toolbox;
pub(crate) mod undo_tool;
pub(in crate::gate) mod unlisted;
pub mod variants;
pub mod view;

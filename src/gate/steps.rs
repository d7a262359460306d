//! The steps of the gate, each with all of its own; their order stands in [`super::pipeline`].

pub(in crate::gate) mod approval;
pub(in crate::gate) mod cleared;
pub(in crate::gate) mod confirm;
pub(in crate::gate) mod deliver;
pub(in crate::gate) mod dispatch;
pub(in crate::gate) mod edited;
pub(in crate::gate) mod granted;
pub(in crate::gate) mod hold_room;
pub(crate) mod hops;
pub(in crate::gate) mod inquiry;
pub(crate) mod judge;
pub(in crate::gate) mod judging;
pub(in crate::gate) mod late;
pub(in crate::gate) mod looking;
pub(in crate::gate) mod opened_page;
pub(crate) mod placing;
pub(in crate::gate) mod probing;
pub(in crate::gate) mod proof;
mod raised_progress;
pub(in crate::gate) mod rewrite;
pub(in crate::gate) mod rounds;
pub(in crate::gate) mod secrets;
pub(in crate::gate) mod shaper;
pub(in crate::gate) mod still_so;
pub(in crate::gate) mod task_state;
pub(in crate::gate) mod unknown;
pub(in crate::gate) mod waiting;

//! Floor 5: tells people elsewhere that a call waits for them, and what came of it: over HTTP, in the
//! form that a chat or a program wants, or by mail.
//!
//! What is to be told follows from the journal: a record that was not told of is read again after a
//! restart, however toolgate ended, and has the same id then. So everything is told at least once, and a receiver
//! that knows the ids, once. Nobody waits for a receiver: no call, no operator and no other receiver.
//! A message says who asks for what, never what the call says, but for arguments that its contract
//! marks; its link leads to a page that asks who is there. Nothing can be decided by it.

mod delivery;
mod following;
mod journal_tail;
mod notice;
mod outbox;
mod receiver;
mod running;
mod templates;
#[cfg(test)]
pub(crate) mod tests;
mod visible;

pub(crate) use notice::NoticeKind;
pub(crate) use receiver::{
    EscalationStep, NoticeReceiver, NoticeTemplate, QuietHours, ReceiverAbsence, is_effect,
};
pub(crate) use running::{Notifier, NotifierParts};

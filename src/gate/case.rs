//! The states of a call on its way through [`super::pipeline::run`], where it is really made. Each
//! owns what the steps before have proven; [`super::live`] alone makes them.

use super::bill::Bill;
use super::call::Call;
use super::dispatch::Cleared;
use super::toolbox::Tool;
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::{Approved, Confirmed, Final, NotRepeated, Ruled};
use crate::guards::idempotency::Keyed;
use crate::guards::secrets::Sealed;
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;
use crate::store::session_locks::Lease;
use std::sync::Arc;

/// A call, and the tool that it names, if there is one.
pub(super) struct Case {
    pub(super) call: Arc<Call>,
    pub(super) tool: Option<Arc<Tool>>,
}

/// A call of a tool that its caller may see, by the contract that counts for its arguments.
pub(super) struct VisibleCall<'p> {
    pub(super) call: Arc<Call>,
    pub(super) tool: Arc<Tool>,
    pub(super) admitted: Admitted<'p>,
}

/// A call that steps 3 to 5 have nothing against.
pub(super) struct RuledCall<'p> {
    pub(super) case: VisibleCall<'p>,
    pub(super) ruled: Ruled,
}

/// What is sent: these arguments, and no others, have been judged.
#[derive(Clone)]
pub(super) struct Subject<'p> {
    pub(super) call: Arc<Call>,
    pub(super) tool: Arc<Tool>,
    pub(super) rules: &'p Arc<ToolRules>,
}

/// A call that nothing rewrites any more.
pub(super) struct SettledCall<'p> {
    pub(super) subject: Subject<'p>,
    pub(super) last: Final,
}

/// A call of a known task.
pub(super) struct PlacedCall<'p> {
    pub(super) subject: Subject<'p>,
    pub(super) last: Final,
    pub(super) bill: Bill,
}

/// A call with which its task does not go round in circles.
pub(super) struct WatchedCall<'p> {
    pub(super) subject: Subject<'p>,
    pub(super) bill: Bill,
    pub(super) watched: NotRepeated,
    /// It is only planned, and never sent.
    pub(super) is_planned: bool,
}

/// A call with its key; without one it changes nothing.
pub(super) struct KeyedCall<'p> {
    pub(super) subject: Subject<'p>,
    pub(super) bill: Bill,
    pub(super) watched: NotRepeated,
    pub(super) is_planned: bool,
    pub(super) keyed: Option<Keyed>,
}

/// A call whose key nobody holds.
pub(super) struct OpenCall<'p>(pub(super) KeyedCall<'p>);

/// A call that confirms its task's own draft, if it confirms anything.
pub(super) struct ConfirmedCall<'p> {
    pub(super) case: KeyedCall<'p>,
    pub(super) confirmed: Option<Confirmed>,
}

/// A call for which its task's budget has room: taken, if it has no key, else found.
pub(super) struct FundedCall<'p> {
    pub(super) case: KeyedCall<'p>,
    pub(super) confirmed: Option<Confirmed>,
}

/// A call that waits for nobody.
pub(super) struct ApprovedCall<'p> {
    pub(super) case: KeyedCall<'p>,
    pub(super) proof: Option<(Confirmed, Approved)>,
}

/// A call whose turn it is in its session; one without a key takes no turn.
pub(super) struct FencedCall<'p> {
    pub(super) case: KeyedCall<'p>,
    pub(super) proof: Option<(Confirmed, Approved, Lease)>,
}

/// A call in flight: it has its slot, and its intent is durable if it has a key.
pub(super) struct BegunCall<'p> {
    pub(super) subject: Subject<'p>,
    pub(super) cleared: Cleared<'p>,
}

/// A call with the values of its secret references.
pub(super) struct SealedCall<'p> {
    pub(super) subject: Subject<'p>,
    pub(super) cleared: Cleared<'p>,
    pub(super) sealed: Sealed,
}

/// Why a call ends before its tool server has answered.
pub(super) enum Stop {
    /// It is refused, or broke.
    Refused(Refusal),
    /// It was made before; this was its answer.
    Answered(Box<Message>),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

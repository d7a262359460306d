//! The states of a call on its way through [`crate::gate::pipeline::run`], where it is really made
//! or observed. Each owns what the steps before have proven, or what observe mode has in its place.
//!
//! `prepare.rs` makes the `Case`, and `live.rs` most of the others. In observe mode `observing.rs`
//! makes `WelcomeCall`, `RuledCall`, `BegunCall` and `SealedCall`, also where enforce mode would
//! refuse the call. `steps/rewrite.rs` alone makes a `SettledCall`, and of changed arguments a new
//! `VisibleCall`.

use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::bill::Bill;
use crate::gate::steps::cleared::Cleared;
use crate::guards::allowlist::Admitted;
use crate::guards::approval::Approved;
use crate::guards::confirms::Confirmed;
use crate::guards::evidence::{Final, NotRepeated, Ruled};
use crate::guards::idempotency::Keyed;
use crate::guards::secrets::Sealed;
use crate::guards::{ToolRules, Welcome};
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;
use crate::store::session_locks::Lease;
use std::sync::Arc;

/// A call, and the tool that it names, if there is one.
pub(in crate::gate) struct Case {
    pub(in crate::gate) call: Arc<Call>,
    pub(in crate::gate) tool: Option<Arc<Tool>>,
}

/// A call of a caller that the guards of callers have nothing against.
pub(in crate::gate) struct WelcomeCall {
    pub(in crate::gate) case: Case,
    pub(in crate::gate) _welcome: Welcome,
}

/// A call of a tool that its caller may see, by the contract that counts for its arguments.
pub(in crate::gate) struct VisibleCall<'p> {
    pub(in crate::gate) call: Arc<Call>,
    pub(in crate::gate) tool: Arc<Tool>,
    pub(in crate::gate) admitted: Admitted<'p>,
}

/// A call that steps 3 to 5 have nothing against.
pub(in crate::gate) struct RuledCall<'p> {
    pub(in crate::gate) case: VisibleCall<'p>,
    pub(in crate::gate) ruled: Ruled,
}

/// What is sent: these arguments, and no others, have been judged.
#[derive(Clone)]
pub(in crate::gate) struct Subject<'p> {
    pub(in crate::gate) call: Arc<Call>,
    pub(in crate::gate) tool: Arc<Tool>,
    pub(in crate::gate) rules: &'p Arc<ToolRules>,
}

/// A call that nothing rewrites any more.
pub(in crate::gate) struct SettledCall<'p> {
    pub(in crate::gate) subject: Subject<'p>,
    pub(in crate::gate) last: Final,
}

/// A call of a known task.
pub(in crate::gate) struct PlacedCall<'p> {
    pub(in crate::gate) subject: Subject<'p>,
    pub(in crate::gate) last: Final,
    pub(in crate::gate) bill: Box<Bill>,
}

/// A call with which its task does not go round in circles.
pub(in crate::gate) struct WatchedCall<'p> {
    pub(in crate::gate) subject: Subject<'p>,
    pub(in crate::gate) bill: Box<Bill>,
    pub(in crate::gate) watched: NotRepeated,
    /// It is only planned, and never sent.
    pub(in crate::gate) is_planned: bool,
}

/// A call with its key; without one it changes nothing.
pub(in crate::gate) struct KeyedCall<'p> {
    pub(in crate::gate) subject: Subject<'p>,
    pub(in crate::gate) bill: Box<Bill>,
    pub(in crate::gate) watched: NotRepeated,
    pub(in crate::gate) is_planned: bool,
    pub(in crate::gate) keyed: Option<Keyed>,
    /// Whether an earlier round of it has paid for it.
    pub(in crate::gate) is_paid: bool,
    /// The call as its agent sent it, where it goes on with arguments that an operator has changed: what
    /// is asked again is asked of that.
    pub(in crate::gate) asked: Option<Box<Subject<'p>>>,
}

impl<'p> KeyedCall<'p> {
    /// The same call with the arguments that an operator has given it.
    pub(in crate::gate) fn edited(self, edited: Subject<'p>) -> Self {
        Self {
            asked: Some(Box::new(self.subject)),
            subject: edited,
            ..self
        }
    }

    /// The call as its agent sent it.
    pub(in crate::gate) fn into_asked(mut self) -> Self {
        if let Some(asked) = self.asked.take() {
            self.subject = *asked;
        }
        self
    }
}

/// A call whose key nobody holds.
pub(in crate::gate) struct UnclaimedCall<'p>(pub(in crate::gate) KeyedCall<'p>);

/// A call that confirms its task's own draft, if it confirms anything.
pub(in crate::gate) struct ConfirmedCall<'p> {
    pub(in crate::gate) case: KeyedCall<'p>,
    pub(in crate::gate) confirmed: Option<Confirmed>,
}

/// A call for which its task's budget has room: taken, if it has no key, else found.
pub(in crate::gate) struct FundedCall<'p> {
    pub(in crate::gate) case: KeyedCall<'p>,
    pub(in crate::gate) confirmed: Option<Confirmed>,
}

/// A call that waits for nobody.
pub(in crate::gate) struct ApprovedCall<'p> {
    pub(in crate::gate) case: KeyedCall<'p>,
    pub(in crate::gate) proof: Option<(Confirmed, Approved)>,
}

/// A call whose turn it is in its session; one without a key takes no turn.
pub(in crate::gate) struct FencedCall<'p> {
    pub(in crate::gate) case: KeyedCall<'p>,
    pub(in crate::gate) proof: Option<(Confirmed, Approved, Lease)>,
}

/// A call in flight: it has its slot, and its intent is durable if it has a key.
pub(in crate::gate) struct BegunCall<'p> {
    pub(in crate::gate) subject: Subject<'p>,
    pub(in crate::gate) cleared: Cleared<'p>,
}

/// A call with the values of its secret references.
pub(in crate::gate) struct SealedCall<'p> {
    pub(in crate::gate) subject: Subject<'p>,
    pub(in crate::gate) cleared: Cleared<'p>,
    pub(in crate::gate) sealed: Sealed,
}

/// Why a call ends before its tool server has answered.
pub(in crate::gate) enum Stop {
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

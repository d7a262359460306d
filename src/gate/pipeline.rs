//! THE ORDER of the gate, once (guarantees §2). [`run`] is all of it, for every way of asking: a
//! call that is made, one that is only observed, one that is explained, tested or replayed. What
//! differs between these is what the [`World`] answers; steps 3 to 5 stand in [`judged`].
//!
//! A step takes the state before it by value and gives its own. The states are the world's, and
//! nothing here can make one: a step that is left out, or put in another place, does not compile
//! (`tests/order`).

use std::future::Future;

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Step 1, where the door leaves it: does the caller call faster than it may?
    Rate,
    /// Step 2: may this caller see the tool?
    Visible,
    /// Step 3: do the arguments fit?
    Arguments,
    /// Step 4: may this caller do this to this?
    Permission,
    /// Step 5: the contract's own rules.
    Rules,
    /// Step 6: the chain of before-hooks.
    Rewrite,
    /// Step 7: does the task go round in circles?
    Repetition,
    /// Step 8: was this call made before?
    Idempotency,
    /// Step 9: is there budget left?
    Budget,
    /// Step 10: has a person allowed it?
    Approval,
    /// Step 11: the session's turn, and its token.
    Fence,
    /// Step 12: the intent, durable.
    Intent,
    /// Step 13: the values of secret references.
    Secrets,
    /// Step 14: sent upstream, and waited for.
    Dispatch,
    /// Step 15: the outcome, durable.
    Outcome,
}

impl Stage {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All, in their order.
    pub const ALL: &[Self] = &[
        Self::Rate,
        Self::Visible,
        Self::Arguments,
        Self::Permission,
        Self::Rules,
        Self::Rewrite,
        Self::Repetition,
        Self::Idempotency,
        Self::Budget,
        Self::Approval,
        Self::Fence,
        Self::Intent,
        Self::Secrets,
        Self::Dispatch,
        Self::Outcome,
    ];

    /// The word in metrics, decisions and the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Visible => "visible",
            Self::Arguments => "arguments",
            Self::Permission => "permission",
            Self::Rules => "rules",
            Self::Rewrite => "rewrite",
            Self::Repetition => "repetition",
            Self::Idempotency => "idempotency",
            Self::Budget => "budget",
            Self::Approval => "approval",
            Self::Fence => "fence",
            Self::Intent => "intent",
            Self::Secrets => "secrets",
            Self::Dispatch => "dispatch",
            Self::Outcome => "outcome",
        }
    }
}

/// Where a call goes from a step that may find that another call was quicker.
pub enum Turn<On, Back> {
    /// To the next step.
    On(On),
    /// To the look at its key, because what was found there no longer holds.
    Back(Back),
}

/// Steps 3 to 5: what is said of a call's arguments. No waiting, so that a call that takes much can
/// be judged anew on the pool for heavy work.
pub trait Judge {
    /// A call whose tool its caller may see.
    type Visible;
    /// The server's schema and the contract take the arguments.
    type Checked;
    /// The caller may do this to this.
    type Permitted;
    /// No rule of the contract is true.
    type Ruled;
    /// Why it is refused.
    type Refusal;

    /// Step 3: the server's schema, and the contract's.
    fn arguments(&mut self, case: Self::Visible) -> Result<Self::Checked, Self::Refusal>;
    /// Step 4: role, tenant, resource.
    fn permission(&mut self, case: Self::Checked) -> Result<Self::Permitted, Self::Refusal>;
    /// Step 5: the contract's own rules.
    fn rules(&mut self, case: Self::Permitted) -> Result<Self::Ruled, Self::Refusal>;
}

/// What the world answers a call at each step. An implementation cannot change the order: a step is
/// given the state that the step before has left, and no other.
pub trait World: Send {
    /// A call, and the tool that it names.
    type Case: Send;
    /// The guards of callers have nothing against this one.
    type Welcome: Send;
    /// The tool is offered to this caller.
    type Visible: Send;
    /// Steps 3 to 5 have nothing against it.
    type Ruled: Send;
    /// The arguments are those that will be sent.
    type Settled: Send;
    /// The call's task is where its agent says.
    type Placed: Send;
    /// The task does not go round in circles.
    type Watched: Send;
    /// The call has its key, or needs none.
    type Keyed: Send;
    /// Nobody holds the key.
    type Open: Send;
    /// What the call confirms is a draft that its task has made.
    type Confirmed: Send;
    /// The budget has room.
    type Funded: Send;
    /// Nobody has to be asked, or a person has allowed it.
    type Approved: Send;
    /// The call has its session's turn.
    type Fenced: Send;
    /// The call has its slot, and its intent is durable if it changes anything.
    type Begun: Send;
    /// The values of secret references are known.
    type Sealed: Send;
    /// What is read of a call that was sent.
    type Answer: Send;
    /// Why a call ends before that.
    type Stop: Send;

    /// Says which step begins.
    fn at(&mut self, stage: Stage) -> &mut Self;
    /// The guards that look at nothing but the caller: how fast it calls.
    fn welcome(&mut self, case: Self::Case) -> Result<Self::Welcome, Self::Stop>;
    /// Hops, contract mismatch, pins, layers.
    fn visible(&mut self, case: Self::Welcome) -> Result<Self::Visible, Self::Stop>;
    /// [`judged`], here or on the pool for heavy work.
    fn judge(
        &mut self,
        case: Self::Visible,
    ) -> impl Future<Output = Result<Self::Ruled, Self::Stop>> + Send;
    /// The contract's own steps, then hooks. What they change is [`judged`] again.
    fn rewrite(
        &mut self,
        case: Self::Ruled,
    ) -> impl Future<Output = Result<Self::Settled, Self::Stop>> + Send;
    /// Where the call's task is, and what it has used.
    fn place(
        &mut self,
        case: Self::Settled,
    ) -> impl Future<Output = Result<Self::Placed, Self::Stop>> + Send;
    /// The loop detector.
    fn watch(&mut self, case: Self::Placed) -> Result<Self::Watched, Self::Stop>;
    /// The idempotency key.
    fn key(&mut self, case: Self::Watched) -> Result<Self::Keyed, Self::Stop>;
    /// How the key stands. Waits for the same call in flight; a stored answer ends the call here.
    fn look(
        &mut self,
        case: Self::Keyed,
    ) -> impl Future<Output = Result<Self::Open, Self::Stop>> + Send;
    /// The draft that the call confirms.
    fn confirm(
        &mut self,
        case: Self::Open,
    ) -> impl Future<Output = Result<Self::Confirmed, Self::Stop>> + Send;
    /// The task's budget.
    fn fund(
        &mut self,
        case: Self::Confirmed,
    ) -> impl Future<Output = Result<Self::Funded, Self::Stop>> + Send;
    /// A person's decision.
    fn approve(
        &mut self,
        case: Self::Funded,
    ) -> impl Future<Output = Result<Turn<Self::Approved, Self::Keyed>, Self::Stop>> + Send;
    /// The session's turn.
    fn fence(
        &mut self,
        case: Self::Approved,
    ) -> impl Future<Output = Result<Self::Fenced, Self::Stop>> + Send;
    /// A slot, and the durable intent.
    fn begin(
        &mut self,
        case: Self::Fenced,
    ) -> impl Future<Output = Result<Turn<Self::Begun, Self::Keyed>, Self::Stop>> + Send;
    /// The values of secret references.
    fn seal(
        &mut self,
        case: Self::Begun,
    ) -> impl Future<Output = Result<Self::Sealed, Self::Stop>> + Send;
    /// Dispatch, outcome, result.
    fn send(
        &mut self,
        case: Self::Sealed,
    ) -> impl Future<Output = Result<Self::Answer, Self::Stop>> + Send;
}

/// Steps 3 to 5 in their order.
pub fn judged<J: Judge>(judge: &mut J, case: J::Visible) -> Result<J::Ruled, J::Refusal> {
    let checked = judge.arguments(case)?;
    let permitted = judge.permission(checked)?;
    judge.rules(permitted)
}

/// The whole order. What leaves early has ended there; nothing after it has run.
pub async fn run<W: World>(world: &mut W, case: W::Case) -> Result<W::Answer, W::Stop> {
    let welcome = world.at(Stage::Rate).welcome(case)?;
    let visible = world.at(Stage::Visible).visible(welcome)?;
    let ruled = world.judge(visible).await?;
    let settled = world.at(Stage::Rewrite).rewrite(ruled).await?;
    let placed = world.at(Stage::Repetition).place(settled).await?;
    let watched = world.watch(placed)?;
    let mut keyed = world.at(Stage::Idempotency).key(watched)?;
    let begun = loop {
        let open = world.at(Stage::Idempotency).look(keyed).await?;
        let confirmed = world.confirm(open).await?;
        let funded = world.at(Stage::Budget).fund(confirmed).await?;
        let approved = match world.at(Stage::Approval).approve(funded).await? {
            Turn::On(approved) => approved,
            Turn::Back(again) => {
                keyed = again;
                continue;
            }
        };
        let fenced = world.at(Stage::Fence).fence(approved).await?;
        match world.at(Stage::Intent).begin(fenced).await? {
            Turn::On(begun) => break begun,
            Turn::Back(again) => keyed = again,
        }
    };
    let sealed = world.at(Stage::Secrets).seal(begun).await?;
    world.at(Stage::Dispatch).send(sealed).await
}

//! The one place where a call ends: what it holds is given back, what became of it is recorded and
//! counted, and its agent is answered.

use crate::failpoint;
use crate::gate::Gate;
use crate::gate::call::ArgumentOrigin;
use crate::gate::call::{Call, TaskTerms};
use crate::gate::case::{Case, Stop};
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::caller_rows::EndedStep;
use crate::gate::effects::taken::Ended;
use crate::gate::effects::taken::Taken;
use crate::gate::effects::told;
use crate::gate::live::Live;
use crate::gate::observing::Observing;
use crate::gate::own_tasks::LongCall;
use crate::gate::pipeline::Stage;
use crate::gate::pipeline::run;
use crate::gate::prepare::prepared;
use crate::gate::record::Ending;
use crate::gate::record::RecordedCall;
use crate::gate::record::contents;
use crate::gate::record::counting::Counted;
use crate::gate::record::counting::count;
use crate::gate::record::effect;
use crate::gate::record::entry::entry;
use crate::gate::record::findings::Findings;
use crate::gate::record::has_failed;
use crate::gate::record::outcome_of;
use crate::gate::record::seen;
use crate::gate::record::sent;
use crate::gate::record::timing::StageTimer;
use crate::gate::record::undo_until::undo_until;
use crate::gate::steps::opened_page::question;
use crate::gate::steps::rounds::sealed;
use crate::gate::steps::task_state::is_planned;
use crate::guards::Mode;
use crate::guards::budget::word;
use crate::guards::output::Meaning;
use crate::guards::task::is_plan_full;
use crate::mcp::answer::{DecisionMeta, invalid, refused, with_decision};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::entry::Entry;
use crate::model::refusal::Refusal;
use crate::store::claims::StoreError;
use crate::store::journal::Item;
use crate::store::state::budget::Dimension;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

impl Gate {
    /// Runs a call to its end, even when the agent hangs up: what was begun is settled and
    /// recorded.
    ///
    /// What the future keeps while it waits counts for every call in flight, so it begins with the
    /// call prepared, and keeps each thing once; clippy and the simulation bound it.
    pub fn call_tool(self: Arc<Self>, call: Call) -> impl Future<Output = ()> + Send {
        let policy = call.origin.policy.clone();
        // Boxed, so that a call in flight keeps less.
        let asked = call.message.body.clone().map(Box::new);
        let may_wait = matches!(call.origin.task, TaskTerms::Possible(_));
        let made = may_wait.then(|| Arc::new(call.clone()));
        let case = prepared(&self, &policy, call);
        let tool = case.tool.clone();
        let long = made.as_ref();
        let long = long.and_then(|made| LongCall::of(&self, &policy, made, tool.as_deref()));
        let work = async move {
            let mut live = Live {
                gate: &self,
                policy: &policy,
                timer: StageTimer::new(self.metrics.clone(), self.clock, case.call.judged.arrived),
                call: case.call.clone(),
                found: Findings::default(),
                taken: Taken::default(),
                admission: None,
            };
            let ending = ran(&mut live, case).await;
            let ended = EndedCall::settle(&mut live, tool.as_deref(), ending).await;
            match made {
                Some(made) => Box::pin(ended.into_task(self.clone(), asked, made)).await,
                None => ended.conclude(asked.as_deref(), None),
            }
        };
        match long {
            None => Either::Left(work),
            Some(long) => Either::Right(long.beside(Box::pin(work))),
        }
    }
}

/// Goes through the steps; when toolgate itself breaks, the call ends as far as it came.
async fn ran(live: &mut Live<'_>, case: Case) -> Ending {
    let ended = match live.policy.mode {
        Mode::Enforce => AssertUnwindSafe(run(live, case)).catch_unwind().await,
        Mode::Observe => {
            let mut observing = Observing(live);
            AssertUnwindSafe(run(&mut observing, case))
                .catch_unwind()
                .await
        }
    };
    match ended {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Stop::Answered(answer))) => Ok(*answer),
        Ok(Err(Stop::Refused(refusal))) => Err(refusal),
        Err(_) => Err(live.taken.after_panic()),
    }
}

/// A call that holds nothing any more, and how it ended.
struct EndedCall<'a> {
    recorded: RecordedCall<'a>,
    ending: Ending,
    /// The answer of a call whose outcome could not be recorded.
    unrecorded: Option<Box<Message>>,
}

impl<'a> EndedCall<'a> {
    /// Settles what the call holds, with its entry; then counts it.
    async fn settle(live: &'a mut Live<'_>, tool: Option<&'a Tool>, ending: Ending) -> Self {
        let gate = live.gate;
        let ending = last_word(live, ending).await;
        if live.found.dispatch.attempts == 0 {
            live.timer.stopped();
        }
        let entry = Box::new(entry(&live.recorded(tool), Some(&ending)));
        let is_executed = live.found.dispatch.attempts > 0 && live.changes();
        let taken = std::mem::take(&mut live.taken);
        let counted = Counted {
            claimed: taken.claim.is_some(),
            executed: is_executed.then(|| effect(&entry)),
        };
        let contents = contents(live, tool, &ending);
        let contents = if counted.claimed {
            // Before the outcome, so that it is durable with it.
            if let Err(error) = gate.keep(contents) {
                told::unnoted(&error, "the result of a call is not kept");
            }
            Vec::new()
        } else {
            contents
        };
        let kept = kept(live, &entry, taken.is_counted()).await;
        let settled = taken
            .settle(&gate.effects, entry, ending.as_ref().ok(), kept)
            .await;
        if counted.claimed {
            live.timer.settled(settled.is_ok());
        }
        let (ending, unrecorded) = match settled {
            Ok(entry) => {
                if let Some(entry) = entry {
                    let outcome = outcome_of(&ending, &live.found);
                    gate.sums
                        .enter_call(entry, contents, outcome, || !live.changes());
                }
                (ending, None)
            }
            Err(error) => unrecorded(&live.call, ending, &error),
        };
        live.timer.end();
        let recorded = live.recorded(tool);
        count(&recorded, &counted, &ending);
        Self {
            recorded,
            ending,
            unrecorded,
        }
    }

    /// Ends a call that may have become a task; `made`: as its agent made it.
    async fn into_task(self, gate: Arc<Gate>, asked: Option<Box<Text>>, made: Arc<Call>) {
        // Its agent has a task already, which ends with whatever comes now.
        let is_task = made.origin.outlet.is_handed_over();
        let task = if is_task {
            None
        } else {
            gate.begin_task(&self.ending, made).await
        };
        let (handle, run) = task.map_or((None, None), |task| (Some(task.handle), task.run));
        self.conclude(asked.as_deref(), handle);
        // When toolgate ends it waits for this call as for any other.
        if let Some(run) = run {
            run.await;
        }
    }

    fn conclude(&self, asked: Option<&Text>, task: Option<Text>) {
        self.answer(asked, task);
        self.tell();
    }

    /// Answers the agent, whose request had these parameters; `task`: that its call has become one.
    fn answer(&self, asked: Option<&Text>, task: Option<Text>) {
        let origin = &self.recorded.call.origin;
        // A modern agent that cancelled wants to hear no more of the call (protocol §1.7), but of a task
        // how it has ended.
        let cancelled = self.ending.as_ref().is_err_and(Refusal::is_cancelled);
        let is_task = matches!(origin.task, TaskTerms::Round(_)) || origin.outlet.is_handed_over();
        if origin.era == Era::Modern && cancelled && !is_task {
            return;
        }
        let answer = answer(self, task);
        let answer = sealed(
            &self.recorded.gate.seal,
            self.recorded.tool,
            self.recorded.call,
            asked,
            answer,
        );
        failpoint::reached("reply-to-agent");
        origin.waiting.answered();
        let answer = origin.links.with_news(answer);
        origin.outlet.answer(answer);
    }

    /// Tells after-hooks. Never waits.
    fn tell(&self) {
        if let Some(tool) = self.recorded.tool {
            self.recorded.gate.tell(&self.recorded, tool, &self.ending);
        }
    }
}

/// How the call ended, for its task. Equal calls of one caller are counted here, too, and an answer that
/// was given again in its task: one that is fed the same replay for ever goes in a circle.
/// `is_counted`: what the call holds is settled with it.
async fn kept(live: &mut Live<'_>, entry: &Entry, is_counted: bool) -> Ended {
    let is_watching = live.policy.repetition.is_watching();
    let call = &live.call;
    let hashed = live.found.hashed(call);
    let seen = (is_watching || is_counted).then(|| seen(entry, hashed));
    if let Some(seen) = seen.filter(|_| is_watching) {
        let effects = &live.gate.effects;
        let caller = call.origin.caller.key();
        let task = live.found.task;
        let step = EndedStep { seen, task };
        effects.caller_rows.see(caller, step, live.timer.now());
        let counts = live.policy.repetition.counts_replays() && !live.found.key.has_joined();
        if live.found.key.replayed && counts && !seen.refused {
            Box::pin(effects.replayed_in_task(live.policy, call, seen)).await;
        }
    }
    Ended {
        failed: has_failed(entry),
        seen,
    }
}

/// What the ledger keeps of the call besides its entry.
fn contents(live: &mut Live<'_>, tool: Option<&Tool>, ending: &Ending) -> Vec<Item> {
    let contents = contents::at_end(&live.recorded(tool), ending);
    live.found.has_kept_arguments = true;
    contents
}

/// How the call ends after all: an agent that goes on with what is refused reads beside it that it
/// goes in circles. What was to be planned and is not leaves no plan.
async fn last_word(live: &mut Live<'_>, ending: Ending) -> Ending {
    let (gate, call) = (live.gate, &live.call);
    let circle = gate.rows.circle(live.policy, call, &ending);
    live.found.warning = circle.or(live.found.warning);
    // A rate gives way with time; whatever else is used up ends what the task can do.
    let is_over = |refusal: &Refusal| {
        let used_up = refusal.dimension();
        used_up.is_some_and(|dimension| dimension != word(Dimension::Rate))
    };
    let is_circle = matches!(ending, Err(Refusal::LoopDetected { .. }));
    if is_circle || ending.as_ref().is_err_and(is_over) || live.found.dispatch.is_out_of_time {
        live.found.state.evidence = Box::pin(gate.effects.done(call)).await;
    }
    if is_circle {
        Box::pin(gate.effects.refused_before(live.policy, call)).await;
    }
    // A call of an unwelcome caller leaves everything as it is, the plan that was made before it, too;
    // and so does one that was not judged, or found no room in the plan.
    let ends_plan = live.timer.stage() >= Stage::Visible
        && ending
            .as_ref()
            .is_err_and(|refusal| refusal.is_verdict() && !is_plan_full(refusal));
    if is_planned(call) == Ok(true) && ends_plan {
        Box::pin(gate.effects.give_up_plan(call)).await;
    }
    ending
}

/// An outcome that could not be made durable is not given as one: the agent reads that the tool has
/// run and that nobody else will know.
fn unrecorded(call: &Call, ending: Ending, error: &StoreError) -> (Ending, Option<Box<Message>>) {
    tracing::error!(
        action = %call.judged.action,
        %error,
        "the outcome of a call cannot be recorded"
    );
    match ending {
        Ok(answer) => (Err(Refusal::ExecutedButNotRecorded), Some(Box::new(answer))),
        Err(_) => (Err(Refusal::OutcomeUnknown), None),
    }
}

/// What the agent reads: the tool server's answer with our verdict beside it, or the refusal.
fn answer(ended: &EndedCall<'_>, task: Option<Text>) -> Message {
    let RecordedCall {
        call, found, timer, ..
    } = ended.recorded;
    let (ending, unrecorded) = (&ended.ending, &ended.unrecorded);
    let undo_until = undo_until(&ended.recorded, ending);
    let decision = DecisionMeta {
        action: call.judged.action,
        outcome: outcome_of(ending, found).word(),
        refusal: ending.as_ref().err(),
        stage: timer.stage().as_str(),
        replayed: found.key.replayed,
        claimed_by: found.key.holder,
        budget_remaining: found.remaining.as_deref(),
        warning: found.warning,
        meaning: found
            .dispatch
            .meaning
            .map(|meaning| (meaning.word(), meaning == Meaning::Retryable)),
        evidence: &found.state.evidence,
        sent: sent(&ended.recorded),
        edit: call.edit(),
        after_undo: found.key.after_undo(),
        undo_until: undo_until.as_deref(),
    };
    if let Some(instead) = task.or_else(|| question(call, ending)) {
        let instead = with_decision(&instead, &decision);
        return Message::response(call.message.id.clone(), instead, false);
    }
    let answer = match ending {
        Ok(reply) if reply.is_error => reply.clone().brief(),
        Ok(reply) => Message {
            body: reply
                .body
                .as_ref()
                .map(|result| with_decision(result, &decision)),
            ..reply.clone()
        },
        Err(refusal @ Refusal::SchemaInvalid { .. }) if call.reading == ArgumentOrigin::Foreign => {
            invalid(None, &decision, refusal)
        }
        Err(refusal) => {
            let era = call.origin.era;
            refused(None, era, &decision, refusal, unrecorded.as_deref())
        }
    };
    Message {
        id: call.message.id.clone(),
        ..answer
    }
}

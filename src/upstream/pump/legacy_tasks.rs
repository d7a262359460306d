//! Tasks of a legacy server, for an agent of 2026-07-28 (protocol §6.3): a call that has to become
//! one is sent so, what the agent asks of one that it holds is asked in the words of the other
//! era, and for an agent that knows no tasks the result is waited for in its place.

use super::crossing::Course;
use super::leg::{Leg, OwnLeg, of_round};
use super::{CarriedLeg, ExchangeContext, ExchangeOutcome, Outbound};
use crate::mcp::bridge::{
    TaskStatus, TaskSupport, input_requests, knows_tasks, legacy_task_of, task_to_modern,
    to_modern_agent, with_ending,
};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::model::ids::unguessable;
use crate::model::reply::{Fault, Sent};
use crate::telemetry::tasks;
use crate::upstream::caller_links::{AskedAbout, Asker, ReachedLink};
use crate::upstream::legacy_tasks::{HeldTaskKey, OpenResult, TaskQuestion, refused};
use crate::upstream::links::SentRequest;
use crate::upstream::questions::tell;
use serde_json::json;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// How long the server may take to say what a task asks that waits for its agent.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take to give the result of a task that has ended.
const RESULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to say how a task stands that has no result.
const STANDING_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the result of a task that is waited for is asked for again after a broken connection,
/// and how long after.
const MAX_RESULT_BREAKS: u32 = 30;
const RESULT_PAUSE: Duration = Duration::from_secs(1);

/// Why a task is not asked about.
const TOO_MANY_WAIT: &str =
    "as many conversations with the tool server wait for their agents as may; ask again later";
const NO_RESULT: &str = "the result of the task did not come";

/// What came of asking for the result of a task.
enum AskedResult {
    Answer(Message),
    /// It is not there; what the task asks meanwhile.
    Waits(Text),
    Gone,
}

impl ExchangeContext<'_> {
    /// The task that a legacy server has made of a call, if toolgate has to wait for it: it had to
    /// become one, and its agent knows no tasks. One that the agent is to hold is kept for it.
    pub(super) fn task_to_follow(
        &self,
        outbound: &Outbound<'_>,
        leg: &Leg,
        answer: &Message,
    ) -> Option<Text> {
        let own = leg.request.reached.legacy()?;
        let message = outbound.message;
        let is_call = message.method == "tools/call" && answer.odd.is_none();
        let id = legacy_task_of(answer).filter(|_| is_call)?;
        let meta = leg.asked().or(message.body.as_ref());
        let meta = meta.and_then(|params| params.get("_meta"));
        let mut reached = leg.request.reached.clone();
        let servers = self.links.servers();
        // Where no link can be kept for a task, its result is waited for here.
        if meta.as_ref().is_some_and(knows_tasks) && servers.callers().pin(&mut reached) {
            let key = HeldTaskKey::of(self.caller, outbound.server, &id);
            servers.tasks().hold(key, reached);
            return None;
        }
        let is_needed = outbound.terms.task == TaskSupport::Required && own.makes_tasks();
        is_needed.then_some(id)
    }

    /// Waits for the result of a task from now on, in place of the answer to the call that made it.
    /// The call itself is not sent again.
    pub(super) async fn followed(
        &self,
        outbound: &Outbound<'_>,
        leg: &mut Leg,
        course: &mut Course<'_>,
    ) -> Result<(), Fault> {
        let link = leg.link().clone();
        let Some(task) = leg.followed() else {
            return Ok(());
        };
        let asked = link.request(about(&task.id, "tasks/result"), Vec::new());
        let mut exchange = asked
            .await
            .map_err(|fault| Fault::after_sending(fault.what))?;
        exchange.tolerates(self.tolerance);
        *course.sent = Some((link.clone(), exchange.id.clone()));
        if !self.waiting.on(&link, &exchange.id) {
            return Err(Fault::after_sending("the agent cancelled the request"));
        }
        if outbound.changes {
            exchange.keeps(&link);
        }
        exchange.read_aside();
        leg.request.exchange = exchange;
        Ok(())
    }

    /// The same once more, after `fault`: a result may be asked for often.
    pub(super) async fn followed_again(
        &self,
        outbound: &Outbound<'_>,
        leg: &mut Leg,
        course: &mut Course<'_>,
        fault: Fault,
    ) -> Result<(), Fault> {
        let own = leg.own.as_mut();
        let Some(task) = own.and_then(|own| own.followed.as_mut()) else {
            return Err(fault);
        };
        task.breaks += 1;
        let breaks = task.breaks;
        let is_answered = fault.sent == Sent::Answered;
        if is_answered || breaks > MAX_RESULT_BREAKS || leg.link().is_over() {
            return Err(of_round(course.rounds, fault));
        }
        tracing::info!(server = %outbound.server, %fault, "the result of a task is asked for again");
        tokio::time::sleep(RESULT_PAUSE).await;
        self.followed(outbound, leg, course).await
    }

    /// Whether an error in place of the result of a followed task is what it ended with: only if the
    /// server says that it has failed. One that has completed has a result, which may be asked for
    /// again. How one ended that the server does not know, or still works on, nobody knows.
    pub(super) async fn has_failed(&self, leg: &Leg) -> Result<bool, Fault> {
        let Some(task) = leg.followed() else {
            return Ok(true);
        };
        let asked = leg.link().request(about(&task.id, "tasks/get"), Vec::new());
        let answered = async { asked.await?.answer().await };
        let standing = match tokio::time::timeout(STANDING_TIMEOUT, answered).await {
            Ok(Ok(answer)) if !answer.is_error => answer.body,
            Ok(Ok(_) | Err(_)) | Err(_) => None,
        };
        match standing.as_ref().map(TaskStatus::of) {
            Some(TaskStatus::Failed | TaskStatus::Cancelled) => Ok(true),
            Some(TaskStatus::Completed) => Ok(false),
            Some(TaskStatus::Working | TaskStatus::InputRequired) | None => {
                let words = "the tool server gives no result of a task, nor says that it has ended";
                Err(Fault::after_sending(words))
            }
        }
    }

    /// What an agent of 2026-07-28 asks of a task that it holds at a legacy server.
    pub(super) async fn of_legacy_task(
        &self,
        outbound: &Outbound<'_>,
    ) -> Result<ExchangeOutcome, Fault> {
        let Outbound {
            server, message, ..
        } = *outbound;
        let params = message.body.as_ref();
        let id = params.and_then(|params| params.get("taskId"));
        let id = id.ok_or_else(|| Fault::unsent("the request names no task"))?;
        let key = HeldTaskKey::of(self.caller, server, &id);
        let held = self.links.servers().tasks();
        let reached = match held.link(&key) {
            Some(reached) if !reached.is_over() => reached,
            Some(_) | None => {
                let meta = params.and_then(|params| params.get("_meta"));
                let (caller, meta) = (self.caller, meta.as_ref());
                let reached = self.links.link(server, Asker { caller, meta }).await;
                reached.map_err(Fault::before_sending)?
            }
        };
        if message.method == "tasks/update" {
            self.answer_task(&key, params).await;
            return Ok(ExchangeOutcome::Answer(acknowledged()));
        }
        let asked = about(&id, &message.method);
        let answer = reached
            .link
            .request(asked, Vec::new())
            .await?
            .answer()
            .await?;
        if answer.is_error {
            return Ok(ExchangeOutcome::Answer(answer));
        }
        if message.method == "tasks/cancel" {
            held.end(&key);
            return Ok(ExchangeOutcome::Answer(acknowledged()));
        }
        let standing = answer.body.unwrap_or_else(|| Object::new().text());
        let told = self.standing_of(outbound, &key, reached, &standing).await;
        told.map_err(|fault| of_round(1, fault))
    }

    /// How a task stands, with what it asks or has ended with.
    async fn standing_of(
        &self,
        outbound: &Outbound<'_>,
        key: &HeldTaskKey,
        reached: ReachedLink,
        standing: &Text,
    ) -> Result<ExchangeOutcome, Fault> {
        let mut told = task_to_modern(standing);
        let status = TaskStatus::of(standing);
        let patience = match status {
            TaskStatus::Completed | TaskStatus::Failed => RESULT_TIMEOUT,
            TaskStatus::InputRequired => QUESTION_TIMEOUT,
            TaskStatus::Working | TaskStatus::Cancelled => Duration::ZERO,
        };
        if !patience.is_zero() {
            let result = Box::pin(self.result_of(outbound, key, reached, patience));
            match result.await? {
                AskedResult::Gone => return Ok(ExchangeOutcome::Gone(Sent::Maybe)),
                // Of a task that has not failed an error says nothing: its result is still there.
                AskedResult::Answer(ended) if ended.is_error && status != TaskStatus::Failed => {
                    return Err(Fault::after_sending(NO_RESULT));
                }
                AskedResult::Answer(ended) => {
                    self.links.servers().tasks().end(key);
                    with_ending(&mut told, &to_modern_agent("tools/call", ended));
                }
                AskedResult::Waits(requests) if status == TaskStatus::InputRequired => {
                    told.set("inputRequests", requests);
                }
                AskedResult::Waits(_) => return Err(Fault::after_sending(NO_RESULT)),
            }
        }
        told.set("resultType", Text::string("complete"));
        let told = Message::response(None, told.text(), false);
        Ok(ExchangeOutcome::Answer(told))
    }

    /// The result of a task, or what it asks first. The request for it stays open for the next who
    /// wants to know.
    async fn result_of(
        &self,
        outbound: &Outbound<'_>,
        key: &HeldTaskKey,
        reached: ReachedLink,
        patience: Duration,
    ) -> Result<AskedResult, Fault> {
        let held = self.links.servers().tasks();
        if held.link(key).is_none_or(|known| known.is_over()) {
            let mut kept = reached.clone();
            if !self.links.servers().callers().pin(&mut kept) {
                return Err(Fault::after_sending(TOO_MANY_WAIT));
            }
            held.hold(key.clone(), kept);
        }
        // Another request about the task waits here until this one knows what is asked.
        let mut place = held.open(key).unwrap_or_default().lock_owned().await;
        let open = match place.take() {
            Some(open) => open,
            None => opened(outbound, reached.clone()).await?,
        };
        let mut listened = ListenedResult::of(place, open, outbound);
        let until = tokio::time::sleep(patience).deadline();
        // A task that has ended waits for no answer any more, and its result may be asked for again.
        let has_ended = patience > QUESTION_TIMEOUT;
        let (mut may_reopen, mut is_late) = (has_ended, false);
        loop {
            if has_ended {
                listened.refuse(until).await;
            }
            // At most what one leg asks at once is kept: while there is any, no more is listened for.
            if is_late || !listened.questions.is_empty() {
                break;
            }
            match self.listen(outbound, &mut listened, until).await {
                Ok(Some(CarriedLeg::Answer(answer))) => {
                    listened.end();
                    return Ok(AskedResult::Answer(answer));
                }
                Ok(Some(CarriedLeg::Gone(_))) => return Ok(AskedResult::Gone),
                Ok(Some(CarriedLeg::Asked(asked))) => listened.ask(asked),
                Ok(None) => {
                    listened.ask_all();
                    is_late = true;
                }
                Err(fault) => {
                    listened.ask_all();
                    // Answers to what was asked have another way; there is nothing else to hear.
                    if has_ended || listened.questions.is_empty() {
                        listened.end();
                    }
                    if !std::mem::take(&mut may_reopen) {
                        return Err(fault);
                    }
                    listened.resume(opened(outbound, reached.clone()).await?, outbound);
                }
            }
        }
        let questions = listened.questions.iter();
        let shown = questions.map(|asked| (&*asked.key, &asked.question));
        Ok(AskedResult::Waits(input_requests(shown)))
    }

    /// What comes of listening until then; none if nothing does.
    async fn listen(
        &self,
        outbound: &Outbound<'_>,
        listened: &mut ListenedResult,
        until: Instant,
    ) -> Result<Option<CarriedLeg>, Fault> {
        let Some(leg) = &mut listened.leg else {
            return Ok(None);
        };
        let carried = tokio::time::timeout_at(until, self.carry(outbound, leg)).await;
        carried.map_or(Ok(None), |carried| carried.map(Some))
    }

    /// Hands the agent's answers to the server, on the link on which it asked; questions without one
    /// go on waiting.
    async fn answer_task(&self, key: &HeldTaskKey, params: Option<&Text>) {
        let Some(place) = self.links.servers().tasks().open(key) else {
            return;
        };
        let answers = params.and_then(|params| params.get("inputResponses"));
        let (mut told, mut link) = (Vec::new(), None);
        if let Some(open) = place.lock().await.as_mut() {
            link = Some(open.reached.link.clone());
            for asked in std::mem::take(&mut open.questions) {
                let answer = answers.as_ref().and_then(|answers| answers.get(&asked.key));
                match answer {
                    Some(answer) => told.push(asked.answered(answer, open.reached.link.revision)),
                    None => open.questions.push(asked),
                }
            }
        }
        let Some(link) = link else { return };
        // What was taken from the questions is told, also if the agent leaves now.
        let told = tasks::spawn("answers of a task's agent", async move {
            for answer in told {
                tell(&link, answer).await;
            }
        });
        drop(told.await);
    }
}

/// The open request for the result of a task, while it is listened to. Whatever ends that, what is asked
/// there is kept for the next request about the task.
struct ListenedResult {
    place: OwnedMutexGuard<Option<OpenResult>>,
    /// None once there is nothing more to listen to.
    leg: Option<Leg>,
    questions: Vec<TaskQuestion>,
}

impl ListenedResult {
    fn of(
        place: OwnedMutexGuard<Option<OpenResult>>,
        open: OpenResult,
        outbound: &Outbound<'_>,
    ) -> Self {
        let mut listened = Self {
            place,
            leg: None,
            questions: Vec::new(),
        };
        listened.resume(open, outbound);
        listened
    }

    /// From now on this is listened to.
    fn resume(&mut self, open: OpenResult, outbound: &Outbound<'_>) {
        let OpenResult {
            reached,
            exchange,
            asides,
            questions,
        } = open;
        let own = OwnLeg {
            asides,
            asked: outbound.message.body.clone(),
            ..OwnLeg::default()
        };
        self.leg = Some(Leg {
            request: Box::new(SentRequest { reached, exchange }),
            own: Some(Box::new(own)),
        });
        self.questions = questions;
    }

    /// The task asks this, under names that no other of its questions has.
    fn ask(&mut self, asked: Vec<Message>) {
        let fresh = asked.into_iter().map(|question| TaskQuestion {
            key: format!("question-{}", unguessable()),
            question,
        });
        self.questions.extend(fresh);
    }

    /// The task asks what was read so far.
    fn ask_all(&mut self) {
        let asked = self.leg.as_mut().map(Leg::take_questions);
        self.ask(asked.unwrap_or_default());
    }

    /// Refuses what is asked: no answer comes. A server that takes long to read it holds nothing up
    /// after that time.
    async fn refuse(&mut self, until: Instant) {
        let asked = std::mem::take(&mut self.questions);
        if let (Some(leg), false) = (&self.leg, asked.is_empty()) {
            let asked = asked.into_iter().map(|asked| asked.question).collect();
            let told = refused(leg.link().clone(), asked);
            let told = tasks::spawn("questions of a task that has ended", told);
            drop(tokio::time::timeout_at(until, told).await);
        }
    }

    /// There is nothing more to hear.
    fn end(&mut self) {
        self.take().into_iter().for_each(OpenResult::let_go);
    }

    fn take(&mut self) -> Option<OpenResult> {
        self.ask_all();
        let Leg { request, own } = self.leg.take()?;
        let SentRequest { reached, exchange } = *request;
        Some(OpenResult {
            reached,
            exchange,
            asides: own.and_then(|own| own.asides),
            questions: std::mem::take(&mut self.questions),
        })
    }
}

impl Drop for ListenedResult {
    fn drop(&mut self) {
        *self.place = self.take();
    }
}

/// Asks for the result of a task, which the server may leave open until there is one.
async fn opened(outbound: &Outbound<'_>, reached: ReachedLink) -> Result<OpenResult, Fault> {
    let params = outbound.message.body.as_ref();
    let id = params.and_then(|params| params.get("taskId"));
    let id = id.unwrap_or_else(|| Object::new().text());
    let asked = about(&id, "tasks/result");
    let mut exchange = reached.link.request(asked, Vec::new()).await?;
    exchange.read_aside();
    Ok(OpenResult {
        exchange,
        asides: reached
            .legacy()
            .map(|own| own.questions(AskedAbout::Task(id.as_bytes().to_vec()))),
        reached,
        questions: Vec::new(),
    })
}

fn about(id: &Text, method: &str) -> Message {
    let params = Text::members_of(&[("taskId", id.clone())]);
    Message::request(0, method, Some(params))
}

fn acknowledged() -> Message {
    let result = Text::of(&json!({ "resultType": "complete" }));
    Message::response(None, result, false)
}

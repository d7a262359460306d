//! Tasks of a server of 2026-07-28, for an agent of a legacy session (protocol §6.3): a call that
//! became one is waited for in the agent's place, and what the agent asks of one that it holds is
//! asked in the words of the other era.

use super::asking::{QuestionAnswers, Unanswered, unanswerable};
use super::leg::of_round;
use super::{ExchangeContext, ExchangeOutcome, Outbound};
use crate::mcp::bridge::{TaskStatus, modern_task_of, related_to, to_legacy_agent};
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use crate::model::ids::ServerName;
use crate::model::reply::{Fault, Sent};
use crate::telemetry::tasks;
use crate::upstream::caller_links::Asker;
use crate::upstream::keeper::asks_too_much;
use crate::upstream::link::Link;
use crate::upstream::links::{BridgeTerms, Sending};
use crate::upstream::owners::Shaping;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// How long toolgate waits before it asks after a task again, if the server does not say.
const POLL_PAUSE: Duration = Duration::from_secs(1);
/// The least and the most that it waits, whatever the server says.
const MIN_POLL_PAUSE: Duration = Duration::from_millis(50);
const MAX_POLL_PAUSE: Duration = Duration::from_secs(5);
/// Times in a row that a server may leave without an answer how a task stands.
const MAX_UNANSWERED_POLLS: u32 = 60;
/// Times that the agent's answers are brought to the server.
const UPDATE_ATTEMPTS: u32 = 5;
/// How long it may take to say so.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Questions of one task, over its whole life.
const MAX_TASK_QUESTIONS: usize = 64;

/// Why a question of a task is not put to its agent.
const UNSEEN: &str = "calls of this tool are held until people decide on them, and what is brought to its task later cannot be: the task is cancelled, \
                      and what it had done by then stays done";

/// A task at a server of 2026-07-28, and what waits for it.
struct WaitedTask<'a> {
    server: &'a ServerName,
    link: &'a Arc<Link>,
    id: Text,
    /// Names the task to the agent, which holds it.
    related: Option<Text>,
    /// What the agent asked.
    message: &'a Message,
    /// Names of questions that the agent was asked.
    asked: Vec<String>,
    /// Pages that its person has agreed to open.
    pages: Vec<Text>,
}

/// What came of a task's questions.
enum TaskTurn {
    /// The server has the answers, or asks nothing new.
    GoesOn,
    /// It ends here, with this answer.
    Ended(Message),
    /// The agent has gone.
    Gone,
}

/// Cancels a task that its agent does not wait for any more, unless it is disarmed.
#[derive(Default)]
pub(super) struct AbandonedTask(pub(super) Option<(Arc<Link>, Message)>);

impl AbandonedTask {
    /// Of a legacy server's.
    pub(super) fn at(link: &Arc<Link>, id: &Text) -> Self {
        let params = Text::members_of(&[("taskId", id.clone())]);
        let message = Message::request(0, "tasks/cancel", Some(params));
        Self(Some((link.clone(), message)))
    }
}

impl Drop for AbandonedTask {
    fn drop(&mut self) {
        let Some((link, message)) = self.0.take() else {
            return;
        };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        tasks::spawn("cancelling of a task", async move {
            let cancelled = async { link.request(message, Vec::new()).await?.answer().await };
            if !matches!(
                tokio::time::timeout(POLL_TIMEOUT, cancelled).await,
                Ok(Ok(_))
            ) {
                tracing::debug!("a tool server did not take the cancelling of a task");
            }
        });
    }
}

impl ExchangeContext<'_> {
    /// The last answer of a call: of one that became a task which its agent has not asked for, what
    /// the task ends with; none if the agent has gone. The call is never sent again for it.
    pub(super) async fn task_waited_for(
        &self,
        outbound: &Outbound<'_>,
        link: &Arc<Link>,
        answer: Message,
    ) -> Result<Option<Message>, Fault> {
        let message = outbound.message;
        let Some(revision) = self.links.legacy_revision() else {
            return Ok(Some(answer));
        };
        let is_plain = message.method == "tools/call" && answer.odd.is_none();
        let params = message.body.as_ref();
        let wants = revision >= Revision::V2025_11_25
            && params.is_some_and(|params| params.get("task").is_some());
        let Some(task) = modern_task_of(&answer).filter(|_| is_plain && !wants) else {
            return Ok(Some(answer));
        };
        let mut waited = WaitedTask {
            server: outbound.server,
            link,
            id: task.get("taskId").unwrap_or_else(|| Object::new().text()),
            related: None,
            message,
            asked: Vec::new(),
            pages: Vec::new(),
        };
        // What changes something is not taken back because nobody waits for it.
        let cancel = (!outbound.changes).then(|| {
            let message = self.about(&waited, "tasks/cancel", None);
            (link.clone(), message)
        });
        let mut abandoned = AbandonedTask(cancel);
        let ended = self.end_of(&mut waited, Some(task)).await?;
        let Some(ended) = ended else { return Ok(None) };
        abandoned.0 = None;
        self.pages_done(waited.pages, &ended).await;
        // An error of a task does not say that the call did nothing, whatever its code means.
        let error = ended.body.as_ref().filter(|_| ended.is_error);
        let words = error.map(|error| words_of(error.get("message").as_ref()));
        Ok(Some(match words {
            Some(words) => unanswerable(message, &answer, &words),
            None => Message {
                id: answer.id,
                ..ended
            },
        }))
    }

    /// What an agent of a legacy session asks of a task that it holds at a server of 2026-07-28.
    pub(super) async fn of_modern_task(
        &self,
        outbound: &Outbound<'_>,
        revision: Revision,
    ) -> Result<ExchangeOutcome, Fault> {
        let Outbound {
            server, message, ..
        } = *outbound;
        let asker = Asker {
            caller: self.caller,
            meta: None,
        };
        let reached = self.links.link(server, asker).await;
        let reached = reached.map_err(Fault::before_sending)?;
        let id = message
            .body
            .as_ref()
            .and_then(|params| params.get("taskId"));
        let id = id.ok_or_else(|| Fault::unsent("the request names no task"))?;
        let mut waited = WaitedTask {
            server,
            link: &reached.link,
            related: Some(id.clone()),
            id,
            message,
            asked: Vec::new(),
            pages: Vec::new(),
        };
        if message.method == "tasks/result" {
            let Some(ended) = self.end_of(&mut waited, None).await? else {
                return Ok(ExchangeOutcome::Gone(Sent::Maybe));
            };
            self.pages_done(std::mem::take(&mut waited.pages), &ended)
                .await;
            let told = to_legacy_agent("tools/call", ended, revision);
            let body = told.body.as_ref().filter(|_| !told.is_error);
            let body = body.map(|result| related_to(&waited.id, result));
            return Ok(ExchangeOutcome::Answer(Message {
                body: body.or_else(|| told.body.clone()),
                ..told
            }));
        }
        if message.method == "tasks/cancel" {
            let cancelled = self.ask_about(&waited, "tasks/cancel", None).await?;
            if cancelled.is_error {
                return Ok(ExchangeOutcome::Answer(cancelled));
            }
        }
        let cancelled = u32::from(message.method == "tasks/cancel");
        let standing = self.ask_about(&waited, "tasks/get", None).await;
        let standing = standing.map_err(|fault| of_round(cancelled, fault))?;
        let told = to_legacy_agent(&message.method, standing, revision);
        Ok(ExchangeOutcome::Answer(told))
    }

    /// Asks after a task until it ends, and puts its questions to the agent meanwhile; the answer
    /// that it ends with, or none if the agent has gone. `standing`: how it stood when it was made.
    async fn end_of(
        &self,
        waited: &mut WaitedTask<'_>,
        standing: Option<&Text>,
    ) -> Result<Option<Message>, Fault> {
        let mut pause = standing.map(pause_of);
        let mut unanswered = 0;
        loop {
            if let Some(pause) = pause {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.gone_for_good(), if self.stop_when_gone => return Ok(None),
                }
            }
            let asked = tokio::select! {
                asked = self.ask_about(waited, "tasks/get", None) => asked,
                () = self.gone_for_good(), if self.stop_when_gone => return Ok(None),
            };
            let standing = match asked {
                Ok(answer) if answer.is_error => {
                    let words = "the tool server knows no such task any more";
                    return Err(Fault::after_sending(words));
                }
                Ok(answer) => answer,
                Err(fault) if unanswered < MAX_UNANSWERED_POLLS && fault.sent != Sent::Answered => {
                    unanswered += 1;
                    pause = Some(POLL_PAUSE);
                    continue;
                }
                Err(fault) => return Err(Fault::after_sending(fault.what)),
            };
            unanswered = 0;
            let Some(task) = &standing.body else { continue };
            pause = Some(pause_of(task));
            match TaskStatus::of(task) {
                TaskStatus::Working => {}
                TaskStatus::InputRequired => match self.answered_task(waited, task).await? {
                    TaskTurn::GoesOn => {}
                    TaskTurn::Ended(answer) => return Ok(Some(answer)),
                    TaskTurn::Gone => return Ok(None),
                },
                ended @ (TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled) => {
                    return ended_with(ended, task).map(Some);
                }
            }
        }
    }

    /// Puts what a task asks to the agent and hands on its answers.
    async fn answered_task(
        &self,
        waited: &mut WaitedTask<'_>,
        task: &Text,
    ) -> Result<TaskTurn, Fault> {
        let mut fresh = Object::new();
        let requests = task.get("inputRequests");
        let requests = requests.iter().filter_map(Text::members).flatten();
        for (key, question) in requests.take(MAX_TASK_QUESTIONS + 1) {
            if !waited.asked.iter().any(|asked| *asked == key) {
                waited.asked.push(key.to_string());
                fresh.set(&key, question);
            }
        }
        if fresh.iter().next().is_none() {
            return Ok(TaskTurn::GoesOn);
        }
        let asks = Text::members_of(&[("inputRequests", fresh.text())]);
        let asks = Message::response(None, asks, false);
        let keeper = &**self.links.servers().keeper();
        let wire = waited.link.revision.as_str();
        let unheard = asks_too_much(keeper, self.caller, waited.server, wire, &asks);
        let too_many = waited.asked.len() > MAX_TASK_QUESTIONS;
        // What a person has allowed is the call; what its agent brings to a task of it is no round.
        let is_unseen = waited.related.is_some() && self.shaping.is_some_and(Shaping::is_held);
        let put = match unheard {
            Some(words) => Err(Unanswered::Ends(words)),
            None if is_unseen => Err(Unanswered::Ends(UNSEEN)),
            None if too_many => Err(Unanswered::Ends("the task asked more often than one may")),
            None => self.put(&fresh, waited.related.as_ref()).await,
        };
        let QuestionAnswers { answers, pages } = match put {
            Ok(put) => put,
            Err(Unanswered::Gone) => return Ok(TaskTurn::Gone),
            Err(Unanswered::Ends(words)) => {
                // Nobody will answer it: the task would wait for ever.
                drop(self.ask_about(waited, "tasks/cancel", None).await);
                let ended = unanswerable(waited.message, &asks, words);
                return Ok(TaskTurn::Ended(ended));
            }
        };
        waited.pages.extend(pages);
        let answers = answers.text();
        for _ in 0..UPDATE_ATTEMPTS {
            // The same answers twice are one answer: the server knows its questions by name.
            let told = self.ask_about(waited, "tasks/update", Some(&answers)).await;
            if told.is_ok() {
                return Ok(TaskTurn::GoesOn);
            }
            tokio::time::sleep(POLL_PAUSE).await;
        }
        Err(Fault::after_sending(
            "the tool server did not take the agent's answers",
        ))
    }

    /// Asks the server something about a task, in its own words.
    async fn ask_about(
        &self,
        waited: &WaitedTask<'_>,
        method: &str,
        answers: Option<&Text>,
    ) -> Result<Message, Fault> {
        let message = self.about(waited, method, answers);
        let asked = async {
            waited
                .link
                .request(message, Vec::new())
                .await?
                .answer()
                .await
        };
        let answer = tokio::time::timeout(POLL_TIMEOUT, asked).await;
        answer.unwrap_or_else(|_| {
            Err(Fault::after_sending(
                "it did not answer about a task in time",
            ))
        })
    }

    fn about(&self, waited: &WaitedTask<'_>, method: &str, answers: Option<&Text>) -> Message {
        let mut params = Object::new();
        params.set("taskId", waited.id.clone());
        if let Some(answers) = answers {
            params.set("inputResponses", answers.clone());
        }
        let message = &Message::request(0, method, Some(params.text()));
        let sending = Sending {
            caller: self.caller,
            message,
            params: &[],
            changes: false,
            terms: BridgeTerms::default(),
            departure: None,
        };
        self.links
            .stamped_round(waited.server, waited.link, sending)
    }
}

/// The answer that a task has ended with.
fn ended_with(status: TaskStatus, task: &Text) -> Result<Message, Fault> {
    let none = || Fault::after_sending("a task ended without the result that it has to have");
    match status {
        TaskStatus::Completed => {
            let mut result = task
                .get("result")
                .and_then(|result| result.object())
                .ok_or_else(none)?;
            // A task's result is its last word: it cannot ask for another round of the call.
            result.set("resultType", Text::string("complete"));
            Ok(Message::response(None, result.text(), false))
        }
        TaskStatus::Failed => {
            let error = task.get("error").filter(Text::is_object).ok_or_else(none)?;
            Ok(Message::response(None, error, true))
        }
        TaskStatus::Cancelled | TaskStatus::Working | TaskStatus::InputRequired => {
            let said = words_of(task.get("statusMessage").as_ref());
            let words =
                format!("the task was cancelled; what it had done by then stays done. {said}");
            Ok(Message::error(None, INTERNAL_ERROR, words.trim_end(), None))
        }
    }
}

fn words_of(text: Option<&Text>) -> String {
    let words = text.and_then(Text::as_str);
    words.map(Cow::into_owned).unwrap_or_default()
}

fn pause_of(task: &Text) -> Duration {
    let asked = task.get("pollIntervalMs");
    let asked = asked.and_then(|pause| pause.value().as_u64());
    asked
        .map_or(POLL_PAUSE, Duration::from_millis)
        .clamp(MIN_POLL_PAUSE, MAX_POLL_PAUSE)
}

//! A call that waits as a task, from its first question to its end: what its server says meanwhile
//! is read here, for no request of the agent's is open.

use super::tellings::{Telling, Tellings, ToldBatch};
use super::watch::SessionWatch;
use super::{MAX_TASK_TIME, TaskEnd, TaskOrder, TaskRoom, TaskStanding};
use crate::mcp::bridge::to_modern_agent;
use crate::mcp::error_codes::{INTERNAL_ERROR, METHOD_NOT_FOUND};
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use crate::upstream::Inbound;
use crate::upstream::caller_links::{CallerLink, QuestionInbox, ReachedLink};
use crate::upstream::keeper::{ServerMessage, ServerMessagePolicy, Unheard, hears};
use crate::upstream::legacy_tasks::TaskQuestion;
use crate::upstream::link::{Tolerance, UpstreamExchange};
use crate::upstream::questions::refusal;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

/// How long a task waits for answers while its agent does not ask after it.
const FORGOTTEN_TIMEOUT: Duration = Duration::from_mins(5);
/// How long a server may take to answer a call that it hears is no longer waited for.
const LAST_WORD_TIMEOUT: Duration = Duration::from_secs(2);
/// Said of a question that two readers could read differently.
const UNREADABLE: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "the request cannot be read alike by all",
};

/// Who says what may be asked of whom.
pub(crate) struct TaskQuestioner {
    /// Who is asked.
    pub(crate) caller: Caller,
    /// Who asks.
    pub(crate) server: ServerName,
    /// Who stands between them.
    pub(crate) keeper: Arc<dyn ServerMessagePolicy>,
    /// What is let pass of what the strict reader refuses.
    pub(crate) tolerance: Tolerance,
}

/// The call of a task.
pub(crate) struct TaskRun {
    /// Who is asked, and by whom.
    pub(crate) questioner: TaskQuestioner,
    /// Where the call was sent.
    pub(crate) reached: ReachedLink,
    /// What the server will answer it with.
    pub(crate) exchange: UpstreamExchange,
    /// Where further questions arrive.
    pub(crate) asides: Option<QuestionInbox>,
    /// May it have changed something?
    pub(crate) changes: bool,
    /// How long nothing may be heard of the server before it is asked whether it knows the session.
    pub(crate) ping_after: Duration,
}

/// How long a task has.
struct TaskTime {
    /// In all.
    last: Pin<Box<Sleep>>,
    /// Until it counts as forgotten, while it asks something.
    forgotten: Pin<Box<Sleep>>,
}

impl TaskTime {
    fn new() -> Self {
        Self {
            last: Box::pin(sleep(MAX_TASK_TIME)),
            forgotten: Box::pin(sleep(FORGOTTEN_TIMEOUT)),
        }
    }

    /// If so, its agent has as long as from the first question on.
    fn begins(&mut self, anew: bool) {
        if anew {
            self.forgotten = Box::pin(sleep(FORGOTTEN_TIMEOUT));
        }
    }
}

/// What a task hears next.
enum TaskEvent {
    Said(Result<Option<Inbound>, Fault>),
    Asked(Message),
    Ordered(TaskOrder),
    /// The server has taken what it was told, or has not.
    Told(ToldBatch),
    /// The server no longer knows the session in which the call waits.
    Unknown,
    Forgotten,
}

/// What a task listens to beside its agent's orders.
struct TaskEars {
    time: TaskTime,
    watch: SessionWatch,
    tellings: Tellings,
}

impl TaskQuestioner {
    /// Whether the agent can be asked this; if not, what the server reads instead.
    fn lets_ask(&self, own: &CallerLink, question: &Message) -> Result<(), Message> {
        if !own.may_ask(question) {
            return Err(own.declined(question));
        }
        let spoken = ServerMessage {
            caller: &self.caller,
            server: &self.server,
            revision: own.link.revision.as_str(),
            message: question,
        };
        let is_odd = question.odd.is_some() && self.tolerance != Tolerance::Everything;
        let heard = if is_odd {
            Err(UNREADABLE)
        } else {
            hears(&*self.keeper, &spoken)
        };
        heard.map_err(|unheard| refusal(question, unheard))
    }
}

impl TaskRun {
    /// Goes on with the call until it ends.
    pub(crate) fn start(self, room: TaskRoom) {
        tasks::spawn("parked task", self.run(room));
    }

    async fn run(mut self, mut room: TaskRoom) {
        let mut ears = TaskEars {
            time: TaskTime::new(),
            watch: SessionWatch::of(&self.reached, self.ping_after),
            tellings: Tellings::at(&self.reached.link),
        };
        let end = self.ended(&mut room, &mut ears).await;
        let open = questions_of(&room).into_iter().map(|asked| asked.question);
        let unread = open.chain(self.unread()).map(nobody_answers).collect();
        let TaskRoom {
            all,
            id,
            standing,
            orders,
            ending,
        } = room;
        if let TaskEnd::Lost(fault) = &end {
            tracing::warn!(server = %self.questioner.server, %fault, "a call that waited as a task is given up");
        }
        let proof = end.proof();
        *standing.lock() = TaskStanding::Ended(end);
        all.end(&id);
        drop(ending.send(proof));
        // How it ended is known now; what the server is still told makes nobody wait.
        ears.tellings.add(unread);
        ears.tellings.finish().await;
        drop(orders);
    }

    async fn ended(&mut self, room: &mut TaskRoom, ears: &mut TaskEars) -> TaskEnd {
        loop {
            let is_asked = is_asked(room);
            match self.next(&mut room.orders, ears, is_asked).await {
                TaskEvent::Said(said) => {
                    if let Some(end) = self.answered(said, room, &mut ears.tellings) {
                        return end;
                    }
                    ears.time.begins(!is_asked);
                }
                TaskEvent::Asked(question) => {
                    self.asks(&question, room, &mut ears.tellings);
                    ears.time.begins(!is_asked);
                }
                TaskEvent::Ordered(TaskOrder::Look) => ears.time.begins(true),
                TaskEvent::Ordered(TaskOrder::Answer(answers, done)) => {
                    let told = self.takes(&answers, room);
                    ears.tellings.answer(told, done);
                    ears.time.begins(true);
                }
                TaskEvent::Ordered(TaskOrder::Cancel) => {
                    let why = "the agent cancelled the task";
                    let ended = self.stops(why, room, &mut ears.tellings).await;
                    return ended.unwrap_or(TaskEnd::Cancelled);
                }
                TaskEvent::Ordered(TaskOrder::Close) => {
                    return self.lost("toolgate ends", room, ears).await;
                }
                TaskEvent::Forgotten => {
                    let why = "nobody answered what it asked";
                    return self.lost(why, room, ears).await;
                }
                TaskEvent::Unknown => {
                    let why = "the tool server no longer knows the session of the call";
                    return self.lost(why, room, ears).await;
                }
                // What does not arrive may have gone to a session that is no more.
                TaskEvent::Told(mut told) => {
                    ears.watch.doubts(!told.has_arrived);
                    asks_again(room, &mut told.open);
                    told.note();
                }
            }
        }
    }

    /// Whatever a task waits for is waited for here, so that its agent's orders and the end of
    /// toolgate come through at any time.
    async fn next(
        &mut self,
        orders: &mut mpsc::Receiver<TaskOrder>,
        ears: &mut TaskEars,
        is_asked: bool,
    ) -> TaskEvent {
        let TaskEars {
            time,
            watch,
            tellings,
        } = ears;
        let aside = async {
            match &mut self.asides {
                Some(asides) => asides.recv().await,
                None => std::future::pending().await,
            }
        };
        // A server that takes no answers is not listened to: each question would be one more.
        let listens = !tellings.is_full();
        tokio::select! {
            biased;
            Some(order) = orders.recv() => TaskEvent::Ordered(order),
            () = &mut time.forgotten, if is_asked => TaskEvent::Forgotten,
            () = &mut time.last => TaskEvent::Forgotten,
            told = tellings.next() => TaskEvent::Told(told),
            () = watch.lost() => TaskEvent::Unknown,
            said = self.exchange.next(), if listens => TaskEvent::Said(said),
            Some(question) = aside, if listens => TaskEvent::Asked(question),
        }
    }

    /// How the call ends by what its server said, if it does.
    fn answered(
        &self,
        said: Result<Option<Inbound>, Fault>,
        room: &TaskRoom,
        tellings: &mut Tellings,
    ) -> Option<TaskEnd> {
        let message = match said {
            Err(fault) => return Some(TaskEnd::Lost(fault.of_later())),
            Ok(None) => {
                let words = "the tool server closed the exchange without an answer";
                return Some(TaskEnd::Lost(Fault::after_sending(words)));
            }
            // The reader of the exchange waits as long as the server wants it to.
            Ok(Some(Inbound::Comment(_) | Inbound::Interrupted(_))) => return None,
            Ok(Some(Inbound::Message(message))) => message,
        };
        match message.kind {
            MessageKind::Response => Some(self.proven(message)),
            MessageKind::Request => {
                self.asks(&message, room, tellings);
                None
            }
            // No request of the agent's is open that would read it.
            MessageKind::Notification => None,
        }
    }

    fn proven(&self, answer: Message) -> TaskEnd {
        // An error that names no request may be about any.
        if self.changes && answer.id.as_ref() != Some(&self.exchange.id) {
            let words = "the tool server answered with an error that names no request";
            return TaskEnd::Lost(self.exchange.unanswered(words));
        }
        if let Some(odd) = &answer.odd
            && self.questioner.tolerance != Tolerance::Everything
        {
            return TaskEnd::Lost(Fault::unreadable(odd.what));
        }
        TaskEnd::Answered(to_modern_agent("tools/call", answer))
    }

    fn asks(&self, question: &Message, room: &TaskRoom, tellings: &mut Tellings) {
        let Some(own) = self.reached.legacy() else {
            return;
        };
        let kept = self.questioner.lets_ask(own, question).and_then(|()| {
            let kept = room.all.keep(&room.id, question);
            kept.map_err(|unheard| refusal(question, unheard))
        });
        if let Err(refused) = kept {
            tellings.add(vec![refused]);
        }
    }

    /// The answers as the server reads them; a question without one goes on waiting.
    fn takes(&self, answers: &Text, room: &TaskRoom) -> Vec<Telling> {
        let (mut waiting, mut told) = (Vec::new(), Vec::new());
        for asked in questions_of(room) {
            match answers.get(&asked.key) {
                Some(answer) => {
                    let revision = self.reached.link.revision;
                    told.push(Telling {
                        message: asked.clone().answered(answer, revision),
                        asked: Some(asked),
                    });
                }
                None => waiting.push(asked),
            }
        }
        asks_again(room, &mut waiting);
        told
    }

    /// Tells the server that nobody waits for the call any more; what it still answers is its end.
    async fn stops(
        &mut self,
        why: &str,
        room: &TaskRoom,
        tellings: &mut Tellings,
    ) -> Option<TaskEnd> {
        self.reached.link.cancel(&self.exchange.id, why);
        let open = questions_of(room).into_iter();
        let refused = open.map(|asked| nobody_answers(asked.question));
        tellings.add(refused.collect());
        let answer = async {
            loop {
                tokio::select! {
                    said = self.exchange.next(), if !tellings.is_full() => match said {
                        Ok(Some(Inbound::Message(said))) => match said.kind {
                            MessageKind::Response => return Some(said),
                            MessageKind::Request => tellings.add(vec![nobody_answers(said)]),
                            MessageKind::Notification => {}
                        },
                        Ok(Some(Inbound::Comment(_) | Inbound::Interrupted(_))) => {}
                        Ok(None) | Err(_) => return None,
                    },
                    told = tellings.next() => told.note(),
                }
            }
        };
        let answer = tokio::time::timeout(LAST_WORD_TIMEOUT, answer).await;
        let answer = answer.ok().flatten()?;
        match self.proven(answer) {
            TaskEnd::Cancelled => None,
            end @ (TaskEnd::Answered(_) | TaskEnd::Lost(_)) => Some(end),
        }
    }

    async fn lost(&mut self, why: &'static str, room: &TaskRoom, ears: &mut TaskEars) -> TaskEnd {
        let ended = self.stops(why, room, &mut ears.tellings).await;
        ended.unwrap_or_else(|| TaskEnd::Lost(Fault::after_sending(why)))
    }

    /// What the server has asked and nobody has read.
    fn unread(&mut self) -> Vec<Message> {
        let mut unread = self.exchange.unread();
        if let Some(asides) = &mut self.asides {
            unread.extend(asides.unread());
        }
        unread
    }
}

fn nobody_answers(question: Message) -> Message {
    let words = "the call has ended, or its agent did not come back with an answer";
    Message::error(question.id, METHOD_NOT_FOUND, words, None)
}

/// These are asked before all others, unless the task has ended.
fn asks_again(room: &TaskRoom, questions: &mut Vec<TaskQuestion>) {
    if let TaskStanding::Open(asked) = &mut *room.standing.lock() {
        asked.splice(..0, questions.drain(..));
    }
}

fn is_asked(room: &TaskRoom) -> bool {
    matches!(&*room.standing.lock(), TaskStanding::Open(asked) if !asked.is_empty())
}

/// What is asked, taken.
fn questions_of(room: &TaskRoom) -> Vec<TaskQuestion> {
    match &mut *room.standing.lock() {
        TaskStanding::Open(asked) => std::mem::take(asked),
        TaskStanding::Ended(_) => Vec::new(),
    }
}

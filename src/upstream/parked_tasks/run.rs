//! A call that waits as a task, from its first question to its end: what its server says meanwhile
//! is read here, for no request of the agent's is open.

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
use crate::upstream::caller_links::{CallerLink, ReachedLink};
use crate::upstream::keeper::{ServerMessage, ServerMessagePolicy, Unheard, hears};
use crate::upstream::legacy_tasks::TaskQuestion;
use crate::upstream::link::{Tolerance, UpstreamExchange};
use crate::upstream::parking::tell;
use crate::upstream::questions::refuse;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

/// How long a task waits for answers while its agent does not ask after it.
const FORGOTTEN_TIMEOUT: Duration = Duration::from_mins(5);
/// How long a server may take to answer a call that it hears is no longer waited for.
const LAST_WORD_TIMEOUT: Duration = Duration::from_secs(2);
/// Questions that wait for answers at once.
const MAX_QUESTIONS: usize = 64;

/// Said to a server that asks more than may be asked.
const TOO_MANY: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "too many questions wait for the agent's answers",
};
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
    pub(crate) asides: Option<mpsc::Receiver<Message>>,
    /// May it have changed something?
    pub(crate) changes: bool,
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
    Forgotten,
}

impl TaskQuestioner {
    /// Whether the agent can be asked this; if not, the server is answered here.
    async fn lets_ask(&self, own: &CallerLink, question: &Message) -> bool {
        if !own.may_ask(question) {
            own.decline(question).await;
            return false;
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
        if let Err(unheard) = heard {
            refuse(&own.link, question, unheard).await;
            return false;
        }
        true
    }
}

impl TaskRun {
    /// Goes on with the call until it ends.
    pub(crate) fn start(self, room: TaskRoom) {
        tasks::spawn("parked task", self.run(room));
    }

    async fn run(mut self, mut room: TaskRoom) {
        let end = self.ended(&mut room).await;
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
        drop(orders);
    }

    async fn ended(&mut self, room: &mut TaskRoom) -> TaskEnd {
        let mut time = TaskTime::new();
        loop {
            let is_asked = is_asked(room);
            match self.next(&mut room.orders, &mut time, is_asked).await {
                TaskEvent::Said(said) => {
                    if let Some(end) = self.answered(said, room).await {
                        return end;
                    }
                    time.begins(!is_asked);
                }
                TaskEvent::Asked(question) => {
                    self.asks(question, room).await;
                    time.begins(!is_asked);
                }
                TaskEvent::Ordered(TaskOrder::Look) => time.begins(true),
                TaskEvent::Ordered(TaskOrder::Answer(answers, done)) => {
                    self.takes(&answers, room).await;
                    time.begins(true);
                    let _ = done.send(());
                }
                TaskEvent::Ordered(TaskOrder::Cancel) => {
                    let ended = self.stops("the agent cancelled the task", room).await;
                    return ended.unwrap_or(TaskEnd::Cancelled);
                }
                TaskEvent::Ordered(TaskOrder::Close) => {
                    return self.lost("toolgate ends", room).await;
                }
                TaskEvent::Forgotten => {
                    return self.lost("nobody answered what it asked", room).await;
                }
            }
        }
    }

    async fn next(
        &mut self,
        orders: &mut mpsc::Receiver<TaskOrder>,
        time: &mut TaskTime,
        is_asked: bool,
    ) -> TaskEvent {
        let aside = async {
            match &mut self.asides {
                Some(asides) => asides.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            said = self.exchange.next() => TaskEvent::Said(said),
            Some(question) = aside => TaskEvent::Asked(question),
            Some(order) = orders.recv() => TaskEvent::Ordered(order),
            () = &mut time.forgotten, if is_asked => TaskEvent::Forgotten,
            () = &mut time.last => TaskEvent::Forgotten,
        }
    }

    /// How the call ends by what its server said, if it does.
    async fn answered(
        &mut self,
        said: Result<Option<Inbound>, Fault>,
        room: &TaskRoom,
    ) -> Option<TaskEnd> {
        let message = match said {
            Err(fault) => return Some(TaskEnd::Lost(fault.of_later())),
            Ok(None) => {
                let words = "the tool server closed the exchange without an answer";
                return Some(TaskEnd::Lost(Fault::after_sending(words)));
            }
            Ok(Some(Inbound::Interrupted(retry_ms))) => {
                tokio::time::sleep(Duration::from_millis(retry_ms)).await;
                return None;
            }
            Ok(Some(Inbound::Comment(_))) => return None,
            Ok(Some(Inbound::Message(message))) => message,
        };
        match message.kind {
            MessageKind::Response => Some(self.proven(message)),
            MessageKind::Request => {
                self.asks(message, room).await;
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

    async fn asks(&self, question: Message, room: &TaskRoom) {
        let Some(own) = self.reached.legacy() else {
            return;
        };
        if !self.questioner.lets_ask(own, &question).await {
            return;
        }
        let crowded = match &mut *room.standing.lock() {
            TaskStanding::Open(asked) if asked.len() < MAX_QUESTIONS => {
                asked.push(TaskQuestion::new(question));
                None
            }
            TaskStanding::Open(_) | TaskStanding::Ended(_) => Some(question),
        };
        if let Some(question) = crowded {
            refuse(&own.link, &question, TOO_MANY).await;
        }
    }

    /// Hands the answers on; a question without one goes on waiting.
    async fn takes(&self, answers: &Text, room: &TaskRoom) {
        let mut waiting = Vec::new();
        for asked in questions_of(room) {
            match answers.get(&asked.key) {
                Some(answer) => {
                    let link = &self.reached.link;
                    tell(link, asked.answered(answer, link.revision)).await;
                }
                None => waiting.push(asked),
            }
        }
        if let TaskStanding::Open(asked) = &mut *room.standing.lock() {
            asked.splice(..0, waiting);
        }
    }

    /// Tells the server that nobody waits for the call any more; what it still answers is its end.
    async fn stops(&mut self, why: &str, room: &TaskRoom) -> Option<TaskEnd> {
        for TaskQuestion { question, .. } in questions_of(room) {
            let words = "the agent did not come back with an answer";
            let refused = Message::error(question.id, METHOD_NOT_FOUND, words, None);
            tell(&self.reached.link, refused).await;
        }
        self.reached.link.cancel(&self.exchange.id, why);
        let answer = async {
            loop {
                match self.exchange.next().await {
                    Ok(Some(Inbound::Message(said))) if said.kind == MessageKind::Response => {
                        return Some(said);
                    }
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return None,
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

    async fn lost(&mut self, why: &'static str, room: &TaskRoom) -> TaskEnd {
        let ended = self.stops(why, room).await;
        ended.unwrap_or_else(|| TaskEnd::Lost(Fault::after_sending(why)))
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

//! Floor 1: the way back to the agent for one request.
//!
//! Most requests have one answer and nothing before it: that takes one place. A queue is made when
//! something is said on the way.

pub mod receipt;

use crate::mcp::message::Message;
use crate::mcp::sse::SseComment;
use parking_lot::Mutex;
use receipt::Receipt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Messages that wait for the agent to read them; who says more waits.
pub const OUTLET_MESSAGES_MAX: usize = 64;

/// What an agent reads for one request. Messages are boxed: a queue makes room for dozens at once.
#[derive(Debug)]
pub enum Outgoing {
    /// Keeps the stream open, and may say something that is no message.
    Comment(SseComment),
    /// The stream pauses; it can be taken up again after this many milliseconds. Legacy HTTP only.
    Interrupted(u64),
    /// A notification or a server's request.
    Message(Box<Message>),
    /// The response; nothing follows.
    Last(Box<Message>),
}

/// The agent has gone: what was said reaches nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent has gone")]
pub struct AgentLeft;

/// Where it is written. When the last of its clones is dropped, nothing more comes.
pub struct Outlet(Arc<WayBack>);

/// Where it is read. Dropped, it says that the agent has gone.
pub struct Inlet {
    way: Arc<WayBack>,
    /// What is said before the answer, once there is any.
    said: Option<mpsc::Receiver<Outgoing>>,
}

struct WayBack {
    state: Mutex<WayState>,
    left: Notify,
    /// Whether the agent has read the answer; made when that is asked for.
    receipt: OnceLock<Arc<Receipt>>,
    /// The answer was taken out.
    is_taken: AtomicBool,
}

/// Of the answer to one request, for what writes it.
#[derive(Clone)]
pub struct AnswerTicket(Arc<WayBack>);

/// Says whether anybody reads what a request brings, which is read out of its inlet all the same.
pub struct UnreadMark(Arc<WayBack>);

impl UnreadMark {
    /// Nobody has read for so long; none: the agent does, or may come back.
    pub fn set(&self, unread: Option<Duration>) {
        self.0.state.lock().unread = unread;
        self.0.left.notify_waiters();
    }
}

impl AnswerTicket {
    /// Its receipt, where the answer was taken out and its receipt is asked for.
    pub fn receipt(&self) -> Option<Arc<Receipt>> {
        let is_taken = self.0.is_taken.load(Ordering::Acquire);
        self.0.receipt.get().filter(|_| is_taken).cloned()
    }
}

struct WayState {
    outlets: usize,
    /// The agent does not wait any more.
    has_left: bool,
    /// For how long nobody had read when that was said; none while the agent reads, or may come back.
    unread: Option<Duration>,
    /// Nobody reads the answer.
    is_closed: bool,
    is_answered: bool,
    /// Where whatever is still said goes, once the agent has been answered with something else.
    next: Option<Outlet>,
    answer: Option<Box<Message>>,
    says: Option<mpsc::Sender<Outgoing>>,
    /// Until the inlet has taken it.
    said: Option<mpsc::Receiver<Outgoing>>,
    reader: Option<Waker>,
}

/// The way back for one request.
pub fn way_back() -> (Outlet, Inlet) {
    let way = Arc::new(WayBack {
        state: Mutex::new(WayState {
            outlets: 1,
            has_left: false,
            unread: None,
            is_closed: false,
            is_answered: false,
            next: None,
            answer: None,
            says: None,
            said: None,
            reader: None,
        }),
        left: Notify::new(),
        receipt: OnceLock::new(),
        is_taken: AtomicBool::new(false),
    });
    let inlet = Inlet {
        way: way.clone(),
        said: None,
    };
    (Outlet(way), inlet)
}

impl Outlet {
    /// Says the response, after all that was said on the way. Never waits: there is one. Where the
    /// agent has gone, it goes nowhere.
    pub fn answer(&self, answer: Message) {
        if let Some(next) = self.next() {
            return next.answer(answer);
        }
        let reader = {
            let mut state = self.0.state.lock();
            state.take_answer(answer).then(|| state.reader.take())
        };
        wake(reader.flatten());
    }

    /// Answers the agent with `instead`, though the work for its request goes on: whatever is said
    /// from now on, the response too, goes to the inlet. None: the agent has its response,
    /// or has gone.
    pub fn hand_over(&self, instead: Message) -> Option<Inlet> {
        let (outlet, inlet) = way_back();
        let (reader, receipt) = {
            let mut state = self.0.state.lock();
            let is_over = state.has_left || state.is_answered || state.next.is_some();
            if is_over || !state.take_answer(instead) {
                return None;
            }
            state.next = Some(outlet);
            (state.reader.take(), self.0.receipt.get())
        };
        // What the agent reads now is not the response that the receipt is of.
        if let Some(receipt) = receipt {
            receipt.void();
        }
        wake(reader);
        Some(inlet)
    }

    /// Whether the agent was answered with something else.
    pub fn is_handed_over(&self) -> bool {
        self.0.state.lock().next.is_some()
    }

    fn next(&self) -> Option<Self> {
        self.0.state.lock().next.clone()
    }

    /// Says something before the response. Waits while the agent has as much to read as it may.
    pub async fn say(&self, outgoing: Outgoing) -> Result<(), AgentLeft> {
        let says = self.says()?;
        says.send(outgoing).await.map_err(|_| AgentLeft)
    }

    /// The same for so long at most; an agent that reads nothing for so long counts as gone.
    pub async fn say_within(&self, outgoing: Outgoing, longest: Duration) -> Result<(), AgentLeft> {
        let says = self.says()?;
        let said = says.send_timeout(outgoing, longest).await;
        said.map_err(|_| AgentLeft)
    }

    /// The receipt of the response, which is not said yet. `is_relayed`: something stands between
    /// agent and toolgate.
    pub fn receipt(&self, is_relayed: bool) -> Arc<Receipt> {
        let receipt = self.0.receipt.get_or_init(|| Receipt::new(is_relayed));
        receipt.clone()
    }

    /// Ends when the agent has gone.
    pub async fn closed(&self) {
        let mut way = self.0.clone();
        loop {
            way.left().await;
            let next = way.state.lock().next.as_ref().map(|next| next.0.clone());
            match next {
                Some(next) => way = next,
                None => return,
            }
        }
    }

    /// Ends when the agent has gone, or has not come back to read for as long as it is waited for; with
    /// how long nobody had read by then.
    pub async fn unread(&self) -> Duration {
        let mut way = self.0.clone();
        loop {
            let unread = way.unread().await;
            let next = way.state.lock().next.as_ref().map(|next| next.0.clone());
            match next {
                Some(next) => way = next,
                None => return unread,
            }
        }
    }

    /// The queue, made on first use.
    fn says(&self) -> Result<mpsc::Sender<Outgoing>, AgentLeft> {
        if let Some(next) = self.next() {
            return next.says();
        }
        let (says, reader) = {
            let mut state = self.0.state.lock();
            if state.has_left {
                return Err(AgentLeft);
            }
            if let Some(says) = &state.says {
                return Ok(says.clone());
            }
            let (says, said) = mpsc::channel(OUTLET_MESSAGES_MAX);
            (state.says, state.said) = (Some(says.clone()), Some(said));
            (says, state.reader.take())
        };
        wake(reader);
        Ok(says)
    }
}

impl Clone for Outlet {
    fn clone(&self) -> Self {
        self.0.state.lock().outlets += 1;
        Self(self.0.clone())
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let (reader, next) = {
            let mut state = self.0.state.lock();
            state.outlets -= 1;
            let is_last = state.outlets == 0;
            let taken = is_last.then(|| (state.reader.take(), state.next.take()));
            taken.unwrap_or_default()
        };
        wake(reader);
        drop(next);
    }
}

impl WayBack {
    /// Ends when nobody waits here any more.
    async fn left(&self) {
        let left = self.left.notified();
        tokio::pin!(left);
        left.as_mut().enable();
        if !self.state.lock().has_left {
            left.await;
        }
    }

    /// Ends when nobody waits here any more, or nobody reads; with how long nobody had.
    async fn unread(&self) -> Duration {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            {
                let state = self.state.lock();
                if let Some(unread) = state.unread {
                    return unread;
                }
                if state.has_left {
                    return Duration::ZERO;
                }
            }
            left.await;
        }
    }
}

impl WayState {
    /// The first response counts; false where nothing reads it any more.
    fn take_answer(&mut self, answer: Message) -> bool {
        if self.is_closed {
            return false;
        }
        self.is_answered = true;
        self.answer.get_or_insert_with(|| Box::new(answer));
        true
    }
}

impl Inlet {
    /// For what writes the answer.
    pub fn ticket(&self) -> AnswerTicket {
        AnswerTicket(self.way.clone())
    }

    /// Nobody waits any more, and what is said on the way goes nowhere; a response that comes all the
    /// same is still read here.
    pub fn leave(&self) {
        {
            let mut state = self.way.state.lock();
            state.has_left = true;
        }
        self.way.left.notify_waiters();
    }

    /// For what knows whether an agent reads what is read here.
    pub fn unread_mark(&self) -> UnreadMark {
        UnreadMark(self.way.clone())
    }

    /// What comes next; none when nothing more does.
    pub async fn recv(&mut self) -> Option<Outgoing> {
        poll_fn(|task| self.poll_recv(task)).await
    }

    fn poll_recv(&mut self, task: &mut Task<'_>) -> Poll<Option<Outgoing>> {
        let (answer, is_over) = {
            let mut state = self.way.state.lock();
            if let Some(said) = state.said.take() {
                self.said = Some(said);
            }
            let answer = state.answer.take();
            let is_over = answer.is_none() && state.outlets == 0;
            if answer.is_none() && !is_over {
                keep(&mut state.reader, task.waker());
            }
            (answer, is_over)
        };
        let is_last_look = answer.is_some() || is_over;
        let next = self.said.as_mut().and_then(|said| {
            if is_last_look {
                // What came before was said before the look; a reader whose turn is over would be
                // told that there is nothing (tokio's budget of a task).
                return said.try_recv().ok();
            }
            match said.poll_recv(task) {
                Poll::Ready(next) => next,
                Poll::Pending => None,
            }
        });
        if let Some(outgoing) = next {
            if answer.is_some() {
                self.way.state.lock().answer = answer;
            }
            return Poll::Ready(Some(outgoing));
        }
        match answer {
            Some(answer) => {
                self.way.is_taken.store(true, Ordering::Release);
                Poll::Ready(Some(Outgoing::Last(answer)))
            }
            None if is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        let dropped = {
            let mut state = self.way.state.lock();
            (state.has_left, state.is_closed) = (true, true);
            let queue = (state.says.take(), state.said.take());
            (state.answer.take(), queue, state.reader.take())
        };
        drop(dropped);
        self.way.left.notify_waiters();
    }
}

/// Keeps the waker of the task that reads.
fn keep(reader: &mut Option<Waker>, waker: &Waker) {
    match reader {
        Some(reader) => reader.clone_from(waker),
        None => *reader = Some(waker.clone()),
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests;

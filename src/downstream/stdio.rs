//! stdio for agents that launch their servers: one message a line, both eras, one server behind.

use super::batch::{self, BatchRefused, BatchSent};
use super::handshake::{OpenedSession, arrived};
use super::http::too_fast;
use super::modern::is_modern;
use super::pipe_line::PipeLine;
use super::request_origin::RequestOrigin;
use super::route::{Arrived, CallHeaders};
use super::session::AgentSession;
use super::unread::{self, MessageReading};
use super::{Authenticated, Door};
use crate::mcp::error_codes::{INVALID_REQUEST, PARSE_ERROR};
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::ids::AgentId;
use crate::model::scope::Scope;
use crate::outlet::Outgoing;
use crate::outlet::receipt::AnswerWire;
use crate::telemetry::tasks;
use crate::upstream::lines::Lines;
use bytes::Bytes;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use workers::PipeWorkers;

mod workers;

/// Lines that wait to be written.
const MAX_QUEUED_LINES: usize = 256;

/// What an agent reads that was taken out of the configuration.
const UNKNOWN_AGENT_MESSAGE: &str =
    "the configuration no longer names this agent; ask the operator of toolgate";

struct StdioAgent {
    door: Arc<Door>,
    agent: AgentId,
    scope: Scope,
    out: mpsc::Sender<PipeLine>,
    workers: PipeWorkers,
    session: Option<Arc<AgentSession>>,
}

/// Serves one agent until it closes its end. What it may do is what the policy in force says of it,
/// with every message.
pub(crate) async fn serve(
    door: Arc<Door>,
    agent: AgentId,
    scope: Scope,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) {
    let (out, mut waiting) = mpsc::channel::<PipeLine>(MAX_QUEUED_LINES);
    let (clock, wire) = (door.clock, AnswerWire::pipe());
    let writer = tasks::spawn("stdio writer", async move {
        let mut output = output;
        while let Some(line) = waiting.recv().await {
            let written = async {
                output.write_all(&line.bytes).await?;
                if !line.receipts.is_empty() {
                    // Nobody has read the line before its end is there, and a quick agent has before
                    // the write of that is over.
                    output.flush().await?;
                    let now = clock.steady();
                    for receipt in &line.receipts {
                        receipt.written(now, &wire);
                    }
                }
                output.write_all(b"\n").await?;
                output.flush().await
            };
            if written.await.is_err() {
                return;
            }
        }
    });
    let mut lines = Lines::of(input, door.limits(&scope).bytes);
    let mut desk = StdioAgent {
        door,
        agent,
        scope,
        workers: PipeWorkers::new(out.clone()),
        out,
        session: None,
    };
    loop {
        match lines.next().await {
            Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Some(line)) => desk.line(line).await,
            Ok(None) => break,
            Err(broken) => {
                desk.say(&Message::error(
                    None,
                    PARSE_ERROR,
                    &broken.to_string(),
                    None,
                ))
                .await;
                break;
            }
        }
    }
    desk.door.relay.close();
    desk.door.running.close();
    desk.door.running.wait().await;
    if let Some(session) = desk.session.take() {
        desk.door.sessions.end(&session).await;
    }
    drop(desk);
    let _ = writer.await;
}

impl StdioAgent {
    async fn say(&self, message: &Message) {
        let _ = self.out.send(message.encode().into()).await;
    }

    async fn line(&mut self, line: Bytes) {
        let (mode, limits) = (
            self.door.policy.current().mode,
            self.door.limits(&self.scope),
        );
        let reading = MessageReading { mode, limits };
        let session = self.session.as_ref();
        if let Some(parts) = session.and_then(|session| batch::parts(session, &line, reading)) {
            return self.batch(parts).await;
        }
        match unread::read(line, reading) {
            Ok(message) => self.message(message).await,
            Err(refused) => self.say(&refused).await,
        }
    }

    async fn batch(&self, parts: Result<Vec<Text>, BatchRefused>) {
        let (Some(session), Some(known)) = (&self.session, self.authenticate()) else {
            return self
                .say(&Message::error(
                    None,
                    INVALID_REQUEST,
                    UNKNOWN_AGENT_MESSAGE,
                    None,
                ))
                .await;
        };
        if let Some(pace) = &known.caller.pace
            && pace.take(self.door.clock.steady()).is_err()
        {
            let words = too_fast(pace.rate());
            return self
                .say(&Message::error(None, INVALID_REQUEST, &words, None))
                .await;
        }
        match parts {
            Err(refused) => self.say(&refused.into()).await,
            Ok(parts) => {
                let sent = BatchSent {
                    known: &known,
                    heads: CallHeaders::default(),
                    origin: &self.origin(),
                };
                let begun = self.door.begin_batch(session, sent, parts).await;
                tasks::spawn("answers to a batch", begun.over_stdio(self.out.clone()));
            }
        }
    }

    fn authenticate(&self) -> Option<Authenticated> {
        let policy = self.door.policy.current();
        let caller = policy.identity.of_agent(self.agent.as_str())?;
        Some(Authenticated {
            proved: caller.clone(),
            caller,
            policy,
        })
    }

    async fn message(&mut self, message: Message) {
        let refuse = |words: &str| Message::error(message.id.clone(), INVALID_REQUEST, words, None);
        let Some(mut known) = self.authenticate() else {
            if message.kind == MessageKind::Request {
                self.say(&refuse(UNKNOWN_AGENT_MESSAGE)).await;
            }
            return;
        };
        let (kind, id) = (message.kind, message.id.clone());
        let (caller, message) = match self.door.judged(&known, message) {
            Ok(judged) => judged,
            Err(refused) => return self.refuse(kind, id, &refused).await,
        };
        known.caller = caller;
        if let Some(pace) = &known.caller.pace
            && pace.take(self.door.clock.steady()).is_err()
        {
            if message.kind != MessageKind::Request {
                self.door.metrics.refused("overloaded");
            }
            let words = too_fast(pace.rate());
            let refused = Message::error(message.id.clone(), INVALID_REQUEST, &words, None);
            return self.refuse(message.kind, message.id, &refused).await;
        }
        self.take(known, message).await;
    }

    /// A message that was judged.
    async fn take(&mut self, known: Authenticated, message: Message) {
        let refuse = |words: &str| Message::error(message.id.clone(), INVALID_REQUEST, words, None);
        match (message.kind, &self.session) {
            (MessageKind::Request, _) if is_modern(&message) => {
                self.modern(known, message).await;
            }
            (MessageKind::Request, None) if message.method == "initialize" => {
                self.open(known, message).await;
            }
            (MessageKind::Request, Some(_)) if message.method == "initialize" => {
                self.say(&refuse("already initialized")).await;
            }
            (MessageKind::Request, Some(session)) => {
                let heads = CallHeaders::default();
                let arrived = arrived(session, known, message, heads, self.origin());
                self.start(arrived);
            }
            (MessageKind::Request, None) => {
                self.say(&refuse(
                    "begin with `initialize`, or send 2026-07-28 `_meta`",
                ))
                .await;
            }
            (MessageKind::Notification, _) if message.method == "tools/call" => {
                self.say(&refuse(
                    "a tools/call needs an `id`; without one nothing is called",
                ))
                .await;
            }
            (MessageKind::Notification, None) if message.method == "notifications/cancelled" => {
                self.door.links.cancel(&message);
            }
            (MessageKind::Notification | MessageKind::Response, Some(session)) => {
                self.door.heard(session, message).await;
            }
            (MessageKind::Notification | MessageKind::Response, None) => {}
        }
    }

    /// A request of 2026-07-28, which needs no session.
    async fn modern(&mut self, known: Authenticated, message: Message) {
        match Door::envelope(&message, None) {
            Ok(revision) => self.start(Arrived {
                origin: self.origin(),
                known,
                scope: self.scope.clone(),
                revision,
                message,
                links: self.door.links.clone(),
                session: None,
                heads: CallHeaders::default(),
            }),
            Err(refused) => {
                self.say(&Message {
                    id: message.id,
                    ..refused
                })
                .await;
            }
        }
    }

    /// Says that a request was refused. What wants no answer gets none; a server that waits for one
    /// is told.
    async fn refuse(&self, kind: MessageKind, id: Option<Text>, refused: &Message) {
        match (kind, &self.session) {
            (MessageKind::Request, _) => self.say(refused).await,
            (MessageKind::Response, Some(session)) => {
                self.door.leaves_unanswered(session, id).await;
            }
            (MessageKind::Response, None) | (MessageKind::Notification, _) => {}
        }
    }

    async fn open(&mut self, Authenticated { proved, .. }: Authenticated, message: Message) {
        match self
            .door
            .initialize(proved, self.scope.clone(), &message)
            .await
        {
            Ok(OpenedSession {
                session,
                answer,
                unsolicited,
            }) => {
                self.say(&Message {
                    id: message.id,
                    ..answer
                })
                .await;
                let (out, changed) = (self.out.clone(), self.door.relay.tools_changed());
                // A full queue means that the agent does not read; its notifications are lost
                // before its answers are.
                let tell = move |outgoing: Outgoing| match outgoing {
                    Outgoing::Message(message) | Outgoing::Last(message) => {
                        drop(out.try_send(message.encode().into()));
                    }
                    // There are none on standard output.
                    Outgoing::Comment(_) | Outgoing::Interrupted(_) => {}
                };
                tasks::spawn(
                    "session",
                    session.clone().follow(unsolicited, changed, tell),
                );
                // Its end is the pipe's.
                if let Some(marks) = session.links.marks() {
                    marks.presence.stays();
                }
                self.session = Some(session);
            }
            Err(refused) => {
                self.say(&Message {
                    id: message.id,
                    ..refused
                })
                .await;
            }
        }
    }

    /// Where the request comes from that was read just now.
    fn origin(&self) -> RequestOrigin {
        RequestOrigin {
            place: None,
            arrived: self.door.clock.steady(),
            is_relayed: false,
        }
    }

    /// Begins a request here, so that what follows on the pipe finds it, and leaves the rest to a
    /// worker.
    fn start(&mut self, mut arrived: Arrived) {
        let worker = self.workers.free();
        arrived.origin.place = worker.as_ref().map(|worker| worker.place.clone());
        let begun = self.door.begin(arrived);
        self.workers.give(begun, worker);
    }
}

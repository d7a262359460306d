//! One request of an agent to one server: sent, everything that arrives carried to the agent, given
//! up in one place.

use super::Inbound;
use super::caller_links::AskedAbout;
use super::departure::Departure;
use super::keeper::{ServerMessage, Unheard, hears};
use super::link::{Link, Tolerance};
use super::links::{BridgeTerms, Links, Sending, WaitingRequest};
use super::owners::{Shaping, is_of_task, remarked};
use super::questions::refuse;
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::{Fault, Sent};
use crate::outlet::{Outgoing, Outlet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

mod asking;
mod crossing;
mod leg;
mod legacy_tasks;
mod modern_tasks;
mod pages;
mod parked_tasks;
#[cfg(test)]
mod tests;

use leg::{Leg, OwnLeg, TOO_MANY_QUESTIONS};

/// How long an agent may leave a full queue unread (threat-model §3B B11).
const SLOW_READER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to answer a request that the agent has cancelled.
const CANCELLED_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// What a server may ask about before it answers (protocol §1.6).
const ASKED_METHODS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];
/// Questions of a server that come so shortly after the first are put to the agent together.
const QUESTIONS_WINDOW: Duration = Duration::from_millis(20);

/// Said to a tool server of a request that two readers could read differently.
const UNREADABLE_QUESTION: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "the request cannot be read alike by all",
};

/// A request on its way out.
#[derive(Clone, Copy)]
pub(crate) struct Outbound<'a> {
    /// Where it goes.
    pub server: &'a ServerName,
    /// What travels, under any id.
    pub message: &'a Message,
    /// `Mcp-Param-…` headers.
    pub params: &'a [(String, String)],
    /// How long the answer may take; none for requests that wait for something to happen.
    pub timeout: Option<Duration>,
    /// It may change something: it is sent once, and only what answers it is an answer.
    pub changes: bool,
    /// What becomes of it at a server of the other era.
    pub terms: BridgeTerms,
}

/// The agent's side of an exchange.
pub(crate) struct ExchangeContext<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// Where the agent reads.
    pub outlet: &'a Outlet,
    /// What the agent reaches; on the legacy wire also who remembers the servers' own requests.
    pub links: &'a Links,
    /// The request's place among the agent's requests that wait.
    pub waiting: &'a WaitingRequest,
    /// Does the exchange end when the agent cancels it or goes away?
    pub stop_when_gone: bool,
    /// Set once the agent has been told that its time is over: the exchange then goes on without it.
    pub outlives: Option<&'a AtomicBool>,
    /// What becomes of what the server says on the way, where a contract counts; the answer is
    /// left to the caller of this.
    pub shaping: Option<&'a dyn Shaping>,
    /// What is let pass of what the strict reader refuses.
    pub tolerance: Tolerance,
    /// What the agent knows progress of the task by that it asks about.
    pub task_token: Option<&'a Text>,
}

/// How the passage ended.
#[derive(Debug)]
pub(crate) enum ExchangeOutcome {
    /// The server answered.
    Answer(Message),
    /// The agent cancelled or went away, and the exchange was to end then; whether a byte may have
    /// left by then.
    Gone(Sent),
}

/// What came of the sending.
enum BegunLeg {
    Waits(Leg),
    /// The agent cancelled or went away; whether a byte may have left by then.
    Gone(Sent),
}

/// What came of the waiting.
enum CarriedLeg {
    Answer(Message),
    /// A legacy server asks these, and the agent has no stream on which it could read them.
    Asked(Vec<Message>),
    Gone(Sent),
}

/// What an exchange hears next.
enum Heard {
    Said(Option<Inbound>),
    /// A question on the link of which it is the only request.
    Aside(Message),
    /// The agent is to be asked now what the server has asked so far.
    Enough,
    /// The agent went away.
    Left,
}

/// The answer, if it is one to this request.
fn proven(outbound: Outbound<'_>, leg: &Leg, answer: Message) -> Result<Message, Fault> {
    // An error that names no request may be about any.
    let exchange = &leg.request.exchange;
    if outbound.changes && answer.id.as_ref() != Some(&exchange.id) {
        let words = "the tool server answered with an error that names no request";
        return Err(exchange.unanswered(words));
    }
    Ok(answer)
}

impl ExchangeContext<'_> {
    /// Sends a request once and carries everything that arrives; returns the answer under the
    /// server's id. A server that works on what nobody waits for any more is told so.
    pub(crate) fn exchange<'s>(
        &'s self,
        outbound: Outbound<'s>,
    ) -> impl Future<Output = Result<ExchangeOutcome, Fault>> + Send + 's {
        self.departs(outbound, None)
    }

    /// The same; by `departure` the gate may take the request back as long as nothing of it has
    /// left.
    pub(crate) async fn departs(
        &self,
        outbound: Outbound<'_>,
        departure: Option<&Departure>,
    ) -> Result<ExchangeOutcome, Fault> {
        if let Some(id) = self.parked_task(&outbound) {
            return Ok(Box::pin(self.of_parked_task(&outbound, id)).await);
        }
        if self.asks_across(&outbound) {
            return Box::pin(self.of_task_across(&outbound)).await;
        }
        let timeout = outbound.timeout;
        // What takes up a call that waits was sent before.
        let takes_up = self.takes_up(&outbound);
        let mut sent = None;
        let exchange = self.sent_and_carried(&outbound, departure, takes_up, &mut sent);
        let ended = match timeout {
            None => exchange.await,
            Some(timeout) => {
                let ended = tokio::time::timeout(timeout, exchange).await;
                ended.unwrap_or_else(|_| {
                    if let Some((link, _)) = &sent {
                        link.doubt(timeout);
                    }
                    let words = format!("no answer within {timeout:?}");
                    Err(Fault::after_sending(words))
                })
            }
        };
        // It never came to be sent.
        let ended = if sent.is_none() && !takes_up {
            ended.map_err(Fault::before_sending)
        } else {
            ended
        };
        let why = match &ended {
            Ok(ExchangeOutcome::Answer(_))
            | Err(Fault {
                sent: Sent::Nothing,
                ..
            }) => return ended,
            Ok(ExchangeOutcome::Gone(_)) => "the agent went away",
            Err(_) => "its answer is no longer waited for",
        };
        if let Some((link, id)) = sent.filter(|_| !self.waiting.cancelled.is_cancelled()) {
            link.cancel(&id, why);
        }
        ended
    }

    /// Notes in `sent` where the request waits for its answer, before a byte of it leaves.
    async fn sent_and_carried(
        &self,
        outbound: &Outbound<'_>,
        departure: Option<&Departure>,
        takes_up: bool,
        sent: &mut Option<(Arc<Link>, Text)>,
    ) -> Result<ExchangeOutcome, Fault> {
        let begun = if takes_up {
            Box::pin(self.taken_up(*outbound, departure, sent)).await?
        } else if let Some(answer) = self.unopened(outbound) {
            return Ok(ExchangeOutcome::Answer(answer));
        } else {
            self.sent(outbound, departure, sent).await?
        };
        let mut leg = match begun {
            BegunLeg::Gone(sent) => return Ok(ExchangeOutcome::Gone(sent)),
            BegunLeg::Waits(leg) => leg,
        };
        if self.is_bridged(&leg) {
            return Box::pin(self.across(*outbound, leg, sent)).await;
        }
        self.pass_cancellation(&leg);
        match self.carry(outbound, &mut leg).await? {
            CarriedLeg::Answer(answer) => {
                Ok(ExchangeOutcome::Answer(proven(*outbound, &leg, answer)?))
            }
            CarriedLeg::Gone(sent) => Ok(ExchangeOutcome::Gone(sent)),
            CarriedLeg::Asked(_) => Err(Fault::after_sending("the tool server asked nobody")),
        }
    }

    /// The agent's own cancellation may have overtaken the request.
    fn pass_cancellation(&self, leg: &Leg) {
        if self.waiting.cancelled.is_cancelled() {
            let (link, id) = (leg.link(), &leg.request.exchange.id);
            link.cancel(id, "the agent cancelled the request");
        }
    }

    async fn sent(
        &self,
        outbound: &Outbound<'_>,
        departure: Option<&Departure>,
        sent: &mut Option<(Arc<Link>, Text)>,
    ) -> Result<BegunLeg, Fault> {
        let Outbound {
            server,
            message,
            params,
            timeout: _, // it limits all of this
            changes,
            terms,
        } = *outbound;
        let sending = Sending {
            caller: self.caller,
            message,
            params,
            changes,
            terms,
            departure,
        };
        let asks = ASKED_METHODS.contains(&message.method.as_str());
        // Before anything leaves: a server may ask as soon as it has the request.
        let mut asides = None;
        let request = self.links.request(server, sending, |reached, id| {
            let waited_for = self.waiting.on(&reached.link, id);
            *sent = waited_for.then(|| (reached.link.clone(), id.clone()));
            let own = reached.legacy().filter(|_| asks && waited_for);
            asides = own.map(|own| own.questions(AskedAbout::of(terms.task)));
            waited_for
        });
        let begun = tokio::select! {
            biased;
            () = self.gone(), if self.stop_when_gone => return Ok(BegunLeg::Gone(Sent::Maybe)),
            begun = request => begun?,
        };
        // The agent cancelled before anything left: nothing is sent, not even a request that would
        // be finished without its agent once it had left.
        let Some(mut request) = begun else {
            return Ok(BegunLeg::Gone(Sent::Nothing));
        };
        request.exchange.tolerates(self.tolerance);
        if asks && request.reached.legacy().is_some() {
            request.exchange.read_aside();
        }
        let own = request.reached.legacy().map(|_| {
            Box::new(OwnLeg {
                asides,
                asked: message.body.clone(),
                ..OwnLeg::default()
            })
        });
        Ok(BegunLeg::Waits(Leg { request, own }))
    }

    async fn carry(&self, outbound: &Outbound<'_>, leg: &mut Leg) -> Result<CarriedLeg, Fault> {
        let closes = leg.link().cancels_by_closing();
        let passage = self.until_gone(outbound, leg);
        tokio::pin!(passage);
        tokio::select! {
            biased;
            passed = &mut passage => return passed,
            () = self.waiting.cancelled.cancelled(), if self.stop_when_gone => {}
        }
        if closes {
            return Ok(CarriedLeg::Gone(Sent::Maybe));
        }
        // The server has been told; what it still answers is the answer.
        tokio::time::timeout(CANCELLED_ANSWER_TIMEOUT, passage)
            .await
            .unwrap_or(Ok(CarriedLeg::Gone(Sent::Maybe)))
    }

    async fn until_gone(
        &self,
        outbound: &Outbound<'_>,
        leg: &mut Leg,
    ) -> Result<CarriedLeg, Fault> {
        let mut lost = false;
        loop {
            let heard = self.hears(leg).await?;
            let outgoing = match heard {
                Heard::Left => return Ok(CarriedLeg::Gone(Sent::Maybe)),
                Heard::Enough => return Ok(CarriedLeg::Asked(leg.take_questions())),
                Heard::Said(None) => {
                    return Err(Fault::after_sending(
                        "the tool server closed the exchange without an answer",
                    ));
                }
                Heard::Said(Some(Inbound::Comment(comment))) => Outgoing::Comment(comment),
                Heard::Said(Some(Inbound::Interrupted(retry_ms))) => {
                    Outgoing::Interrupted(retry_ms)
                }
                Heard::Said(Some(Inbound::Message(message)))
                    if message.kind == MessageKind::Response =>
                {
                    return Ok(CarriedLeg::Answer(message));
                }
                Heard::Said(Some(Inbound::Message(message)))
                    if self
                        .is_foreign(&message, leg.asked().or(outbound.message.body.as_ref())) =>
                {
                    continue;
                }
                Heard::Aside(message) | Heard::Said(Some(Inbound::Message(message))) => {
                    match Box::pin(self.said(outbound, leg, message)).await {
                        Some(message) => Outgoing::Message(Box::new(message)),
                        None => continue,
                    }
                }
            };
            let pause = match outgoing {
                Outgoing::Interrupted(retry_ms) => Some(Duration::from_millis(retry_ms)),
                Outgoing::Comment(_) | Outgoing::Message(_) | Outgoing::Last(_) => None,
            };
            if self.waiting.cancelled.is_cancelled() {
                continue;
            }
            // An agent that doesn't read loses what is on the way, never the answer to a call that
            // changed something.
            let told = !lost && {
                let told = self.outlet.say_within(outgoing, SLOW_READER_TIMEOUT);
                Box::pin(told).await.is_ok()
            };
            lost |= !told;
            if lost && self.stop_when_gone && !self.has_outlived() {
                return Ok(CarriedLeg::Gone(Sent::Maybe));
            }
            if let Some(pause) = pause {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.links.returned.notified() => {}
                }
            }
        }
    }

    /// What the server says on the way, as the agent reads it; a question of a legacy server waits.
    async fn said(
        &self,
        outbound: &Outbound<'_>,
        leg: &mut Leg,
        message: Message,
    ) -> Option<Message> {
        if let Some(own) = leg.own_if_request(&message) {
            let question = self.question(*outbound, &own, message).await;
            let surplus = question.and_then(|question| leg.add_question(question));
            if let Some(question) = surplus {
                refuse(&own.link, &question, TOO_MANY_QUESTIONS).await;
            }
            return None;
        }
        let message = self
            .towards_agent(outbound.server, leg.link(), message)
            .await?;
        self.crossed(leg, message)
    }

    /// What comes next.
    async fn hears(&self, leg: &mut Leg) -> Result<Heard, Fault> {
        if leg.own.is_some() {
            return Box::pin(self.hears_aside(leg)).await;
        }
        if !self.stop_when_gone {
            return leg.request.exchange.next().await.map(Heard::Said);
        }
        tokio::select! {
            biased;
            inbound = leg.request.exchange.next() => inbound.map(Heard::Said),
            () = self.left() => Ok(Heard::Left),
        }
    }

    /// A notification or request of the server as the agent reads it, if it goes anywhere. Modern
    /// servers send no requests.
    async fn towards_agent(
        &self,
        server: &ServerName,
        link: &Arc<Link>,
        message: Message,
    ) -> Option<Message> {
        let spoken = ServerMessage {
            caller: self.caller,
            server,
            revision: link.revision.as_str(),
            message: &message,
        };
        if let Err(unheard) = hears(&**self.links.servers().keeper(), &spoken) {
            if message.kind == MessageKind::Request && self.links.legacy_questions().is_some() {
                refuse(link, &message, unheard).await;
            }
            return None;
        }
        if message.odd.is_some() && self.tolerance != Tolerance::Everything {
            if message.kind == MessageKind::Request && self.links.legacy_questions().is_some() {
                refuse(link, &message, UNREADABLE_QUESTION).await;
            }
            return None;
        }
        // Also on a stream that is of something else: whose task it is says what may be read of it
        // (threat-model §3C C4).
        if is_of_task(&message) {
            return self
                .links
                .tasks
                .heard(self.caller, message, |owned| owned.server == *server)
                .await;
        }
        let Some(message) = self.remarked(&message).await else {
            if message.kind == MessageKind::Request && self.links.legacy_questions().is_some() {
                refuse(
                    link,
                    &message,
                    Unheard {
                        code: INTERNAL_ERROR,
                        words: "what it asks takes too much to check and to redact",
                    },
                )
                .await;
            }
            return None;
        };
        match (message.kind, self.links.legacy_questions()) {
            (MessageKind::Request, questions) => questions?.ask(link, message).await,
            (_, Some(questions)) if message.method == "notifications/cancelled" => {
                questions.take_back(link, message)
            }
            _ => Some(message),
        }
    }

    /// What is said, as the contract lets the agent read it.
    async fn remarked(&self, said: &Message) -> Option<Message> {
        match self.shaping {
            Some(shaping) => remarked(shaping, said).await,
            None => Some(said.clone()),
        }
    }
}

//! What an exchange does where agent and server speak different eras (protocol §4.3, §4.4).

use super::asking::{AskedRound, MAX_ROUNDS, unanswerable};
use super::leg::of_round;
use super::modern_tasks::AbandonedTask;
use super::pages::pages_asked;
use super::{
    ASKED_METHODS, BegunLeg, CarriedLeg, ExchangeContext, ExchangeOutcome, Heard, Leg, Outbound,
    UNREADABLE_QUESTION, proven,
};
use crate::mcp::bridge::{
    LOG_LEVEL_META_KEY, notification_to_legacy_agent, notification_to_modern_agent,
    to_legacy_agent, to_modern_agent,
};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::ids::ServerName;
use crate::model::reply::{Fault, Sent};
use crate::upstream::caller_links::CallerLink;
use crate::upstream::departure::Departure;
use crate::upstream::keeper::{ServerMessage, hears};
use crate::upstream::link::{Link, Tolerance};
use crate::upstream::links::{Sending, SentRequest};
use crate::upstream::log_levels::rank;
use crate::upstream::owners::PROGRESS_METHOD;
use crate::upstream::parking::{AskingCall, ParkedCalls};
use crate::upstream::questions::refuse;
use std::sync::Arc;

/// How far a request has come.
pub(super) struct Course<'a> {
    /// Where it waits for its answer.
    pub(super) sent: &'a mut Option<(Arc<Link>, Text)>,
    /// Requests that were sent for it after the first, also before it waited for its agent.
    pub(super) rounds: u32,
    /// Pages that its agent's person has agreed to open.
    pages: Vec<Text>,
    /// Takes back the task that it became, should nobody wait for it any more.
    abandons: AbandonedTask,
}

impl Course<'_> {
    /// What changes something is not taken back because nobody waits for it.
    fn abandons(&mut self, outbound: &Outbound<'_>, leg: &Leg) {
        if let Some(task) = leg.followed().filter(|_| !outbound.changes) {
            self.abandons = AbandonedTask::at(leg.link(), &task.id);
        }
    }

    /// Nothing is taken back any more.
    fn disarm(&mut self) {
        self.abandons.0 = None;
    }
}

impl ExchangeContext<'_> {
    /// Whether agent and server speak different eras.
    pub(super) fn is_bridged(&self, leg: &Leg) -> bool {
        self.links.is_modern() != (leg.link().revision.era() == Era::Modern)
    }

    /// Whether it asks after a task of a server of the other era.
    pub(super) fn asks_across(&self, outbound: &Outbound<'_>) -> bool {
        let is_of_task = outbound.message.method.starts_with("tasks/");
        is_of_task && self.links.is_modern() == self.links.is_legacy_at(outbound.server)
    }

    /// What an agent asks after such a task. A fault says itself whether the server was asked: more
    /// than one request may be.
    pub(super) async fn of_task_across(
        &self,
        outbound: &Outbound<'_>,
    ) -> Result<ExchangeOutcome, Fault> {
        let asked = async {
            match self.links.legacy_revision() {
                Some(revision) => self.of_modern_task(outbound, revision).await,
                None => Box::pin(self.of_legacy_task(outbound)).await,
            }
        };
        let Some(timeout) = outbound.timeout else {
            return asked.await;
        };
        let ended = tokio::time::timeout(timeout, asked).await;
        ended.unwrap_or_else(|_| {
            Err(Fault::after_sending(format!(
                "no answer within {timeout:?}"
            )))
        })
    }

    /// Carries what arrives until the request has an answer in the agent's era.
    pub(super) async fn across(
        &self,
        outbound: Outbound<'_>,
        mut leg: Leg,
        sent: &mut Option<(Arc<Link>, Text)>,
    ) -> Result<ExchangeOutcome, Fault> {
        let mut course = Course {
            sent,
            // The result of a task was asked for in another request than the call.
            rounds: u32::from(leg.followed().is_some()),
            pages: Vec::new(),
            abandons: AbandonedTask::default(),
        };
        course.abandons(&outbound, &leg);
        loop {
            self.pass_cancellation(&leg);
            let carried = match self.carry(&outbound, &mut leg).await {
                Err(fault) if leg.followed().is_some() => {
                    Box::pin(self.followed_again(&outbound, &mut leg, &mut course, fault)).await?;
                    continue;
                }
                carried => carried.map_err(|fault| of_round(course.rounds, fault))?,
            };
            match carried {
                CarriedLeg::Gone(sent) => return Ok(ExchangeOutcome::Gone(sent)),
                CarriedLeg::Asked(questions) => {
                    match self.put_aside(&outbound, leg, questions).await {
                        Ok(result) => {
                            course.disarm();
                            return Ok(ExchangeOutcome::Answer(result));
                        }
                        Err(crowded) => leg = crowded,
                    }
                }
                CarriedLeg::Answer(answer) => {
                    let answered = self.answered(&outbound, &mut leg, &mut course, answer);
                    if let Some(over) = answered.await? {
                        return Ok(over);
                    }
                }
            }
        }
    }

    /// What an answer is to the agent; none if the request goes on.
    async fn answered(
        &self,
        outbound: &Outbound<'_>,
        leg: &mut Leg,
        course: &mut Course<'_>,
        answer: Message,
    ) -> Result<Option<ExchangeOutcome>, Fault> {
        let message = outbound.message;
        let answer = proven(*outbound, leg, answer);
        let answer = answer.map_err(|fault| of_round(course.rounds, fault))?;
        if answer.is_error && leg.followed().is_some() {
            let has_failed = Box::pin(self.has_failed(leg)).await?;
            if !has_failed {
                let words = "the tool server gives no result of a task that has completed";
                let fault = Fault::after_sending(words);
                Box::pin(self.followed_again(outbound, leg, course, fault)).await?;
                return Ok(None);
            }
        }
        let over = |answer| Ok(Some(ExchangeOutcome::Answer(answer)));
        let gone = Ok(Some(ExchangeOutcome::Gone(Sent::Maybe)));
        let is_followed = leg.followed().is_some();
        let task = (!is_followed).then(|| self.task_to_follow(outbound, leg, &answer));
        if let Some(id) = task.flatten() {
            course.rounds += 1;
            leg.follow(id);
            course.abandons(outbound, leg);
            Box::pin(self.followed(outbound, leg, course)).await?;
            return Ok(None);
        }
        let link = leg.link().clone();
        let waiting = self.task_waited_for(outbound, &link, answer);
        let Some(answer) = Box::pin(waiting).await? else {
            return gone;
        };
        let Some(round) = self.asked(outbound.server, &link, message, &answer).await else {
            let asks = pages_asked(outbound, leg, &answer);
            let answer = asks.unwrap_or_else(|| self.bridged(&link, message, answer));
            let answer = last_of(course.rounds, message, answer);
            course.disarm();
            let pages = std::mem::take(&mut course.pages);
            Box::pin(self.pages_done(pages, &answer)).await;
            return over(answer);
        };
        course.rounds += 1;
        match round {
            AskedRound::Gone => gone,
            AskedRound::Over(answer) => over(answer),
            AskedRound::Answered(_) if course.rounds >= MAX_ROUNDS => {
                let words = "the tool server asked more often than a call may";
                over(unanswerable(message, &answer, words))
            }
            AskedRound::Answered(answered) => {
                course.pages.extend(answered.pages);
                let sending = self.next_round(*outbound, leg, answered.params, course.sent);
                sending
                    .await
                    .map_err(|fault| of_round(course.rounds, fault))?;
                Ok(None)
            }
        }
    }

    /// What comes next where questions may come that name no request. A server that has asked
    /// something may ask more at once, and says what it likes meanwhile.
    pub(super) async fn hears_aside(&self, leg: &mut Leg) -> Result<Heard, Fault> {
        let Leg { request, own } = leg;
        let (mut asides, mut window) = (None, None);
        if let Some(own) = own {
            (asides, window) = (own.asides.as_mut(), own.window.as_mut());
        }
        let aside = async {
            match &mut asides {
                Some(asides) => asides.recv().await,
                None => std::future::pending().await,
            }
        };
        let is_over = async {
            match &mut window {
                Some(window) => window.await,
                None => std::future::pending().await,
            }
        };
        Ok(tokio::select! {
            biased;
            () = is_over => Heard::Enough,
            inbound = request.exchange.next() => Heard::Said(inbound?),
            Some(question) = aside => Heard::Aside(question),
            () = self.left(), if self.stop_when_gone => Heard::Left,
        })
    }

    /// The answer as the agent's era has it.
    pub(super) fn bridged(&self, link: &Link, message: &Message, answer: Message) -> Message {
        match (self.links.legacy_revision(), link.revision.era()) {
            (Some(revision), Era::Modern) => to_legacy_agent(&message.method, answer, revision),
            (None, Era::Legacy) => to_modern_agent(&message.method, answer),
            (Some(_), Era::Legacy) | (None, Era::Modern) => answer,
        }
    }

    /// A notification as the agent's era has it, if it reads it at all.
    pub(super) fn crossed(&self, leg: &Leg, said: Message) -> Option<Message> {
        if leg.own.is_none() {
            let is_bridged =
                self.links.legacy_revision().is_some() && leg.link().revision.era() == Era::Modern;
            return Some(if is_bridged {
                notification_to_legacy_agent(said)
            } else {
                said
            });
        }
        let said = notification_to_modern_agent(said);
        match said.method.as_str() {
            // No request of the agent's waits for it; of tasks it hears on subscriptions.
            "notifications/elicitation/complete"
            | "notifications/cancelled"
            | "notifications/tasks/status" => None,
            "notifications/message" => is_wanted(leg.asked(), &said).then_some(said),
            PROGRESS_METHOD => match leg.own.as_ref().filter(|own| own.is_taken_up) {
                None => Some(said),
                Some(own) => with_token(said, own.token.as_ref()?),
            },
            _ => Some(said),
        }
    }

    /// A question of a legacy server that its agent can be asked; none if the server is answered
    /// already.
    pub(super) async fn question(
        &self,
        outbound: Outbound<'_>,
        own: &CallerLink,
        question: Message,
    ) -> Option<Message> {
        let server = outbound.server;
        let method = outbound.message.method.as_str();
        let asks = ASKED_METHODS.contains(&method) || method.starts_with("tasks/");
        if !asks || !own.may_ask(&question) {
            own.decline(&question).await;
            return None;
        }
        if question.odd.is_some() && self.tolerance != Tolerance::Everything {
            refuse(&own.link, &question, UNREADABLE_QUESTION).await;
            return None;
        }
        let spoken = ServerMessage {
            caller: self.caller,
            server,
            revision: own.link.revision.as_str(),
            message: &question,
        };
        if let Err(unheard) = hears(&**self.links.servers().keeper(), &spoken) {
            refuse(&own.link, &question, unheard).await;
            return None;
        }
        Some(question)
    }

    /// The call waits for the agent's answers, which it reads how to give; or, where too many wait,
    /// for the server alone.
    pub(super) async fn parked(
        &self,
        server: &ServerName,
        leg: Leg,
        questions: Vec<Message>,
    ) -> Result<Message, Leg> {
        let SentRequest { reached, exchange } = *leg.request;
        let mut own = leg.own.map(|own| *own).unwrap_or_default();
        let (is_taken_up, token) = (own.is_taken_up, own.token.take());
        let call = AskingCall {
            caller: self.caller,
            server,
            reached,
            exchange,
            asides: own.asides,
            asked: own.asked,
            followed: own.followed,
        };
        let parked = self.links.servers().parked().park(call, questions).await;
        // Nothing has changed for it: its progress has the token that it had.
        parked.map_err(|crowded| {
            let mut leg = Leg::of(crowded, token);
            if let Some(own) = &mut leg.own {
                own.is_taken_up = is_taken_up;
            }
            leg
        })
    }

    /// Whether the request is no new one, but a round of a call that waits, or waited, for its agent.
    pub(super) fn takes_up(&self, outbound: &Outbound<'_>) -> bool {
        let params = outbound.message.body.as_ref();
        self.links.is_modern()
            && ParkedCalls::is_round(params)
            && (ParkedCalls::was_parked(params) || self.links.is_legacy_at(outbound.server))
    }

    /// Takes up a call that waits for its agent's answers. What waits no more is not sent again:
    /// nobody knows what became of it.
    pub(super) async fn taken_up(
        &self,
        outbound: Outbound<'_>,
        departure: Option<&Departure>,
        sent: &mut Option<(Arc<Link>, Text)>,
    ) -> Result<BegunLeg, Fault> {
        if departure.is_some_and(|departure| departure.leaves().is_err()) {
            return Ok(BegunLeg::Gone(Sent::Nothing));
        }
        let params = outbound.message.body.as_ref();
        let parked = self.links.servers().parked();
        let Some(mut parked) = parked.take(self.caller, outbound.server, params) else {
            let words = "the call that asked no longer waits for an answer";
            return Err(Fault::after_sending(words));
        };
        let (link, id) = (&parked.reached.link, &parked.exchange.id);
        *sent = Some((link.clone(), id.clone()));
        if !self.waiting.on(link, id) {
            link.cancel(id, "the agent cancelled the request");
            return Ok(BegunLeg::Gone(Sent::Maybe));
        }
        parked.answer(params).await;
        let token = params.and_then(|params| params.at(&["_meta", "progressToken"]));
        Ok(BegunLeg::Waits(Leg::of(parked, token)))
    }

    /// Sends the next round of a request whose questions the agent has answered.
    pub(super) async fn next_round(
        &self,
        outbound: Outbound<'_>,
        leg: &mut Leg,
        params: Text,
        sent: &mut Option<(Arc<Link>, Text)>,
    ) -> Result<(), Fault> {
        let message = &Message {
            body: Some(params),
            ..outbound.message.clone()
        };
        let Outbound {
            server,
            params,
            changes,
            terms,
            ..
        } = outbound;
        let sending = Sending {
            caller: self.caller,
            message,
            params,
            changes,
            terms,
            departure: None,
        };
        let link = leg.link();
        let stamped = self.links.stamped_round(server, link, sending);
        let mut exchange = link.request(stamped, params.to_vec()).await?;
        exchange.tolerates(self.tolerance);
        *sent = Some((link.clone(), exchange.id.clone()));
        if !self.waiting.on(link, &exchange.id) {
            return Err(Fault::after_sending("the agent cancelled the request"));
        }
        if changes {
            exchange.keeps(link);
        }
        exchange.begin().await?;
        leg.request.exchange = exchange;
        Ok(())
    }
}

/// The answer after so many rounds. An error of a later round does not say that the call did nothing,
/// whatever its code means in a contract, so it is the tool's own.
fn last_of(rounds: u32, message: &Message, answer: Message) -> Message {
    if rounds == 0 || !answer.is_error || message.method != "tools/call" {
        return answer;
    }
    let error = answer.body.as_ref();
    let words = error.and_then(|error| error.get("message"));
    let words = words.as_ref().and_then(Text::as_str).unwrap_or_default();
    unanswerable(message, &answer, &words)
}

/// Whether the request asked for log messages as grave as this one.
fn is_wanted(asked: Option<&Text>, said: &Message) -> bool {
    let rank_of = |level: Option<Text>| rank(&level?.as_str()?);
    let wanted = rank_of(asked.and_then(|params| params.at(&["_meta", LOG_LEVEL_META_KEY])));
    let level = said.body.as_ref().and_then(|params| params.get("level"));
    match (wanted, rank_of(level)) {
        (Some(wanted), Some(level)) => wanted <= level,
        // A level that no revision has.
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn with_token(said: Message, token: &Text) -> Option<Message> {
    let mut params = said.body.as_ref().and_then(Text::object)?;
    params.set("progressToken", token.clone());
    Some(Message {
        body: Some(params.text()),
        ..said
    })
}

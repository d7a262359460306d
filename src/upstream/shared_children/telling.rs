//! To which session goes what a child says outside requests. A child that several share names none:
//! what one agent caused is not shown to another (threat-model §3C C9).

use super::seats::TakenSeat;
use super::{ChildUser, SharedChild};
use crate::mcp::error_codes::{INTERNAL_ERROR, METHOD_NOT_FOUND};
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::reply::Fault;
use crate::upstream::keeper::Unheard;
use crate::upstream::log_levels::{LOG_LEVELS, rank};
use crate::upstream::questions::{refuse, tell};
use crate::upstream::{Inbound, UnsolicitedReceiver};
use serde_json::json;
use std::sync::Weak;

/// What a session that named no level reads of a log whose level another session has set.
const UNNAMED_LEVEL: &str = "info";
/// Said to a server that asks faster than its session reads.
const BUSY_SESSION: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "too many requests wait for an answer; try again later",
};
/// Said to a server of a question that may be any session's.
const WHOSE_QUESTION: Unheard = Unheard {
    code: METHOD_NOT_FOUND,
    words: "several sessions use this server, and nothing says whose request this belongs to",
};

impl SharedChild {
    /// Gives what the child says to whom it is for, until the child is gone.
    pub(super) async fn follow(this: Weak<Self>, mut said: UnsolicitedReceiver) {
        while let Some(said) = said.recv().await {
            let Some(child) = this.upgrade() else { return };
            child.said(said).await;
        }
    }

    async fn said(&self, said: Inbound) {
        let Inbound::Message(message) = said else {
            return;
        };
        if message.method == "notifications/tools/list_changed" {
            self.tell_watcher(&message);
        }
        let seats = self.seats.lock().clone();
        match (seats.as_slice(), message.kind) {
            ([], MessageKind::Request) => {
                if !self.tell_watcher(&message) {
                    refuse(&self.link, &message, WHOSE_QUESTION).await;
                }
            }
            ([only], _) if self.is_of_one() => self.hand(only, message).await,
            (seats, MessageKind::Request) => self.asked(seats, message).await,
            (seats, MessageKind::Notification) => self.noted(seats, &message),
            (_, MessageKind::Response) => {}
        }
    }

    fn tell_watcher(&self, message: &Message) -> bool {
        let watcher = self.watcher.as_ref();
        watcher.is_some_and(|watcher| watcher.try_send(Inbound::Message(message.clone())).is_ok())
    }

    async fn hand(&self, seat: &TakenSeat, message: Message) {
        let asked = (message.kind == MessageKind::Request).then(|| message.clone());
        let heard = seat.hears(&self.server, &self.link, Inbound::Message(message));
        if let (Some(asked), false) = (asked, heard) {
            refuse(&self.link, &asked, BUSY_SESSION).await;
        }
    }

    /// The session of the only requests that the server may be at.
    fn only_asker<'s>(&self, seats: &'s [TakenSeat]) -> Option<&'s TakenSeat> {
        let number = self.link.only_user()?;
        seats.iter().find(|seat| seat.number == number)
    }

    async fn asked(&self, seats: &[TakenSeat], message: Message) {
        if message.method == "ping" {
            let answer = Message::response(message.id, Text::of(&json!({})), false);
            tell(&self.link, answer).await;
            return;
        }
        match self.only_asker(seats) {
            Some(seat) => self.hand(seat, message).await,
            None => refuse(&self.link, &message, WHOSE_QUESTION).await,
        }
    }

    fn noted(&self, seats: &[TakenSeat], message: &Message) {
        let same_caller = matches!(self.whose(), Some(ChildUser::Caller(_)));
        let all = |_: &&TakenSeat| true;
        let only = self.only_asker(seats).map(|seat| seat.number);
        let is_only = |seat: &&TakenSeat| Some(seat.number) == only;
        let tell = |hears: &dyn Fn(&&TakenSeat) -> bool| {
            for seat in seats.iter().filter(|seat| hears(seat)) {
                seat.hears(&self.server, &self.link, Inbound::Message(message.clone()));
            }
        };
        match message.method.as_str() {
            // Each session knows which of its own questions and tasks they are about.
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/cancelled"
            | "notifications/progress"
            | "notifications/tasks/status" => tell(&all),
            "notifications/resources/updated" => {
                let uri = message.body.as_ref().and_then(|params| params.get("uri"));
                let uri = uri.as_ref().and_then(Text::as_str).unwrap_or_default();
                let wants = |seat: &&TakenSeat| seat.wants(&self.server, &uri);
                // Servers may tell without being asked; of several sessions that is nobody's.
                if same_caller && seats.len() == 1 {
                    tell(&all);
                } else {
                    tell(&wants);
                }
            }
            "notifications/message" => {
                let reads = |seat: &&TakenSeat| self.reads(seats, seat, message);
                if same_caller {
                    tell(&reads);
                } else {
                    tell(&|seat| is_only(seat) && reads(seat));
                }
            }
            _ if same_caller => tell(&all),
            _ => tell(&is_only),
        }
    }

    /// Whether a log message is as grave as the session wants.
    fn reads(&self, seats: &[TakenSeat], seat: &TakenSeat, message: &Message) -> bool {
        let said = message.body.as_ref().and_then(|params| params.get("level"));
        let said = said
            .as_ref()
            .and_then(Text::as_str)
            .and_then(|level| rank(&level));
        let others = || seats.iter().any(|seat| seat.level(&self.server).is_some());
        let from = seat.level(&self.server);
        let from = from.or_else(|| rank(UNNAMED_LEVEL).filter(|_| others()));
        said.is_none() || said >= from
    }

    /// Has the server log as its most verbose session wants; what it answered, if it was asked.
    pub(crate) async fn sets_level(&self) -> Result<Option<Message>, Fault> {
        let mut told = self.level.lock().await;
        let seats = self.seats.lock().clone();
        let wanted = seats
            .iter()
            .filter_map(|seat| seat.level(&self.server))
            .min();
        if wanted.is_none() || *told == wanted {
            return Ok(None);
        }
        let level = wanted.and_then(|wanted| LOG_LEVELS.get(wanted));
        let params = Text::of(&json!({ "level": level }));
        let answer = self.link.ask("logging/setLevel", Some(params)).await?;
        if !answer.is_error {
            *told = wanted;
        }
        Ok(Some(answer))
    }

    /// Whether another session than that one wants to hear of a resource.
    pub(crate) fn is_wanted_besides(&self, seat: u64, uri: &str) -> bool {
        let seats = self.seats.lock();
        let mut others = seats.iter().filter(|other| other.number != seat);
        others.any(|other| other.asked_for(&self.server, uri))
    }
}

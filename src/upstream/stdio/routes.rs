//! Which message belongs to which request: pure, behind one lock that is never held while waiting.

use super::super::{INBOX_MESSAGES_MAX, Inbound, Inbox};
use crate::mcp::bridge::SUBSCRIPTION_META_KEY;
use crate::mcp::envelope::answered;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind, number};
use crate::model::ids::{ActionId, ServerName};
use crate::model::reply::{Fault, Sent};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::{self, OwnedPermit, Sender};

/// Most requests in flight on one conversation.
const MAX_REQUESTS_IN_FLIGHT: usize = 1024;
/// Requests that were given up, and that the server may be at still. With more, nobody can tell any
/// longer whose request it is at.
const MAX_GIVEN_UP: usize = 1024;

/// What a conversation dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// Answers, progress and subscription notes for requests that are unknown, answered or given
    /// up (threat-model §3A A12).
    pub stray: u64,
    /// Notifications for which there was no room, or no single owner.
    pub dropped: u64,
    /// Lines that are no JSON-RPC message.
    pub garbage: u64,
}

/// Requests in flight.
#[derive(Debug)]
pub(super) struct Routes {
    server: ServerName,
    table: Mutex<RouteTable>,
    stray: AtomicU64,
    dropped: AtomicU64,
    garbage: AtomicU64,
}

#[derive(Debug)]
struct RouteTable {
    next: u64,
    open: HashMap<u64, OpenRequest>,
    /// Requests without an answer that nobody waits for any more, and whose they were.
    given_up: HashMap<u64, u64>,
    /// Why nothing can be sent any more.
    hushed: Option<String>,
}

/// One request in flight.
#[derive(Debug)]
struct OpenRequest {
    /// The progress token as the agent wrote it.
    token: Option<Text>,
    /// Whether it asked for log messages.
    logs: bool,
    /// Whether it is a subscription.
    listens: bool,
    /// Whether a byte may have left.
    begun: bool,
    /// Whose it is, of those who share the conversation; 0 for toolgate's own.
    user: u64,
    /// The action that it is, whose outcome is unknown without an answer.
    action: Option<ActionId>,
    inbox: Sender<Result<Inbound, Fault>>,
    /// A place in the inbox that notifications cannot take.
    last: OwnedPermit<Result<Inbound, Fault>>,
}

/// To whom a notification belongs.
enum NotificationOwner<'a> {
    /// To this request.
    One(&'a OpenRequest),
    /// To one of several, and nothing says to which.
    Several,
    /// To a request that is over.
    Stray,
    /// To no request.
    Nobody,
}

impl RouteTable {
    /// A request that nobody waits for; the server may work on it all the same.
    fn give_up(&mut self, id: u64, open: &OpenRequest) {
        if open.begun && open.user != 0 && self.given_up.len() <= MAX_GIVEN_UP {
            self.given_up.insert(id, open.user);
        }
    }

    /// Takes out those that nobody waits for.
    fn drop_closed(&mut self) {
        let closed: Vec<_> = self
            .open
            .extract_if(|_, open| open.inbox.is_closed())
            .collect();
        for (id, open) in &closed {
            self.give_up(*id, open);
        }
    }

    /// The request that `id` means, if bytes of it have left.
    fn find(&self, id: Option<Text>) -> Option<&OpenRequest> {
        self.open.get(&own_id(&id?)?).filter(|open| open.begun)
    }

    /// Log messages name no request. If several asked for them, what one agent caused must not be
    /// shown to another (threat-model §3C C9).
    fn asker_for_logs(&self) -> NotificationOwner<'_> {
        let mut askers = self.open.values().filter(|open| open.logs && open.begun);
        match (askers.next(), askers.next()) {
            (None, _) => NotificationOwner::Nobody,
            (Some(open), None) => NotificationOwner::One(open),
            (Some(_), Some(_)) => NotificationOwner::Several,
        }
    }
}

impl OpenRequest {
    /// Puts the agent's own progress token back.
    fn with_own_token(&self, message: &mut Message) -> NotificationOwner<'_> {
        let Some(token) = self.token.clone() else {
            return NotificationOwner::Stray;
        };
        if let Some(mut params) = message.body.as_ref().and_then(Text::object) {
            params.set("progressToken", token);
            message.body = Some(params.text());
        }
        NotificationOwner::One(self)
    }
}

impl Routes {
    pub(super) fn new(server: &ServerName) -> Self {
        let mut seed = [0; 4];
        // Ids that cannot be guessed only make a confused server easier to spot; each is checked
        // against the table.
        let _ = getrandom::fill(&mut seed);
        let next = u64::from(u32::from_le_bytes(seed) >> 1) + 1;
        let table = Mutex::new(RouteTable {
            next,
            open: HashMap::new(),
            given_up: HashMap::new(),
            hushed: None,
        });
        let [stray, dropped, garbage] = [const { AtomicU64::new(0) }; 3];
        Self {
            server: server.clone(),
            table,
            stray,
            dropped,
            garbage,
        }
    }

    /// Gives a request its id and its progress token, and opens its inbox.
    pub(super) fn register(
        &self,
        message: Message,
        logs: bool,
        user: u64,
    ) -> Result<(u64, Message, Inbox), Fault> {
        let listens = message.method == "subscriptions/listen";
        let (inbox, receiver) = mpsc::channel(INBOX_MESSAGES_MAX + 1);
        let mut table = self.table.lock();
        if let Some(why) = &table.hushed {
            return Err(self.fault(why, Sent::Nothing));
        }
        if table.open.len() >= MAX_REQUESTS_IN_FLIGHT {
            table.drop_closed();
        }
        let last = inbox
            .clone()
            .try_reserve_owned()
            .ok()
            .filter(|_| table.open.len() < MAX_REQUESTS_IN_FLIGHT);
        let Some(last) = last else {
            return Err(self.fault("too many requests wait for their answers", Sent::Nothing));
        };
        let id = table.next;
        table.next += 1;
        let (message, token) = with_token(message.with_id(number(id)), id);
        table.open.insert(
            id,
            OpenRequest {
                token,
                logs,
                listens,
                begun: false,
                user,
                action: None,
                inbox,
                last,
            },
        );
        Ok((id, message, receiver))
    }

    /// Notes that bytes of the request, which is that action, leave from now on; false if it was
    /// given up before.
    pub(super) fn begin(&self, id: u64, action: Option<ActionId>) -> bool {
        let mut table = self.table.lock();
        match table.open.get_mut(&id) {
            Some(open) if !open.inbox.is_closed() => {
                (open.begun, open.action) = (true, action);
                true
            }
            _ => {
                table.open.remove(&id);
                false
            }
        }
    }

    pub(super) fn forget(&self, id: u64) -> Sent {
        let mut table = self.table.lock();
        match table.open.remove(&id) {
            Some(open) if !open.begun => Sent::Nothing,
            Some(open) => {
                table.give_up(id, &open);
                Sent::Maybe
            }
            None => Sent::Maybe,
        }
    }

    /// Ends one request with a fault.
    pub(super) fn fail(&self, id: u64, why: &str, sent: Sent) {
        let open = self.table.lock().open.remove(&id);
        if let Some(open) = open {
            open.last.send(Err(self.fault(why, sent)));
        }
    }

    /// Ends one request with what broke.
    pub(super) fn break_off(&self, id: u64, fault: &Fault) {
        let open = self.table.lock().open.remove(&id);
        if let Some(open) = open {
            let what = format!("server `{}`: {}", self.server, fault.what);
            open.last.send(Err(Fault {
                what,
                ..fault.clone()
            }));
        }
    }

    /// Whether nobody waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        let mut table = self.table.lock();
        table.drop_closed();
        table.open.is_empty()
    }

    /// Whose requests the server may be at, if they are all of one.
    pub(super) fn only_user(&self) -> Option<u64> {
        let table = self.table.lock();
        if table.given_up.len() > MAX_GIVEN_UP {
            return None;
        }
        let open = table
            .open
            .values()
            .filter(|open| open.begun && open.user != 0);
        let mut users = open
            .map(|open| open.user)
            .chain(table.given_up.values().copied());
        let first = users.next()?;
        users.all(|user| user == first).then_some(first)
    }

    /// How many requests of agents may have left and are not answered, and which actions they are, as
    /// far as that says what became of them.
    pub(super) fn in_flight(&self) -> (usize, Vec<ActionId>) {
        let table = self.table.lock();
        let begun = table.open.values().filter(|open| open.begun);
        let begun = begun.filter(|open| open.user != 0 || open.action.is_some());
        let actions: Vec<_> = begun.clone().filter_map(|open| open.action).collect();
        (begun.count(), actions)
    }

    /// Ends every request of which nothing left; no more are taken.
    pub(super) fn hush(&self, why: &str) {
        self.end_those(why, |open| !open.begun);
    }

    /// Ends every request.
    pub(super) fn end(&self, why: &str) {
        self.end_those(why, |_| true);
    }

    fn end_those(&self, why: &str, which: impl Fn(&OpenRequest) -> bool) {
        let ended: Vec<OpenRequest> = {
            let mut table = self.table.lock();
            table.hushed.get_or_insert_with(|| why.to_owned());
            table
                .open
                .extract_if(|_, open| which(open))
                .map(|(_, open)| open)
                .collect()
        };
        for open in ended {
            let sent = if open.begun {
                Sent::Maybe
            } else {
                Sent::Nothing
            };
            open.last.send(Err(self.fault(why, sent)));
        }
    }

    /// The fault for a caller that comes after the end.
    pub(super) fn refusal(&self) -> Fault {
        let why = self.table.lock().hushed.clone();
        self.fault(
            why.as_deref().unwrap_or("the conversation is over"),
            Sent::Nothing,
        )
    }

    fn fault(&self, why: &str, sent: Sent) -> Fault {
        Fault {
            what: format!("server `{}`: {why}", self.server),
            sent,
            status: None,
            lack: None,
        }
    }

    /// Gives a message to its owner, or back if it belongs to no request.
    pub(super) fn route(&self, message: Message) -> Option<Message> {
        match message.kind {
            MessageKind::Request => Some(message),
            MessageKind::Response => {
                self.answer(message);
                None
            }
            MessageKind::Notification => self.notification(message),
        }
    }

    fn answer(&self, message: Message) {
        let open = {
            let mut table = self.table.lock();
            let id = message.id.as_ref().and_then(own_id);
            id.map(|id| table.given_up.remove(&id));
            id.filter(|id| table.open.get(id).is_some_and(|open| open.begun))
                .and_then(|id| table.open.remove(&id))
        };
        match open {
            Some(open) if !open.inbox.is_closed() => {
                drop(open.last.send(Ok(Inbound::Message(message))));
            }
            _ => add(&self.stray),
        }
    }

    /// Ends the request that a line answers which cannot be read, if it does beyond doubt.
    pub(super) fn unreadable(&self, line: &[u8]) {
        let id = answered(line).and_then(digits);
        let begun = id.filter(|id| {
            self.table
                .lock()
                .open
                .get(id)
                .is_some_and(|open| open.begun)
        });
        if let Some(id) = begun {
            self.fail(id, "its answer cannot be read", Sent::Answered);
        }
    }

    fn notification(&self, mut message: Message) -> Option<Message> {
        let table = self.table.lock();
        let owner = match message.method.as_str() {
            "notifications/progress" => {
                let open = table.find(param(&message, "progressToken"));
                open.map_or(NotificationOwner::Stray, |open| {
                    open.with_own_token(&mut message)
                })
            }
            // A server may end a subscription so on stdio (protocol §1.7); any other is about a
            // request of the server.
            "notifications/cancelled" => match table.find(param(&message, "requestId")) {
                Some(open) if open.listens => NotificationOwner::One(open),
                _ => NotificationOwner::Nobody,
            },
            _ => match (message.meta(SUBSCRIPTION_META_KEY), message.method.as_str()) {
                (Some(id), _) => table
                    .find(Some(id))
                    .map_or(NotificationOwner::Stray, NotificationOwner::One),
                (None, "notifications/message") => table.asker_for_logs(),
                (None, _) => NotificationOwner::Nobody,
            },
        };
        match owner {
            NotificationOwner::Nobody => return Some(message),
            NotificationOwner::Stray => add(&self.stray),
            NotificationOwner::Several => add(&self.dropped),
            NotificationOwner::One(open) if open.inbox.is_closed() => add(&self.stray),
            // The last place is the answer's, so a full inbox has no room for this.
            NotificationOwner::One(open) => {
                if open.inbox.try_send(Ok(Inbound::Message(message))).is_err() {
                    add(&self.dropped);
                }
            }
        }
        None
    }

    /// Counts a notification that found no room.
    pub(super) fn note_dropped(&self) {
        add(&self.dropped);
    }

    /// Counts a line that is no message, and says how many there were.
    pub(super) fn note_garbage(&self) -> u64 {
        self.garbage.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn counts(&self) -> DropCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DropCounts {
            stray: read(&self.stray),
            dropped: read(&self.dropped),
            garbage: read(&self.garbage),
        }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// An id of ours as we wrote it: digits, not a string of digits.
fn own_id(text: &Text) -> Option<u64> {
    digits(text.as_bytes())
}

fn digits(written: &[u8]) -> Option<u64> {
    let are_digits = written.first().is_some_and(u8::is_ascii_digit);
    std::str::from_utf8(written)
        .ok()
        .filter(|_| are_digits)?
        .parse()
        .ok()
}

fn param(message: &Message, key: &str) -> Option<Text> {
    message.body.as_ref()?.get(key)
}

/// Puts our token in the place of the agent's, if there is one. The request's id serves: both are
/// ours and unique.
fn with_token(mut message: Message, id: u64) -> (Message, Option<Text>) {
    let Some(mut params) = message.body.as_ref().and_then(Text::object) else {
        return (message, None);
    };
    let Some(mut meta) = params.get("_meta").and_then(Text::object) else {
        return (message, None);
    };
    let Some(token) = meta.get("progressToken").cloned() else {
        return (message, None);
    };
    meta.set("progressToken", number(id));
    params.set("_meta", meta.text());
    message.body = Some(params.text());
    (message, Some(token))
}

//! What an agent wants to hear of: what the revision knows, and of that its own tasks, and what a
//! server may tell it (threat-model §3C C4, §5).

use super::feed::{LIST_CHANGES, RESOURCES_KEY, TASK_IDS_KEY};
use super::{Relay, RelayRequest};
use crate::guards::Mode;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::model::ids::ServerName;
use crate::side::{JudgedMessage, MessageOutcome, Passing};
use std::collections::HashSet;

pub(super) const TOOLS_KEY: &str = "toolsListChanged";
/// Resources of one subscription, and tasks; of more an agent hears nothing.
const MAX_SUBSCRIBED: usize = 1_000;
/// Resources that are judged before others get their turn.
const RESOURCES_PER_TURN: usize = 16;

/// What a subscription asks for.
pub(super) struct SubscriptionWishes {
    /// What some server may tell the agent.
    pub(super) wanted: Object,
    /// Whether it is to hear of tools.
    pub(super) tools: bool,
    /// Tasks of toolgate's own.
    pub(super) own_tasks: Vec<Text>,
}

impl Relay {
    /// What a subscription asks for that the agent may hear. What it wanted is recorded.
    pub(super) async fn subscription_wishes(&self, request: &RelayRequest) -> SubscriptionWishes {
        let asked = request
            .message
            .body
            .as_ref()
            .and_then(|params| params.get("notifications"));
        let asked = asked.as_ref().and_then(Text::object).unwrap_or_default();
        let mut wanted = self.known_members(&asked);
        let tools = wanted.remove(TOOLS_KEY).is_some();
        let mut own_tasks = Vec::new();
        if let Some(mut ids) = wanted.get(TASK_IDS_KEY).and_then(Text::elements) {
            own_tasks = self.own_task_wishes(request, &mut ids);
            let own: Vec<_> = ids
                .into_iter()
                .filter(|id| self.own_task(request, id).is_some())
                .collect();
            put(&mut wanted, TASK_IDS_KEY, own);
        }
        let reached: Vec<_> = self
            .reached(&request.scope)
            .iter()
            .map(|server| server.settings.name.clone())
            .collect();
        let (wanted, _) = self.open(request, &wanted, &reached, true).await;
        SubscriptionWishes {
            wanted,
            tools,
            own_tasks,
        }
    }

    /// The members that the revision knows, in the form that it gives them: servers may take others
    /// for them. In observe mode others stay.
    fn known_members(&self, asked: &Object) -> Object {
        let mut known = Object::new();
        for (key, value) in asked.iter() {
            let is_flag = key == TOOLS_KEY || LIST_CHANGES.iter().any(|(list, _)| *list == key);
            let is_list = [RESOURCES_KEY, TASK_IDS_KEY].contains(&key);
            if is_list {
                let mut seen = HashSet::new();
                let texts = value.elements().unwrap_or_default().into_iter();
                let texts = texts.filter(|one| one.as_str().is_some() && seen.insert(one.bytes()));
                let texts: Vec<Text> = texts.take(MAX_SUBSCRIBED).collect();
                put(&mut known, key, texts);
            } else if (is_flag && value.is_true())
                || (!is_flag && self.policy.current().mode == Mode::Observe)
            {
                known.set(key, value.clone());
            }
        }
        known
    }

    /// The parameters by which a server is subscribed to: what is wanted of it, and what it is told
    /// of the agent.
    pub(super) fn subscription(&self, request: &RelayRequest, wanted: &Object) -> Text {
        let asked = request
            .message
            .body
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        let mut params = Object::new();
        let observes = self.policy.current().mode == Mode::Observe;
        for (key, value) in asked.iter().filter(|(key, _)| *key == "_meta" || observes) {
            params.set(key, value.clone());
        }
        params.set("notifications", wanted.text());
        params.text()
    }

    /// What of it this server may tell the agent.
    pub(super) async fn open_here(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        wanted: &Object,
    ) -> Object {
        self.open(request, wanted, std::slice::from_ref(server), false)
            .await
            .0
    }

    /// May the agent still hear all that it was promised?
    pub(super) async fn still_holds(&self, request: &RelayRequest, promised: &Object) -> bool {
        let ids = promised
            .get(TASK_IDS_KEY)
            .and_then(Text::elements)
            .unwrap_or_default();
        let is_own = || ids.iter().all(|id| self.own_task(request, id).is_some());
        if !self
            .policy
            .current()
            .identity
            .present()
            .iter()
            .any(|known| request.caller.is_of_entry(known))
            || !is_own()
        {
            return false;
        }
        let names = self
            .servers
            .all()
            .iter()
            .map(|server| &server.settings.name);
        let held: Vec<_> = names
            .filter(|name| request.scope.holds(name))
            .cloned()
            .collect();
        self.open(request, promised, &held, false).await.1
    }

    /// What of it at least one of the servers may tell the agent, in one pass, and whether that is
    /// all of it; with `records`, each is recorded.
    async fn open(
        &self,
        request: &RelayRequest,
        wanted: &Object,
        servers: &[ServerName],
        records: bool,
    ) -> (Object, bool) {
        let (mut open, mut whole) = (Object::new(), true);
        for (key, value) in wanted.iter() {
            if let Some((_, method)) = LIST_CHANGES.iter().find(|(list, _)| *list == key) {
                let note = Message::notification(method, None);
                if !value.is_true() || self.is_open(request, servers, records, &note) {
                    open.set(key, value.clone());
                } else {
                    whole = false;
                }
            } else if key == RESOURCES_KEY {
                let mut uris = Vec::new();
                for (index, uri) in value.elements().unwrap_or_default().into_iter().enumerate() {
                    if index % RESOURCES_PER_TURN == RESOURCES_PER_TURN - 1 {
                        tokio::task::yield_now().await;
                    }
                    let params = Text::members_of(&[("uri", uri.clone())]);
                    let note =
                        Message::notification("notifications/resources/updated", Some(params));
                    if self.is_open(request, servers, records, &note) {
                        uris.push(uri);
                    } else {
                        whole = false;
                    }
                }
                put(&mut open, key, uris);
            } else {
                open.set(key, value.clone());
            }
        }
        (open, whole)
    }

    /// May one of the servers say it? The first that may is recorded, or else that the first may
    /// not.
    fn is_open(
        &self,
        request: &RelayRequest,
        servers: &[ServerName],
        records: bool,
        note: &Message,
    ) -> bool {
        let (mut first, mut is_open) = (None, false);
        for server in servers {
            let Some(judged) = self.judge(request, server, note) else {
                continue;
            };
            is_open = !judged.is_refused();
            if is_open || first.is_none() {
                first = Some(judged);
            }
            if is_open {
                break;
            }
        }
        if let Some(judged) = first.filter(|_| records) {
            self.sides.tell(&judged, MessageOutcome::Passed);
        }
        is_open
    }

    fn judge<'a>(
        &self,
        request: &'a RelayRequest,
        server: &'a ServerName,
        message: &'a Message,
    ) -> Option<JudgedMessage<'a>> {
        let RelayRequest {
            caller,
            revision,
            session,
            ..
        } = request;
        self.sides.judge(Passing {
            caller,
            server,
            revision,
            session: session.as_deref(),
            message,
        })
    }
}

/// Sets a member to these elements, or takes it away where there are none.
fn put(object: &mut Object, key: &str, elements: Vec<Text>) {
    if elements.is_empty() {
        object.remove(key);
    } else {
        object.set(key, Text::array(elements));
    }
}

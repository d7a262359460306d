//! Requests at the address of all servers: lists are joined page by page, everything else goes to
//! the server that the name, the URI or the task says.

use super::{Relay, RelayFailure, RelayRequest, no_such_prompt, no_such_resource};
use crate::guards::allowlist::side::SideTarget;
use crate::mcp::error_codes::INVALID_PARAMS;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::Era;
use crate::model::ids::ServerName;
use crate::model::scope::Scope;
use crate::model::side::SideDoor;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use std::time::Duration;

/// Pages of one list that are read to find an owner.
const MAX_LIST_PAGES: usize = 50;
/// Entries of one list after which no further page is read.
const MAX_LIST_ENTRIES: usize = 2_000;
/// How long reading one list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

impl Relay {
    pub(super) async fn merged(&self, request: &RelayRequest) -> Result<Message, RelayFailure> {
        let message = &request.message;
        let params = message
            .body
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        match message.method.as_str() {
            "prompts/list" => Box::pin(self.joined(request, "prompts", "prompts")).await,
            "resources/list" => Box::pin(self.joined(request, "resources", "resources")).await,
            "resources/templates/list" => {
                Box::pin(self.joined(request, "resources", "resourceTemplates")).await
            }
            "tasks/list" => Box::pin(self.joined(request, "tasks", "tasks")).await,
            "prompts/get" => {
                let (server, own) = self.named(params.get("name"))?;
                self.forward(request, &server, with(message, params, "name", own))
                    .await
            }
            "completion/complete" => Box::pin(self.completed(request, params)).await,
            "logging/setLevel" => Box::pin(self.told_all(request)).await,
            _ => {
                let server = match params.get("uri") {
                    Some(uri) => self.owner(request, uri).await?,
                    None => self.only()?,
                };
                self.forward(request, &server, message.clone()).await
            }
        }
    }

    async fn completed(
        &self,
        request: &RelayRequest,
        params: Object,
    ) -> Result<Message, RelayFailure> {
        let mut reference = params.get("ref").and_then(Text::object).unwrap_or_default();
        if let Some(uri) = reference.get("uri") {
            let server = self.owner(request, uri).await?;
            return self
                .forward(request, &server, request.message.clone())
                .await;
        }
        let (server, own) = self.named(reference.get("name"))?;
        reference.set("name", own);
        self.forward(
            request,
            &server,
            with(&request.message, params, "ref", reference.text()),
        )
        .await
    }

    /// Every server that logs is told; the agent gets one empty answer.
    async fn told_all(&self, request: &RelayRequest) -> Result<Message, RelayFailure> {
        for (name, _) in request.links.open_links().await {
            if self.has(&name, "logging") {
                self.forward(request, &name, request.message.clone())
                    .await?;
            }
        }
        Ok(Message::response(None, Text::of(&json!({})), false))
    }

    /// One page of one server, with names as they are here and a cursor that says which server and
    /// page come next.
    async fn joined(
        &self,
        request: &RelayRequest,
        capability: &str,
        key: &str,
    ) -> Result<Message, RelayFailure> {
        let mut params = request
            .message
            .body
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        let servers = self.listing(request, capability);
        let (at, cursor) = match params.remove("cursor") {
            Some(cursor) => parse_cursor(&cursor, &servers).ok_or_else(no_such_page)?,
            None => (0, None),
        };
        let Some(server) = servers.get(at) else {
            return Ok(empty(request.era, key));
        };
        if let Some(cursor) = cursor {
            params.set("cursor", Text::string(&cursor));
        }
        let message = Message {
            body: Some(params.text()),
            ..request.message.clone()
        };
        let answer = self.forward(request, server, message).await?;
        let Some(mut result) = answer
            .body
            .as_ref()
            .filter(|_| !answer.is_error)
            .and_then(Text::object)
        else {
            return Ok(answer);
        };
        if let (true, Some(entries)) = (key == "prompts", result.get(key).and_then(Text::elements))
        {
            result.set(key, renamed(server, &entries));
        }
        let next = result
            .remove("nextCursor")
            .and_then(|next| next.as_str().map(std::borrow::Cow::into_owned));
        let following = servers
            .get(at + 1)
            .map(|following| (following.as_str(), String::new()));
        if let Some((server, cursor)) = next
            .map(|next| (server.as_str(), format!("={next}")))
            .or(following)
        {
            result.set(
                "nextCursor",
                Text::string(&URL_SAFE_NO_PAD.encode(format!("{server} {cursor}"))),
            );
        }
        Ok(Message {
            body: Some(result.text()),
            ..answer
        })
    }

    /// The servers that a list is of.
    fn listing(&self, request: &RelayRequest, capability: &str) -> Vec<ServerName> {
        let mut servers: Vec<ServerName> = self
            .reached(&Scope::All)
            .iter()
            .map(|server| server.settings.name.clone())
            .filter(|name| self.has(name, capability))
            .collect();
        // A server that is closed to the agent is asked only where all are, so that it is said and
        // recorded that they are.
        let door = SideDoor::of_method(&request.message.method);
        let is_open = |name: &ServerName| {
            door.is_none_or(|door| self.sides.opens(&request.caller, door, name))
        };
        if servers.iter().any(is_open) {
            servers.retain(is_open);
        } else {
            servers.truncate(1);
        }
        servers
    }

    fn named(&self, name: Option<&Text>) -> Result<(ServerName, Text), RelayFailure> {
        let name = name
            .and_then(|name| name.as_str().map(std::borrow::Cow::into_owned))
            .unwrap_or_default();
        let (_, server, own) = Scope::All.tool(&name);
        let known = server.filter(|server| self.servers.get(server.as_str()).is_some());
        let server = known.ok_or_else(no_such_prompt)?;
        Ok((server, Text::string(&own)))
    }

    fn has(&self, name: &ServerName, capability: &str) -> bool {
        let up = self
            .servers
            .get(name.as_str())
            .and_then(|server| server.up());
        up.is_some_and(|up| up.verdict.has(capability))
    }

    /// The server whose list or template holds the URI.
    async fn owner(&self, request: &RelayRequest, uri: &Text) -> Result<ServerName, RelayFailure> {
        let reached = self.reached(&Scope::All);
        let names: Vec<ServerName> = reached
            .iter()
            .map(|server| server.settings.name.clone())
            .collect();
        let names: Vec<ServerName> = names
            .into_iter()
            .filter(|name| self.has(name, "resources"))
            .collect();
        let uri = uri.as_str().unwrap_or_default();
        // Only where the agent may read it: a server that is asked says by its answer what there
        // is.
        let wanted = |name: &ServerName| SideTarget::completed(SideDoor::Resources, name, &uri);
        let open = names
            .iter()
            .filter(|name| self.sides.reaches(&request.caller, &wanted(name)))
            .cloned();
        let names = match open.collect::<Vec<_>>() {
            open if open.is_empty() => names.into_iter().take(1).collect(),
            open => open,
        };
        if let [only] = names.as_slice() {
            return Ok(only.clone());
        }
        for name in &names {
            for (method, list, key) in [
                ("resources/list", "resources", "uri"),
                (
                    "resources/templates/list",
                    "resourceTemplates",
                    "uriTemplate",
                ),
            ] {
                let entries = self.entries(request, name, method, list).await;
                if entries.iter().any(|entry| {
                    entry
                        .get(key)
                        .is_some_and(|known| matches(&known.as_str().unwrap_or_default(), &uri))
                }) {
                    return Ok(name.clone());
                }
            }
        }
        Err(no_such_resource())
    }

    /// All pages of a list within bounds; what was listed before a server stopped answering counts.
    async fn entries(
        &self,
        request: &RelayRequest,
        name: &ServerName,
        method: &str,
        list: &str,
    ) -> Vec<Text> {
        let mut entries = Vec::new();
        let drained = async {
            let mut params = Object::new();
            let asked = request.message.body.as_ref();
            let told = self.with_meta(request, name, asked);
            if let Some(meta) = told
                .as_ref()
                .or(asked)
                .and_then(|params| params.get("_meta"))
            {
                params.set("_meta", meta);
            }
            for _ in 0..MAX_LIST_PAGES {
                let asked = Message::request(0, method, Some(params.clone().text()));
                let answer = request.links.ask(name, &request.caller, &asked).await.ok();
                let answer = answer
                    .filter(|answer| answer.kind == MessageKind::Response && !answer.is_error)?;
                let result = answer.body?;
                entries.extend(result.get(list)?.elements()?);
                let cursor = result
                    .get("nextCursor")
                    .filter(|cursor| !cursor.is_null())?;
                if entries.len() > MAX_LIST_ENTRIES {
                    return None;
                }
                params.set("cursor", cursor);
            }
            Some(())
        };
        let _ = tokio::time::timeout(LIST_TIMEOUT, drained).await;
        entries
    }

    /// Where only one server answers, it is meant.
    fn only(&self) -> Result<ServerName, RelayFailure> {
        if let [only] = self.reached(&Scope::All).as_slice() {
            return Ok(only.settings.name.clone());
        }
        Err(RelayFailure::Answer(
            INVALID_PARAMS,
            "this method names no server; send it to /mcp/{server}".to_owned(),
        ))
    }
}

fn with(message: &Message, mut params: Object, key: &str, value: Text) -> Message {
    params.set(key, value);
    Message {
        body: Some(params.text()),
        ..message.clone()
    }
}

fn renamed(server: &ServerName, entries: &[Text]) -> Text {
    let entries = entries.iter().map(|entry| {
        let mut entry = entry.object().unwrap_or_default();
        let name = entry
            .get("name")
            .and_then(|name| name.as_str().map(std::borrow::Cow::into_owned))
            .unwrap_or_default();
        entry.set("name", Text::string(&Scope::All.name(server, &name)));
        entry.text()
    });
    Text::array(entries)
}

/// A template's literal start is enough to tell servers apart.
fn matches(known: &str, uri: &str) -> bool {
    match known.split_once('{') {
        Some((start, _)) => !start.is_empty() && uri.starts_with(start),
        None => known == uri,
    }
}

fn parse_cursor(cursor: &Text, servers: &[ServerName]) -> Option<(usize, Option<String>)> {
    let plain =
        String::from_utf8(URL_SAFE_NO_PAD.decode(cursor.as_str()?.as_bytes()).ok()?).ok()?;
    let (server, rest) = plain.split_once(' ')?;
    let at = servers.iter().position(|name| name.as_str() == server)?;
    Some((at, rest.strip_prefix('=').map(str::to_owned)))
}

fn no_such_page() -> RelayFailure {
    RelayFailure::Answer(
        INVALID_PARAMS,
        "`cursor` is not of this listing; list again without a cursor".to_owned(),
    )
}

pub(super) fn empty(era: Era, key: &str) -> Message {
    let result = match era {
        Era::Legacy => json!({ key: [] }),
        Era::Modern => {
            json!({ key: [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private" })
        }
    };
    Message::response(None, Text::of(&result), false)
}

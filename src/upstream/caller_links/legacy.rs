//! How an agent without a session gets a link to a legacy server.

use super::OpenedCallerLink;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::reply::Fault;
use crate::upstream::link::Link;
use crate::upstream::server::UpstreamServer;
use crate::upstream::shared_children::{ChildSeat, SeatInbox, Sitter};
use crate::upstream::{INBOX_MESSAGES_MAX, UnsolicitedReceiver};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A session at the server that is introduced with `params`.
pub(super) async fn opened(
    at: &UpstreamServer,
    caller: &Caller,
    params: &Text,
) -> Result<OpenedCallerLink, Fault> {
    let (link, answer, unsolicited, seat) = introduced(at, caller, params)
        .await
        .map_err(Fault::before_sending)?;
    if answer.is_error {
        link.close().await;
        return Err(Fault::unsent("the tool server refused `initialize`"));
    }
    if !seat.as_ref().is_some_and(|seat| seat.child().is_introduced) {
        link.notify(Message::notification("notifications/initialized", None))
            .await
            .map_err(Fault::before_sending)?;
    }
    let said = answer.body.unwrap_or_else(|| Text::of(&json!({})));
    let declared = params.get("capabilities");
    let declared = declared.unwrap_or_else(|| Text::of(&json!({})));
    Ok(OpenedCallerLink {
        link,
        said,
        declared,
        unsolicited,
        seat,
    })
}

/// A link to a legacy server as one agent has it, what the server answered to `initialize`, and what
/// it says outside requests.
async fn introduced(
    server: &UpstreamServer,
    caller: &Caller,
    params: &Text,
) -> Result<(Arc<Link>, Message, UnsolicitedReceiver, Option<ChildSeat>), Fault> {
    if !server.settings.is_child() {
        let (link, answer, unsolicited) = server.open(params, caller).await?;
        return Ok((link, answer, unsolicited, None));
    }
    let (inbox, unsolicited) = mpsc::channel(INBOX_MESSAGES_MAX);
    let (inbox, marks) = (SeatInbox::Link(inbox), None);
    let sitter = Sitter { inbox, marks };
    let (seat, answer) = server.join(caller, params, false, &sitter).await?;
    let seat = seat.ok_or_else(|| Fault::unsent("the tool server refused `initialize`"))?;
    Ok((seat.child().link.clone(), answer, unsolicited, Some(seat)))
}

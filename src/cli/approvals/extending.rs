//! `toolgate approvals extend`: a held call is given as long again as it had, once.

use super::{Args, ask, meant, parsed, path};
use crate::admin::approvals::extending::ExtensionReply;
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::{self, ReplyArgs};
use crate::cli::terminal::ids::TypedId;
use crate::mcp::json::Text;
use crate::mcp::pretty::plain;
use crate::model::ids::ActionId;
use serde_json::json;

/// Which call is given more time.
#[derive(Debug, clap::Args)]
pub(super) struct ApprovalExtendArgs {
    /// The approval's id, as `toolgate approvals` and the agent's answer have it, or its beginning or end
    id: TypedId,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// `shown` of the call as you looked at it: another is refused
    #[arg(long, value_name = "DIGEST")]
    shown: Option<String>,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// Gives it more time, and says until when.
pub(super) fn run(args: &Args, extend: &ApprovalExtendArgs) -> anyhow::Result<u8> {
    let id = match meant(args, &extend.id)? {
        Ok(id) => id,
        Err(why) => return Ok(operator::refused(&why)),
    };
    let request = request(id, extend.why.as_deref(), extend.shown.as_deref());
    let given = parsed::<ExtensionReply>(ask(args, request)?)?;
    extend.reply.show(given, |given| Ok(words(&given)))
}

/// Asks for more time for the call `id`, as it was `shown`.
pub(super) fn request(id: ActionId, why: Option<&str>, shown: Option<&str>) -> DoorRequest {
    let body = json!({ "why": why, "shown": shown });
    DoorRequest::post(format!("{}/extend", path(id)), Text::of(&body))
}

/// What came of it.
pub(super) fn words(given: &ExtensionReply) -> String {
    let (until, who) = (plain(&given.approve_by), plain(&given.who));
    format!("given more time by {who}: it can be decided until {until}\n")
}

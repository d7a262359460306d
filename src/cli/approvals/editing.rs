//! `toolgate approvals edit`: arguments of a held call are changed before it is allowed, where its
//! contract lets operators do that.

use super::{Args, ask, meant, parsed, path, whole};
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::{self, ReplyArgs};
use crate::cli::terminal::ids::TypedId;
use crate::mcp::json::Text;
use crate::store::approvals::OpenHold;
use crate::store::approvals::editing::value_of;
use serde_json::{Map, Value, json};

/// Changes of one call that are taken at once.
const MAX_CHANGES: usize = 8;

/// What is changed.
#[derive(Debug, clap::Args)]
pub(super) struct ApprovalEditArgs {
    /// The approval's id, as `toolgate approvals` and the agent's answer have it, or its beginning or end
    id: TypedId,
    /// The argument as a JSON pointer, and its new value, such as /amount=900: a text as it is where there is
    /// one, else JSON
    #[arg(required = true, value_name = "POINTER=VALUE", value_parser = written)]
    changes: Vec<(String, String)>,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// `shown` of the call as you looked at it: another is refused [default: as it is now]
    #[arg(long, value_name = "DIGEST")]
    shown: Option<String>,
    #[command(flatten)]
    reply: ReplyArgs,
}

fn written(change: &str) -> Result<(String, String), String> {
    let parts = change.split_once('=');
    let parts = parts.filter(|(pointer, _)| pointer.starts_with('/'));
    let (pointer, value) = parts.ok_or("write it as /argument=value")?;
    Ok((pointer.to_owned(), value.to_owned()))
}

/// Changes it, and shows it as it is then.
pub(super) fn run(args: &Args, edit: &ApprovalEditArgs) -> anyhow::Result<u8> {
    let refused = |why: String| Ok(operator::refused(&why));
    let id = match meant(args, &edit.id)? {
        Ok(id) => id,
        Err(why) => return refused(why),
    };
    if edit.changes.len() > MAX_CHANGES {
        return refused(format!(
            "at most {MAX_CHANGES} arguments are changed at once"
        ));
    }
    let hold: OpenHold = match ask(args, DoorRequest::get(path(id)))? {
        Ok(told) => told.parse()?,
        Err(why) => return refused(why),
    };
    let mut changes = Map::new();
    for (pointer, written) in &edit.changes {
        let arguments = hold.arguments.as_ref();
        let current = arguments.and_then(|arguments| arguments.pointer(pointer));
        match value_of(current, written) {
            Ok(value) => changes.insert(pointer.clone(), value),
            Err(why) => return refused(format!("{pointer}: {why}")),
        };
    }
    let shown = edit.shown.as_ref().unwrap_or(&hold.shown);
    let body = json!({ "changes": Value::Object(changes), "why": edit.why, "shown": shown });
    let request = DoorRequest::post(format!("{}/edit", path(id)), Text::of(&body));
    let edited = parsed::<OpenHold>(ask(args, request)?)?;
    edit.reply.show(edited, |hold| {
        let next = format!(
            "\nIt does not run yet. If this is what may run:\ntoolgate approvals allow {} --shown {} --why …\n",
            hold.id, hold.shown
        );
        Ok(whole(&hold) + &next)
    })
}

//! The undos that were asked for, or tried, and are not done. Through the operators' door of a running
//! toolgate; on the data directory itself when none runs.

use super::Args;
use crate::admin::undo::queue::{DroppedReply, WantedUndoList};
use crate::cli::ledger::text::plain;
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::{direct, print, refused};
use crate::cli::table::{Column, Table};
use crate::cli::terminal::Terminal;
use crate::cli::terminal::ids::TypedId;
use crate::config::DataPlace;
use crate::mcp::json::Text;
use crate::model::ids::ActionId;
use crate::store::undos::wanted::{WantedUndo, wanted};
use crate::store::undos::{DroppedUndo, NoUndo, drop_asked};
use serde_json::json;

/// How they are listed.
static WANTED_UNDOS: Table<6> = Table([
    Column::id("ACTION ID"),
    Column::text("STATE").least(8),
    Column::time("SINCE"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("UNDO").least(16),
    Column::text("NEXT").rank(2),
]);

/// Lists them; 0.
pub(super) fn shown(args: &Args, place: &DataPlace) -> anyhow::Result<u8> {
    let undos = match all(args, place)? {
        Ok(WantedUndoList { undos }) => undos,
        Err(why) => return Ok(refused(&why)),
    };
    let mut out = String::new();
    if args.json {
        for undo in &undos {
            out += &serde_json::to_string(undo)?;
            out.push('\n');
        }
    } else {
        out = table(Terminal::stdout(), &undos);
    }
    print(&out).map(|()| 0)
}

fn all(args: &Args, place: &DataPlace) -> anyhow::Result<Result<WantedUndoList, String>> {
    let request = DoorRequest::get("/api/undos");
    args.door.ask_anyone(place, request, async |journal| {
        direct::with_store(place, journal, async |store| {
            let undos = wanted(store, None).await?;
            Ok(Ok(WantedUndoList { undos }))
        })
        .await
    })
}

/// The call that is meant, of those whose undo is asked for and not done.
pub(super) fn meant(
    args: &Args,
    place: &DataPlace,
    id: &TypedId,
) -> anyhow::Result<Result<ActionId, String>> {
    let all = all(args, place)?;
    Ok(all.and_then(|all| {
        let ids = all.undos.iter().map(|undo| undo.action_id.as_str());
        id.choose(ids, "open undo")
    }))
}

/// Drops what was asked for of `of`; 0 when it was.
pub(super) fn dropped(args: &Args, place: &DataPlace, of: ActionId) -> anyhow::Result<u8> {
    let why = args.why.clone().unwrap_or_default();
    let body = Text::of(&json!({ "why": why }));
    let request = DoorRequest::post(format!("/api/undos/{of}/drop"), body);
    let answer = args.door.ask_anyone(place, request, async |journal| {
        let who = direct::system_user();
        let reply = DroppedReply {
            action_id: of.to_string(),
            who: who.clone(),
        };
        let said = DroppedUndo { of, who, why };
        direct::with_store(place, journal, async |store| {
            match drop_asked(store, said).await {
                Ok(()) => Ok(Ok(reply)),
                Err(NoUndo::Store(error)) => Err(error.into()),
                Err(why) => Ok(Err(why.to_string())),
            }
        })
        .await
    })?;
    let reply: DroppedReply = match answer {
        Ok(reply) => reply,
        Err(why) => return Ok(refused(&why)),
    };
    let who = plain(&reply.who);
    args.say(&reply, || {
        format!("dropped by {who}: nothing is called for it unless an operator asks anew\n")
    })?;
    Ok(0)
}

fn table(terminal: Terminal, undos: &[WantedUndo]) -> String {
    if undos.is_empty() {
        return "no undo is asked for and not done\n".to_owned();
    }
    let row = |undo: &WantedUndo| {
        let WantedUndo {
            action_id,
            state,
            since,
            agent,
            undo_tool,
            next,
            ..
        } = undo;
        [action_id, state, since, agent, undo_tool, next].map(|cell| plain(cell))
    };
    let rows = undos.iter().map(row).collect();
    WANTED_UNDOS.lines(terminal, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 003-64: each open undo says what is next, at a width that cuts nothing off.
    #[test]
    fn an_open_undo_says_what_is_next() {
        let undo = WantedUndo {
            action_id: "019abc00-0000-7001-8000-0000aaaa1111".to_owned(),
            state: "failed".to_owned(),
            since: "2026-11-28T09:30:00Z".to_owned(),
            until: "2026-11-29T09:30:00Z".to_owned(),
            agent: "bot".to_owned(),
            user: None,
            tool: "bank__draft".to_owned(),
            undo_tool: "bank__bin".to_owned(),
            by: Some("bbbb2222".to_owned()),
            who: Some("rita".to_owned()),
            why: Some("a typo".to_owned()),
            next: "`toolgate undo X --why …` tries again".to_owned(),
        };
        let pipe = || Terminal::of(None, "2026-11-28T12:00:00Z");
        let lines = table(pipe(), std::slice::from_ref(&undo));
        for part in [&undo.action_id, "failed", "bank__bin", &undo.next] {
            assert!(lines.contains(part), "{lines}");
        }
        assert!(table(pipe(), &[]).contains("no undo"), "{lines}");
    }
}

//! `toolgate approvals grants`: calls that run without each being asked about, because an operator has
//! said so.

mod explaining;

use super::grant_args::GrantTermArgs;
use super::{Args, ask, parsed};
use crate::admin::grants::{GrantList, RevocationReply};
use crate::cli::configured;
use crate::cli::ledger::text::json;
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::{self, ReplyArgs};
use crate::cli::table::{Column, Table};
use crate::cli::terminal::Terminal;
use crate::cli::terminal::ids::TypedId;
use crate::mcp::json::Text;
use crate::mcp::pretty::plain;
use crate::model::ids::ActionId;
use crate::store::grants::view::GrantView;
use explaining::GrantExplainArgs;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Lists, explains, adds and takes back standing grants.
#[derive(Debug, clap::Args)]
pub(super) struct GrantsArgs {
    #[command(subcommand)]
    verb: Option<GrantsVerb>,
}

#[derive(Debug, clap::Subcommand)]
enum GrantsVerb {
    /// List them, the newest first, with those that ended not long ago; also without a verb
    List(GrantsListArgs),
    /// Show all of one: what it covers, and what is left of it
    Show(GrantShowArgs),
    /// Take one back: from then on no call begins with it
    Revoke(GrantRevokeArgs),
    /// Say whether a grant can still cover a call, or which would cover this one and why others do not
    Explain(GrantExplainArgs),
    /// Grant calls of a tool that no call waits for
    Add(GrantAddArgs),
}

#[derive(Debug, Default, clap::Args)]
struct GrantsListArgs {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct GrantShowArgs {
    /// The grant's id, or its beginning or end
    id: TypedId,
    /// One JSON object on a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct GrantRevokeArgs {
    /// The grant's id, or its beginning or end
    id: TypedId,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    reply: ReplyArgs,
}

#[derive(Debug, Clone, clap::Args)]
struct GrantCallerArgs {
    /// The agent that calls
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Its tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// The user for whom it calls; without one, calls that name none
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

#[derive(Debug, clap::Args)]
struct GrantAddArgs {
    /// The tool, such as `bank__pay`
    #[arg(long, value_name = "TOOL", required = true)]
    tool: String,
    #[command(flatten)]
    caller: GrantCallerArgs,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    terms: GrantTermArgs,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// Runs the verb; 0 when it was done, 1 when it was refused.
pub(super) fn run(args: &Args, grants: &GrantsArgs) -> anyhow::Result<u8> {
    let without = GrantsVerb::List(GrantsListArgs::default());
    match grants.verb.as_ref().unwrap_or(&without) {
        GrantsVerb::List(list) => {
            let told = ask(args, DoorRequest::get("/api/grants"))?;
            operator::show(told, |told| {
                let GrantList { grants, more } = told.parse()?;
                if more > 0 {
                    configured::say(&format!("toolgate: {more} older ones are not listed"));
                }
                listed(list, &grants)
            })
        }
        GrantsVerb::Show(show) => operator::show(one(args, &show.id)?, |told| {
            if show.json {
                return line(&told);
            }
            Ok(whole(&told.parse()?))
        }),
        GrantsVerb::Revoke(revoke) => {
            let id = match meant(args, &revoke.id)? {
                Ok(id) => id,
                Err(why) => return Ok(operator::refused(&why)),
            };
            let body = Text::of(&json!({ "why": revoke.why }));
            let path = format!("{}/revoke", path(id));
            let told = parsed(ask(args, DoorRequest::post(path, body))?)?;
            revoke.reply.show(told, |told| Ok(revoked(&told)))
        }
        GrantsVerb::Explain(explain) => explaining::run(args, explain),
        GrantsVerb::Add(add) => added(args, add),
    }
}

fn path(id: ActionId) -> String {
    format!("/api/grants/{id}")
}

/// What the door says of the grant that is meant.
fn one(args: &Args, id: &TypedId) -> anyhow::Result<Result<Text, String>> {
    match meant(args, id)? {
        Ok(id) => ask(args, DoorRequest::get(path(id))),
        Err(why) => Ok(Err(why)),
    }
}

/// Which grant is meant, of those that are listed unless its id was typed whole.
fn meant(args: &Args, id: &TypedId) -> anyhow::Result<Result<ActionId, String>> {
    if let Some(whole) = id.whole() {
        return Ok(Ok(whole));
    }
    let told = parsed::<GrantList>(ask(args, DoorRequest::get("/api/grants"))?)?;
    Ok(told.and_then(|told| {
        let ids = told.grants.iter().map(|grant| grant.id.as_str());
        id.choose(ids, "grant")
    }))
}

fn line(told: &Text) -> anyhow::Result<String> {
    Ok(json(&serde_json::to_string(&told.value())?) + "\n")
}

fn added(args: &Args, add: &GrantAddArgs) -> anyhow::Result<u8> {
    let GrantCallerArgs {
        agent,
        tenant,
        user,
    } = &add.caller;
    let terms = add.terms.terms();
    let (Some(agent), Ok(terms)) = (agent, &terms) else {
        let wrong = terms.err();
        let wrong = wrong.unwrap_or_else(|| "say with --agent whose calls".to_owned());
        return Ok(operator::misused(&wrong));
    };
    let mut body = json!({ "agent": agent, "tool": add.tool, "why": add.why, "grant": terms });
    put(&mut body, "tenant", tenant.as_ref());
    put(&mut body, "user", user.as_ref());
    let request = DoorRequest::post("/api/grants", Text::of(&body));
    let view = parsed::<GrantView>(ask(args, request)?)?;
    add.reply.show(view, |view| {
        Ok(format!("granted: {}\n{}", plain(&view.id), whole(&view)))
    })
}

fn put(body: &mut Value, key: &str, said: Option<&String>) {
    if let (Some(said), Some(members)) = (said, body.as_object_mut()) {
        members.insert(key.to_owned(), json!(said));
    }
}

fn revoked(told: &RevocationReply) -> String {
    if told.changed {
        format!(
            "taken back by {}: no call begins with it any more\n",
            plain(&told.who)
        )
    } else {
        "nothing changes: it was taken back before\n".to_owned()
    }
}

/// How grants are listed.
static GRANTS: Table<7> = Table([
    Column::id("ID"),
    Column::text("STATE").least(8).tone(super::state_tone),
    Column::time("UNTIL"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("TOOL").least(16),
    Column::text("USED").rank(2),
    Column::text("BY").rank(3).least(8),
]);

fn listed(list: &GrantsListArgs, grants: &[GrantView]) -> anyhow::Result<String> {
    let mut out = String::new();
    if list.json {
        for grant in grants {
            writeln!(out, "{}", json(&serde_json::to_string(grant)?))?;
        }
        return Ok(out);
    }
    if grants.is_empty() {
        return Ok("there are no standing grants\n".to_owned());
    }
    let row = |grant: &GrantView| {
        let asking = match &grant.user {
            Some(user) => format!("{} for {user}", grant.agent),
            None => grant.agent.clone(),
        };
        let cells = [
            &grant.id,
            &grant.state,
            &grant.until,
            &asking,
            &grant.tool,
            &format!("{} of {}", grant.uses, grant.max_uses),
            &grant.who,
        ];
        cells.map(|text| plain(text))
    };
    Ok(GRANTS.lines(Terminal::stdout(), grants.iter().map(row).collect()))
}

/// All of a grant, each constraint on a line of its own.
pub(super) fn whole(grant: &GrantView) -> String {
    let mut out = String::new();
    let total = grant.total.as_ref().map(|total| {
        format!(
            "{} of {} moved, added up from {}",
            total.moved, total.at_most, total.pointer
        )
    });
    let beside = "what the call that was shown brought beside its arguments";
    let used = format!("{} of {}", grant.uses, grant.max_uses);
    let fields = [
        ("id", Some(&grant.id)),
        ("state", Some(&grant.state)),
        ("because", grant.reason.as_ref()),
        ("agent", Some(&grant.agent)),
        ("tenant", grant.tenant.as_ref()),
        ("for user", grant.user.as_ref()),
        ("tool", Some(&grant.tool)),
        ("used", Some(&used)),
        ("total", total.as_ref()),
        ("until", Some(&grant.until)),
        ("granted", Some(&grant.minted)),
        ("by", Some(&grant.who)),
        ("why", Some(&grant.why)),
        ("approval", grant.approval.as_ref()),
        ("last used", grant.last_used.as_ref()),
    ];
    for (name, text) in fields {
        if let Some(text) = text {
            let _ = writeln!(out, "{name:<15} {}", plain(text));
        }
    }
    if grant.beside {
        let _ = writeln!(out, "{:<15} {beside}", "brings");
    }
    out.push_str("arguments       nothing but these\n");
    for one in &grant.constraints {
        let _ = writeln!(out, "  {}", plain(&rule(one)));
    }
    out
}

/// A constraint in a line.
fn rule(one: &Value) -> String {
    let pointer = one["pointer"].as_str().unwrap_or_default();
    let name = if pointer.is_empty() {
        "all of them"
    } else {
        pointer
    };
    let said = one.as_object().into_iter().flatten();
    let mut said = said.filter(|(key, _)| *key != "pointer");
    match said.next() {
        Some((key, value)) if key == "any" && value == &json!(true) => format!("{name} anything"),
        Some((key, value)) => format!("{name} {} {value}", key.replace('_', " ")),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D24: grants at 80 columns and at 160.
    #[test]
    fn grants_have_room_on_a_terminal() {
        let grant = |id: &str, state: &str, until: &str| {
            let grant = json!({
                "id": format!("019abc00-0000-7001-8000-0000{id}"), "state": state, "agent": "billing-agent",
                "tool": "bank__transfer_between_accounts", "constraints": [], "uses": 3, "max_uses": 100,
                "minted": "2026-11-20T12:00:00Z", "until": until, "who": "ann", "why": "rent", "roles": [], "schema_hash": "",
            });
            serde_json::from_value::<GrantView>(grant).unwrap()
        };
        let grants = [
            grant("aaaa1111", "active", "2026-12-01T12:00:00Z"),
            grant("bbbb2222", "revoked", "2027-11-28T12:00:00Z"),
        ];
        let list = GrantsListArgs::default();
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || listed(&list, &grants).unwrap());
        insta::assert_snapshot!("grants", shown);
    }
}

//! `toolgate approvals`: calls that are held until operators decide, and what an operator says of
//! them. Through the operators' door of a running toolgate only: where none runs, nobody waits.

mod desktop;
mod editing;
mod extending;
mod grant_args;
mod grants;
pub(super) mod keys;
mod screen;
mod taken;
mod waiting;
mod watching;

use super::configured::{self, DataArgs};
use super::ledger::text::json;
use super::operator::door::DoorRequest;
use super::operator::{self, DoorArgs, ReplyArgs};
use super::table::{Column, Table};
use super::terminal::ids::TypedId;
use super::terminal::{Terminal, Tone};
use crate::admin::approvals::{ApprovalList, DecisionReply, word_of};
use crate::admin::looks::{REFRESHED, REFRESHED_LIST};
use crate::mcp::json::Text;
use crate::mcp::pretty::{plain, pretty};
use crate::model::ids::ActionId;
use crate::store::approvals::OpenHold;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Lists and decides on calls that are held. toolgate has to be running.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<ApprovalsVerb>,
    #[command(flatten)]
    place: DataArgs,
    #[command(flatten)]
    door: DoorArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ApprovalsVerb {
    /// List the calls that wait for operators, or that were allowed and have not run, the oldest
    /// first; also without a verb
    List(ApprovalsListArgs),
    /// Show all of a held call: what it is for, and what exactly will run
    Show(ApprovalShowArgs),
    /// Let the call run once, exactly as it is shown; with --always, calls like it, too
    Allow(AllowArgs),
    /// Refuse the call, and for a while the same call again
    Deny(DenyArgs),
    /// Change arguments that the call's contract lets operators change, before it is allowed; what was said of
    /// it before is void
    Edit(editing::ApprovalEditArgs),
    /// Give the call as much time again as it had, once
    Extend(extending::ApprovalExtendArgs),
    /// Wait until the call is decided: exits with 0 when it was allowed, 1 when it was denied, 3 when
    /// nobody has decided in time or it did not run in time, 4 when its agent cancelled it, 2 when nothing
    /// can be found out
    Wait(waiting::ApprovalWaitArgs),
    /// Watch the calls that wait as they come, and decide with a key: at a terminal, or as lines for
    /// programs
    Watch(watching::ApprovalWatchArgs),
    /// Standing grants: calls that run without each being asked about
    Grants(grants::GrantsArgs),
}

#[derive(Debug, Default, clap::Args)]
struct ApprovalsListArgs {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ApprovalShowArgs {
    /// The approval's id, as `toolgate approvals` and the agent's answer have it, or its beginning or end
    id: TypedId,
    /// One JSON object on a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct DecisionArgs {
    /// The approval's id, as `toolgate approvals` and the agent's answer have it, or its beginning or end
    id: TypedId,
    /// Why; stands in the ledger for good, with your name. The agent reads why it was denied
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    reply: ReplyArgs,
}

#[derive(Debug, clap::Args)]
struct DenyArgs {
    /// The approval's id, as `toolgate approvals` and the agent's answer have it, or its beginning or end
    id: TypedId,
    /// Why; stands in the ledger for good, with your name. The agent reads it
    #[arg(long, value_name = "TEXT", required_unless_present = "preset")]
    why: Option<String>,
    /// The reason of that number among those that the call's contract has, from 1
    #[arg(long, value_name = "N", conflicts_with = "why", value_parser = clap::value_parser!(u8).range(1..=3))]
    preset: Option<u8>,
    #[command(flatten)]
    reply: ReplyArgs,
}

#[derive(Debug, clap::Args)]
struct AllowArgs {
    #[command(flatten)]
    word: DecisionArgs,
    /// `shown` of the call as you looked at it: another is refused. Needed where an operator has changed it
    #[arg(long, value_name = "DIGEST")]
    shown: Option<String>,
    /// Let calls like it run, too, without asking about each: as it is shown, but for what you say
    #[arg(long)]
    always: bool,
    #[command(flatten)]
    terms: grant_args::GrantTermArgs,
}

/// Runs the verb; 0 when it was done, 1 when it was refused.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let without = ApprovalsVerb::List(ApprovalsListArgs::default());
    let verb = args.verb.as_ref().unwrap_or(&without);
    match verb {
        ApprovalsVerb::List(list) => {
            // What a program reads, nobody has looked at.
            let path = if list.json {
                REFRESHED_LIST
            } else {
                "/api/approvals"
            };
            let open = ask(args, DoorRequest::get(path))?;
            operator::show(open, |told| {
                let ApprovalList { approvals, more } = told.parse()?;
                if more > 0 {
                    configured::say(&format!(
                        "toolgate: {more} more are listed when some of these are decided or over"
                    ));
                }
                listed(list, &approvals)
            })
        }
        ApprovalsVerb::Show(show) => {
            let told = match meant(args, &show.id)? {
                Ok(id) => {
                    let asked = if show.json { REFRESHED } else { "" };
                    ask(args, DoorRequest::get(path(id) + asked))?
                }
                Err(why) => Err(why),
            };
            operator::show(told, |told| {
                Ok(if show.json {
                    json(&serde_json::to_string(&told.value())?) + "\n"
                } else {
                    whole(&told.parse()?)
                })
            })
        }
        ApprovalsVerb::Allow(allow) => self::allow(args, allow),
        ApprovalsVerb::Deny(deny) => self::deny(args, deny),
        ApprovalsVerb::Edit(edit) => editing::run(args, edit),
        ApprovalsVerb::Extend(extend) => extending::run(args, extend),
        ApprovalsVerb::Wait(wait) => waiting::run(args, wait),
        ApprovalsVerb::Watch(watch) => watching::run(args, watch),
        ApprovalsVerb::Grants(grants) => grants::run(args, grants),
    }
}

fn path(id: ActionId) -> String {
    format!("/api/approvals/{id}")
}

/// Which call is meant, of those that are listed unless its id was typed whole.
fn meant(args: &Args, id: &TypedId) -> anyhow::Result<Result<ActionId, String>> {
    if let Some(whole) = id.whole() {
        return Ok(Ok(whole));
    }
    let told = parsed::<ApprovalList>(ask(args, DoorRequest::get("/api/approvals"))?)?;
    Ok(told.and_then(|told| {
        let ids = told.approvals.iter().map(|hold| hold.id.as_str());
        id.choose(ids, "held call")
    }))
}

/// What the door has said, read; or why it refuses.
fn parsed<T: DeserializeOwned>(told: Result<Text, String>) -> anyhow::Result<Result<T, String>> {
    Ok(match told {
        Ok(told) => Ok(told.parse()?),
        Err(why) => Err(why),
    })
}

fn allow(args: &Args, allow: &AllowArgs) -> anyhow::Result<u8> {
    let terms = match allow.terms.terms() {
        Ok(_) if !allow.always && !allow.terms.is_empty() => {
            Err("what is said of like calls counts with --always".to_owned())
        }
        terms => terms,
    };
    match terms {
        Err(wrong) => Ok(operator::misused(&wrong)),
        Ok(terms) => {
            let id = match meant(args, &allow.word.id)? {
                Ok(id) => id,
                Err(why) => return Ok(operator::refused(&why)),
            };
            let mut body = json!({ "decision": "allow", "why": allow.word.why });
            if allow.always {
                body["decision"] = json!("allow-always");
                body["grant"] = json!(terms);
            }
            if let Some(shown) = &allow.shown {
                body["shown"] = json!(shown);
            }
            decide(args, id, allow.word.reply, &body)
        }
    }
}

fn deny(args: &Args, deny: &DenyArgs) -> anyhow::Result<u8> {
    let id = match meant(args, &deny.id)? {
        Ok(id) => id,
        Err(why) => return Ok(operator::refused(&why)),
    };
    let why = match (&deny.why, deny.preset) {
        (Some(why), _) => Ok(why.clone()),
        (None, preset) => preset_reason(args, id, preset.unwrap_or(1))?,
    };
    match why {
        Ok(why) => {
            let body = json!({ "decision": "deny", "why": why });
            decide(args, id, deny.reply, &body)
        }
        Err(why) => Ok(operator::refused(&why)),
    }
}

/// The reason of that number, from 1, of the call's contract.
fn preset_reason(args: &Args, id: ActionId, number: u8) -> anyhow::Result<Result<String, String>> {
    let hold: OpenHold = match ask(args, DoorRequest::get(path(id)))? {
        Ok(told) => told.parse()?,
        Err(why) => return Ok(Err(why)),
    };
    let reasons = hold.terms.deny_reasons;
    let named = reasons.get(usize::from(number).saturating_sub(1)).cloned();
    Ok(named.ok_or_else(|| {
        format!(
            "the call's contract has {} reasons to choose from (`approval.deny_reasons`)",
            reasons.len()
        )
    }))
}

fn decide(args: &Args, id: ActionId, reply: ReplyArgs, body: &Value) -> anyhow::Result<u8> {
    let request = DoorRequest::post(path(id), Text::of(body));
    let decided = parsed::<DecisionReply>(ask(args, request)?)?;
    reply.show(decided, |decided| Ok(taken::words(&decided)))
}

fn ask(args: &Args, request: DoorRequest) -> anyhow::Result<Result<Text, String>> {
    let door = args.door.of_record(&args.place)?;
    let nobody = format!(
        "no operators' door answers at {}: calls are held, and decided, while toolgate runs; start it, or name its \
         address with --admin",
        door.address
    );
    door.ask(request, &nobody)
}

/// How held calls are listed.
static OPEN_HOLDS: Table<7> = Table([
    Column::id("ID"),
    Column::text("STATE").least(7).tone(state_tone),
    Column::time("UNTIL"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("TOOL").least(16),
    Column::text("ALLOWED").rank(2),
    Column::text("ROLES").rank(3).least(8),
]);

/// How the state of a held call or of a grant is to be taken.
fn state_tone(state: &str) -> Option<Tone> {
    match state {
        "pending" => Some(Tone::Warn),
        "allowed" | "active" => Some(Tone::Good),
        "denied" | "revoked" | "dead" => Some(Tone::Bad),
        _ => None,
    }
}

fn listed(list: &ApprovalsListArgs, holds: &[OpenHold]) -> anyhow::Result<String> {
    let mut out = String::new();
    if list.json {
        for hold in holds {
            writeln!(out, "{}", json(&serde_json::to_string(hold)?))?;
        }
        return Ok(out);
    }
    Ok(listed_rows(Terminal::stdout(), holds))
}

/// A line for each of them, below a head.
fn listed_rows(terminal: Terminal, holds: &[OpenHold]) -> String {
    if holds.is_empty() {
        return "no call waits for an operator\n".to_owned();
    }
    let row = |hold: &OpenHold| {
        let asking = match &hold.user {
            Some(user) => format!("{} for {user}", hold.agent),
            None => hold.agent.clone(),
        };
        let cells = [
            &hold.id,
            &hold.state,
            hold.execute_by.as_ref().unwrap_or(&hold.approve_by),
            &asking,
            &hold.tool,
            &format!("{} of {}", hold.allowed_by.len(), hold.needed),
            &hold.roles.join(", "),
        ];
        cells.map(|text| plain(text))
    };
    OPEN_HOLDS.lines(terminal, holds.iter().map(row).collect())
}

/// Everything of a held call; nothing is cut, and what does not print is written out
/// (threat-model §3E E5).
fn whole(hold: &OpenHold) -> String {
    let mut out = String::new();
    for (name, text) in fields(hold) {
        if let Some(text) = text {
            let _ = writeln!(out, "{name:<15} {}", plain(&text));
        }
    }
    for edit in &hold.edits {
        let _ = writeln!(
            out,
            "{:<15} {}  {} by {}: {}",
            "changed",
            plain(&edit.at),
            plain(&edit.pointers.join(", ")),
            plain(&edit.who),
            plain(&edit.why)
        );
    }
    for said in &hold.decisions {
        let word = word_of(hold, said);
        let _ = writeln!(
            out,
            "{word:<15} {}  by {}{}: {}",
            plain(&said.at),
            plain(&said.who),
            for_whom(said.on_behalf.as_deref()),
            plain(&said.why)
        );
    }
    match &hold.arguments {
        Some(arguments) => {
            let _ = writeln!(out, "arguments\n{}", pretty(arguments));
        }
        None => out.push_str(
            "arguments       shown to operators who may decide about the call or have a role of `admin.verbs.audit`\n",
        ),
    }
    if let Some(unedited) = &hold.unedited {
        let _ = writeln!(out, "before operators changed them\n{}", pretty(unedited));
    }
    if let Some(original) = &hold.original {
        let by = plain(&hold.changed_by.join(", "));
        let _ = writeln!(
            out,
            "as the agent sent them, before {by}\n{}",
            pretty(original)
        );
    }
    if let Some(answers) = &hold.answers {
        let _ = writeln!(
            out,
            "answers to what the tool server asked\n{}",
            pretty(answers)
        );
    }
    if let Some(beside) = &hold.beside {
        let _ = writeln!(out, "travels beside the arguments\n{}", pretty(beside));
    }
    out
}

/// In whose place an operator has spoken, if in anybody's.
fn for_whom(away: Option<&str>) -> String {
    away.map_or_else(String::new, |away| format!(" for {}", plain(away)))
}

/// What is known of it in a word or two.
fn fields(hold: &OpenHold) -> [(&'static str, Option<String>); 31] {
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    let words = |words: &[String]| (!words.is_empty()).then(|| words.join(", "));
    let needs_why = hold.terms.needs_why.then(|| "a reason".to_owned());
    let is_edited = !hold.edits.is_empty();
    let needs = format!(
        "{} with one of the roles {}",
        hold.needed,
        hold.roles.join(", ")
    );
    [
        ("id", Some(hold.id.clone())),
        ("state", Some(hold.state.clone())),
        ("void", hold.void.clone()),
        ("agent", Some(hold.agent.clone())),
        ("tenant", hold.tenant.clone()),
        ("for user", hold.user.clone()),
        (
            "agent's roles",
            not_bound(words(&hold.caller_roles).as_ref()),
        ),
        ("tool", Some(hold.tool.clone())),
        ("purpose", Some(hold.purpose.clone())),
        ("not for", hold.not_for.clone()),
        ("actions", words(&hold.actions)),
        ("changes", hold.writes.clone()),
        ("irreversible", Some(yes(hold.irreversible).to_owned())),
        ("undo", hold.undo_words()),
        ("over limit", hold.over.clone()),
        ("why it asks", hold.because.clone()),
        ("budget left", hold.left.clone()),
        ("session", not_bound(hold.session.as_ref())),
        ("task", not_bound(hold.task.as_ref())),
        ("asked", Some(hold.asked.clone())),
        ("decide before", Some(hold.approve_by.clone())),
        ("runs before", hold.execute_by.clone()),
        ("needs", Some(needs)),
        ("self-approval", Some(yes(hold.self_approval).to_owned())),
        ("may be changed", words(&hold.terms.may_edit)),
        ("deny because", words(&hold.terms.deny_reasons)),
        ("allow needs", needs_why),
        ("shown as", is_edited.then(|| hold.shown.clone())),
        ("ran as", hold.used_by.clone()),
        ("policy", Some(hold.policy.clone())),
        ("schema", Some(hold.schema_hash.clone())),
    ]
}

/// What is shown of a call and is not part of what is decided: the same call may bring another.
fn not_bound(shown: Option<&String>) -> Option<String> {
    shown.map(|text| format!("{text} (not bound)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D24: held calls at 80 columns and at 160.
    #[test]
    fn held_calls_have_room_on_a_terminal() {
        let hold = |id: &str, state: &str, user: Option<&str>| {
            let hold = json!({
                "id": format!("019abc00-0000-7001-8000-0000{id}"), "state": state, "asked": "2026-11-28T11:59:00Z",
                "approve_by": "2026-11-28T12:09:00Z", "agent": "billing-agent", "user": user, "caller_roles": [],
                "tool": "bank__transfer_between_accounts", "actions": [], "irreversible": true, "purpose": "Pay a bill.",
                "policy": "", "schema_hash": "", "needed": 2, "allowed_by": ["ann"], "roles": ["approver", "treasurer"],
                "self_approval": false, "decisions": [],
            });
            serde_json::from_value::<OpenHold>(hold).unwrap()
        };
        let holds = [
            hold("aaaa1111", "pending", None),
            hold("bbbb2222", "allowed", Some("ada")),
        ];
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
            listed_rows(Terminal::stdout(), &holds)
        });
        insta::assert_snapshot!("held_calls", shown);
    }
}

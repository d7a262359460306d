//! `toolgate approvals watch`: the calls that wait, as they come, with a key for each word.

use super::desktop::DesktopNotes;
use super::keys::{KeyTerminal, typed};
use super::screen::{SURE_TIMEOUT, ScreenPrompt, SureQuestion, screen};
use super::waiting::UNDECIDED_EXIT_CODE;
use super::{Args, extending, path, taken};
use crate::admin::approvals::{ApprovalList, DecisionReply};
use crate::admin::looks::REFRESHED_LIST;
use crate::cli::configured;
use crate::cli::ledger::text::json;
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::{self, AskedDoor, print};
use crate::cli::printed::{is_closed_pipe, print_while_read};
use crate::cli::runtime::{runtime, told_to_end};
use crate::guards::allowlist::ToolPattern;
use crate::mcp::json::Text;
use crate::mcp::pretty::plain;
use crate::model::clock::Clock;
use crate::model::diagnostic::Problems;
use crate::store::approvals::OpenHold;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stdout};
use std::time::Duration;
use tokio::sync::mpsc;

/// How often the screen is drawn anew where nothing happens: times go on.
const DRAW_INTERVAL: Duration = Duration::from_secs(10);
/// After which time one asks again where nothing answers.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Clears the screen, and goes to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";
const BELL: &str = "\x07";
/// What waits, for a person who asks.
const LIST: &str = "/api/approvals";

/// What is watched, and how it is shown.
#[derive(Debug, clap::Args)]
pub(super) struct ApprovalWatchArgs {
    /// Show calls of this tool only: `server__tool`, or with * for any letters
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Leave once the first call that waits is decided: with 0 when it was allowed, 1 when it was denied,
    /// 3 when nobody decided in time, or you leave before, 4 when its agent cancelled it
    #[arg(long)]
    once: bool,
    /// One JSON object per line for each call that comes (`requested`) or changes, and no keys
    #[arg(long)]
    json: bool,
    /// Show each call that comes on the desktop, too, by `notify-send`; none of its arguments
    #[arg(long)]
    notify_send: bool,
}

/// Watches until it is left; the exit code.
pub(super) fn run(args: &Args, watch: &ApprovalWatchArgs) -> anyhow::Result<u8> {
    let mut problems = Problems::default();
    let compile = |tool: &String| ToolPattern::compile(tool, &mut problems);
    let pattern = watch.tool.as_ref().map(compile);
    if pattern == Some(None) {
        let wrong = "--tool is a name such as billing__pay, or with * for any letters";
        return Ok(operator::misused(wrong));
    }
    let mut watching = Watching {
        door: args.door.of_record(&args.place)?,
        pattern: pattern.flatten(),
        watch,
        known: BTreeMap::new(),
        chosen: None,
        said: String::new(),
        prompt: ScreenPrompt::Unattended,
        desktop: None,
    };
    let (is_typed, left) = (watching.is_typed(), watching.left());
    runtime()?.block_on(async {
        // Whatever ends it at a terminal, that is given back as it was.
        tokio::select! {
            code = Box::pin(watching.go()) => match code {
                Err(error) if is_closed_pipe(&error) => Ok(left),
                code => code,
            },
            () = told_to_end(), if is_typed => Ok(left),
        }
    })
}

struct Watching<'a> {
    door: AskedDoor<'a>,
    watch: &'a ApprovalWatchArgs,
    /// Which tools are watched; none: all.
    pattern: Option<ToolPattern>,
    /// The calls that wait, by their ids.
    known: BTreeMap<String, OpenHold>,
    chosen: Option<String>,
    said: String,
    prompt: ScreenPrompt,
    /// Where calls are shown that come after the first look.
    desktop: Option<DesktopNotes>,
}

impl Watching<'_> {
    /// Whether a person may be there who types.
    fn is_typed(&self) -> bool {
        !self.watch.json && stdout().is_terminal()
    }

    /// The exit code of one that is left before anything is known.
    fn left(&self) -> u8 {
        if self.watch.once {
            UNDECIDED_EXIT_CODE
        } else {
            0
        }
    }

    async fn go(&mut self) -> anyhow::Result<u8> {
        let terminal = self.is_typed().then(KeyTerminal::open).flatten();
        // Where nobody types, no key ever comes.
        let (nobody, mut keys) = mpsc::channel(1);
        if terminal.is_some() {
            keys = typed();
        }
        if terminal.is_some() {
            self.prompt = ScreenPrompt::Keys;
        }
        // The first look says at once why nothing can be watched.
        let first = if self.is_typed() {
            LIST
        } else {
            REFRESHED_LIST
        };
        self.look(first).await?.map_err(anyhow::Error::msg)?;
        if self.watch.notify_send {
            self.desktop = DesktopNotes::open();
            if self.desktop.is_none() {
                configured::say(
                    "toolgate: no `notify-send` in PATH: nothing is shown on the desktop",
                );
            }
        }
        let mut events = self.listen();
        let _open = nobody;
        loop {
            if let Some(code) = self.ended().await? {
                return Ok(code);
            }
            let wait = match self.prompt {
                ScreenPrompt::Sure(_) => SURE_TIMEOUT,
                ScreenPrompt::Keys | ScreenPrompt::Unattended => DRAW_INTERVAL,
            };
            let key = tokio::select! {
                key = keys.recv() => match key {
                    Some(key) => Some(key),
                    None => return Ok(self.left()),
                },
                event = events.recv() => {
                    if event.is_none() {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                        events = self.listen();
                    }
                    None
                }
                () = tokio::time::sleep(wait) => None,
            };
            // Who presses a key is there, and reads what is shown then.
            let list = if key.is_some() { LIST } else { REFRESHED_LIST };
            match (key, &terminal) {
                (Some(b'q' | 3 | 4), _) => return Ok(self.left()),
                (Some(key), Some(terminal)) => {
                    Box::pin(self.press(key, terminal, &mut keys)).await?;
                }
                (_, _) => self.prompt = self.calm(),
            }
            if let Err(why) = self.look(list).await? {
                self.said = why;
            }
        }
    }

    /// Without a question at the end of the screen.
    fn calm(&self) -> ScreenPrompt {
        if self.prompt == ScreenPrompt::Unattended {
            ScreenPrompt::Unattended
        } else {
            ScreenPrompt::Keys
        }
    }

    /// Something comes each time that a held call changes, until the stream ends.
    fn listen(&self) -> mpsc::Receiver<()> {
        self.door.listen("/api/approvals/events")
    }

    /// Looks at what waits, at this path, and shows it. The inner error: why the door refuses.
    async fn look(&mut self, list: &str) -> anyhow::Result<Result<(), String>> {
        let told = match self.ask(DoorRequest::get(list)).await {
            Ok(Ok(told)) => told,
            Ok(Err(why)) => return Ok(Err(why)),
            // A toolgate that starts anew is waited for, once it was seen.
            Err(error) if !self.known.is_empty() || !self.said.is_empty() => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let ApprovalList { approvals, .. } = told.parse()?;
        let fits = |hold: &OpenHold| {
            self.pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(&hold.tool))
        };
        let holds: Vec<OpenHold> = approvals.into_iter().filter(fits).collect();
        let is_new = holds.iter().any(|hold| !self.known.contains_key(&hold.id));
        if let Some(desktop) = &self.desktop {
            desktop.tell(
                holds
                    .iter()
                    .filter(|hold| !self.known.contains_key(&hold.id)),
            );
        }
        self.choose(&holds);
        if self.watch.json {
            self.tell(&holds)?;
        } else {
            self.draw(&holds, is_new)?;
        }
        if let ScreenPrompt::Sure(question) = &mut self.prompt {
            question.stands(Clock.steady());
        }
        self.known = holds
            .into_iter()
            .map(|hold| (hold.id.clone(), hold))
            .collect();
        Ok(Ok(()))
    }

    /// Keeps to the call that was chosen for as long as it waits; with `--once`, for good. Where another is
    /// looked at then, or it is not what it was, nothing is asked about it.
    fn choose(&mut self, holds: &[OpenHold]) {
        let waits = |id: &String| holds.iter().any(|hold| hold.id == *id);
        let chosen = self.chosen.take();
        let first = holds.iter().find(|hold| is_pending(hold));
        // One that is decided already is nobody's to wait for.
        let first = first.or(holds.first().filter(|_| !self.watch.once));
        self.chosen = chosen
            .filter(|id| self.watch.once || waits(id))
            .or_else(|| first.map(|hold| hold.id.clone()));
        let chosen = self.chosen.as_ref();
        let looked_at = holds.iter().find(|hold| Some(&hold.id) == chosen);
        if let ScreenPrompt::Sure(question) = &self.prompt
            && !question.is_about(looked_at)
        {
            self.prompt = ScreenPrompt::Keys;
        }
    }

    /// A line for each call that comes, changes, or waits no longer.
    fn tell(&self, holds: &[OpenHold]) -> anyhow::Result<()> {
        for hold in holds {
            let event = match self.known.get(&hold.id) {
                None => "requested",
                Some(before) if before != hold => "changed",
                Some(_) => continue,
            };
            let mut line = serde_json::to_value(hold)?;
            line["event"] = Value::from(event);
            print_while_read(&(json(&line.to_string()) + "\n"))?;
        }
        let waits = |id: &String| holds.iter().any(|hold| hold.id == *id);
        for id in self.known.keys().filter(|id| !waits(id)) {
            print_while_read(&(json(&json!({ "event": "over", "id": id }).to_string()) + "\n"))?;
        }
        Ok(())
    }

    /// Draws the screen anew; where nobody types, below the last one, and for a call that comes only.
    fn draw(&self, holds: &[OpenHold], is_new: bool) -> anyhow::Result<()> {
        let drawn = screen(holds, self.chosen.as_deref(), &self.said, &self.prompt);
        match (&self.prompt, is_new) {
            (ScreenPrompt::Unattended, false) => Ok(()),
            (ScreenPrompt::Unattended, true) => print_while_read(&drawn),
            (ScreenPrompt::Keys | ScreenPrompt::Sure(_), _) => {
                let bell = if is_new { BELL } else { "" };
                print_while_read(&format!("{CLEAR}{drawn}{bell}"))
            }
        }
    }

    async fn press(
        &mut self,
        key: u8,
        terminal: &KeyTerminal,
        keys: &mut mpsc::Receiver<u8>,
    ) -> anyhow::Result<()> {
        let asked = std::mem::replace(&mut self.prompt, ScreenPrompt::Keys);
        self.said.clear();
        let chosen = self.chosen.as_ref().and_then(|id| self.known.get(id));
        let Some(chosen) = chosen.cloned() else {
            return Ok(());
        };
        if matches!(key, b'a' | b'e') && !is_pending(&chosen) {
            let state = &chosen.state;
            self.said = format!("nothing was done: the call is {state}, and does not wait");
            return Ok(());
        }
        let is_sure = if let ScreenPrompt::Sure(question) = &asked {
            question.is_about(Some(&chosen)) && question.is_answered(Clock.steady())
        } else {
            false
        };
        match key {
            b'a' if is_sure => {
                let why = if chosen.terms.needs_why {
                    asked_for(terminal, keys, "why? (nothing: not allowed): ").await?
                } else {
                    "seen in the terminal".to_owned()
                };
                if !why.is_empty() {
                    self.say(&chosen, "allow-once", &why).await?;
                }
            }
            b'a' => self.prompt = ScreenPrompt::Sure(SureQuestion::of(&chosen)),
            b'd' => {
                let presets = &chosen.terms.deny_reasons;
                let why = asked_for(terminal, keys, &why_not(presets)).await?;
                let number = why.parse::<usize>().ok();
                let preset = number.and_then(|number| presets.get(number.checked_sub(1)?));
                let why = preset.cloned().unwrap_or(why);
                if !why.is_empty() {
                    self.say(&chosen, "deny", &why).await?;
                }
            }
            b'e' => self.extend(&chosen).await?,
            b's' | b'j' => self.chosen = self.next(&chosen.id).or(Some(chosen.id)),
            _ => {}
        }
        Ok(())
    }

    /// The call behind that one, else the first; with `--once` of those that wait.
    fn next(&self, id: &str) -> Option<String> {
        let is_one = |hold: &&OpenHold| !self.watch.once || is_pending(hold);
        let mut ids = self.known.values().filter(is_one).map(|hold| &hold.id);
        let behind = ids.clone().find(|other| other.as_str() > id);
        behind.or_else(|| ids.next()).cloned()
    }

    /// Says a word on what was shown, and nothing else.
    async fn say(&mut self, hold: &OpenHold, decision: &str, why: &str) -> anyhow::Result<()> {
        let body = json!({ "decision": decision, "why": why, "shown": hold.shown });
        let request = DoorRequest::post(format!("/api/approvals/{}", hold.id), Text::of(&body));
        self.said = match self.ask(request).await? {
            Ok(told) => taken::words(&told.parse::<DecisionReply>()?),
            Err(why) => format!("nothing was done: {why}"),
        };
        Ok(())
    }

    /// Gives the call that was shown more time.
    async fn extend(&mut self, hold: &OpenHold) -> anyhow::Result<()> {
        let id = hold.id.parse();
        let id = id.map_err(|_| anyhow::anyhow!("the door names no call"))?;
        let request = extending::request(id, None, Some(&hold.shown));
        self.said = match self.ask(request).await? {
            Ok(told) => extending::words(&told.parse()?),
            Err(why) => format!("nothing was done: {why}"),
        };
        Ok(())
    }

    /// With `--once`: the exit code, once the call is decided or over that was seen first.
    async fn ended(&mut self) -> anyhow::Result<Option<u8>> {
        let Some(id) = self.chosen.clone().filter(|_| self.watch.once) else {
            return Ok(None);
        };
        if self.known.get(&id).is_some_and(is_pending) {
            return Ok(None);
        }
        let id = id
            .parse()
            .map_err(|_| anyhow::anyhow!("the door names no call"))?;
        let told = match self
            .ask(DoorRequest::get(format!("{}/wait", path(id))))
            .await?
        {
            Ok(told) => told.parse()?,
            Err(why) => return operator::show(Err(why), |()| Ok(String::new())).map(Some),
        };
        let text = super::waiting::words(&told);
        if !self.watch.json {
            print(&plain(&text).replace("\\n", "\n"))?;
        }
        Ok(Some(super::waiting::exit_code(&told)))
    }

    async fn ask(&self, request: DoorRequest) -> anyhow::Result<Result<Text, String>> {
        let nobody = "no operators' door answers any more; asking again".to_owned();
        let answered = self.door.asks(request, &nobody).await?;
        Ok(answered.map_err(|refused| refused.to_string()))
    }
}

/// Whether operators can still decide about it.
fn is_pending(hold: &OpenHold) -> bool {
    hold.state == "pending"
}

/// What is asked of an operator who denies a call with these reasons to choose from.
fn why_not(presets: &[String]) -> String {
    let numbered = presets.iter().enumerate();
    let numbered = numbered.map(|(index, reason)| format!("{} {}\n", index + 1, plain(reason)));
    let numbered: String = numbered.collect();
    let or = if presets.is_empty() {
        ""
    } else {
        ", or its number"
    };
    format!("{numbered}why not? the agent reads it{or} (nothing: not denied): ")
}

/// What is typed in answer to `question`, on a line.
async fn asked_for(
    terminal: &KeyTerminal,
    keys: &mut mpsc::Receiver<u8>,
    question: &str,
) -> anyhow::Result<String> {
    print(question)?;
    terminal.read_keys(false);
    let typed = line(keys).await;
    terminal.read_keys(true);
    Ok(typed.trim().to_owned())
}

/// What is typed up to the end of the line.
async fn line(keys: &mut mpsc::Receiver<u8>) -> String {
    let mut line = Vec::new();
    while let Some(key) = keys.recv().await {
        if key == b'\n' {
            break;
        }
        line.push(key);
    }
    String::from_utf8_lossy(&line).into_owned()
}

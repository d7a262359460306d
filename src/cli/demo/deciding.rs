//! The person of the fifth story: the demo's own word at the operators' door, one typed at the terminal, or one given
//! on the approvals page.

use super::browser;
use super::exchange::exchange;
use super::narrator::Narrator;
use super::place::DemoPlace;
use super::story::PersonWord;
use crate::cli::configured;
use crate::mcp::json::Text;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};
use std::io::{BufRead as _, Read as _, stdin};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long an answer of the operators' door may take.
const DOOR_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take until the call waits.
const HELD_TIMEOUT: Duration = Duration::from_secs(20);
/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of a line that is typed.
const TYPED_BYTES_MAX: u64 = 1 << 10;
/// Where the held calls are.
const APPROVALS_PATH: &str = "/api/approvals";

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PersonPart {
    /// Nobody: the demo says yes itself.
    Demo,
    /// Who types at the terminal.
    Terminal,
    /// Who looks at the approvals page.
    Page,
}

/// The operators' door, and who asks there.
pub(super) struct DemoDesk {
    address: SocketAddr,
    token: String,
}

/// A held call, as the door shows it.
pub(super) struct DemoHold {
    id: String,
    card: Text,
}

impl DemoDesk {
    /// That of the demo's toolgate.
    pub(super) fn of(place: &DemoPlace) -> anyhow::Result<Self> {
        Ok(Self {
            address: place.doors()?.operators,
            token: place.operator_token.clone(),
        })
    }

    async fn ask(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Text> {
        let request = Request::builder()
            .method(if body.is_some() { "POST" } else { "GET" })
            .uri(path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body)))?;
        let asked = Box::pin(exchange(self.address, request));
        let answered = tokio::time::timeout(DOOR_TIMEOUT, asked).await;
        let reply = answered.context("the operators' door does not answer in time")??;
        if reply.status != StatusCode::OK {
            let why = word(&reply.text, "error");
            bail!("the operators' door answers {}: {why}", reply.status);
        }
        Ok(reply.text)
    }

    /// The call that waits, once one does.
    pub(super) async fn held(&self) -> anyhow::Result<DemoHold> {
        let held = async {
            loop {
                let listed = self.ask(APPROVALS_PATH, None).await?;
                let listed = listed.get("approvals").and_then(|held| held.elements());
                if let Some(card) = listed.and_then(|held| held.into_iter().next()) {
                    let id = word(&card, "id");
                    return anyhow::Ok(DemoHold { id, card });
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        let held = tokio::time::timeout(HELD_TIMEOUT, Box::pin(held)).await;
        held.context("no call waits for a person")?
    }

    /// What the person said of `hold`, as the door knows it.
    pub(super) async fn said(&self, hold: &DemoHold) -> anyhow::Result<PersonWord> {
        let now = self.ask(&path(hold), None).await?;
        Ok(match word(&now, "state").as_str() {
            "allowed" | "used" => PersonWord::Allowed,
            "denied" => PersonWord::Denied,
            _ => PersonWord::Nothing,
        })
    }

    async fn decide(&self, hold: &DemoHold, is_allowed: bool) -> anyhow::Result<()> {
        let decision = if is_allowed { "allow" } else { "deny" };
        let shown = word(&hold.card, "shown");
        let body = json!({ "decision": decision, "why": "toolgate demo", "shown": shown });
        self.ask(&path(hold), Some(&body)).await.map(drop)
    }

    /// Shows the card of `hold` and has `part` decide; who looks at the page does so later.
    pub(super) async fn put_to(
        &self,
        part: PersonPart,
        hold: &DemoHold,
        narrator: Narrator,
    ) -> anyhow::Result<()> {
        narrator.tell("card", &card(&hold.card))?;
        let is_allowed = match part {
            PersonPart::Demo => true,
            PersonPart::Terminal => {
                narrator.say("  allow this call, once? [y/N] ")?;
                is_yes(&typed().await)
            }
            PersonPart::Page => {
                let (page, token) = (format!("http://{}/approvals", self.address), &self.token);
                // On standard error where standard output is for a program.
                if narrator.is_silent() {
                    configured::say(&format!(
                        "{page} waits for a decision; sign in with the token {token}"
                    ));
                } else {
                    let is_open = browser::open(&page);
                    let opened = if is_open {
                        " (opened in your browser)"
                    } else {
                        ""
                    };
                    narrator.tell("page", &format!("{page}{opened}"))?;
                    narrator.tell("token", &format!("{token} (sign in with it)"))?;
                    narrator.tell("", "waiting for your decision there; Ctrl-C ends the demo")?;
                }
                return Ok(());
            }
        };
        self.decide(hold, is_allowed).await?;
        let by = match part {
            PersonPart::Demo => "the demo, at the operators' door",
            PersonPart::Terminal | PersonPart::Page => "you",
        };
        let said = if is_allowed { "allowed" } else { "denied" };
        narrator.tell("person", &format!("{said} by {by}"))
    }
}

fn path(hold: &DemoHold) -> String {
    format!("{APPROVALS_PATH}/{}", hold.id)
}

/// A text of `from`, or nothing.
fn word(from: &Text, key: &str) -> String {
    let text = from
        .get(key)
        .and_then(|text| Some(text.as_str()?.into_owned()));
    text.unwrap_or_default()
}

/// What a person has to know to decide, a line each.
fn card(hold: &Text) -> String {
    let arguments = hold.get("arguments").map(|given| given.value().to_string());
    let asked_by = format!("{} of {}", word(hold, "agent"), word(hold, "tenant"));
    let lines = [
        ("tool", word(hold, "tool")),
        ("does", word(hold, "purpose")),
        ("undo", word(hold, "undo")),
        ("asked by", asked_by),
        ("arguments", arguments.unwrap_or_default()),
    ];
    let lines = lines.map(|(name, text)| format!("{name:<10} {text}"));
    lines.join("\n")
}

/// Only a yes is a yes.
fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes")
}

/// A line of standard input; nothing at its end.
async fn typed() -> String {
    let (line, typed) = oneshot::channel();
    // Nothing can end a read of a terminal: the thread lasts as long as the process.
    let read = move || {
        let mut bytes = Vec::new();
        let _ = stdin()
            .lock()
            .take(TYPED_BYTES_MAX)
            .read_until(b'\n', &mut bytes);
        let _ = line.send(String::from_utf8_lossy(&bytes).into_owned());
    };
    // Without it nothing is typed, which is no.
    let _ = std::thread::Builder::new()
        .name("typed".to_owned())
        .spawn(read);
    typed.await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_allows() {
        for (line, expected) in [
            ("y\n", true),
            ("yes\r\n", true),
            (" Y ", true),
            ("", false),
            ("\n", false),
            ("n\n", false),
            ("yy\n", false),
            ("no, yes\n", false),
        ] {
            assert_eq!(is_yes(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_card_has_what_would_run() {
        let hold = Text::of(&json!({
            "id": "1", "agent": "demo-agent", "tenant": "acme", "tool": "shop__delete_customer",
            "purpose": "Delete a customer.", "undo": "impossible", "arguments": { "customer": "ann" },
        }));
        let expected = "tool       shop__delete_customer\ndoes       Delete a customer.\nundo       impossible\n\
                        asked by   demo-agent of acme\narguments  {\"customer\":\"ann\"}";
        assert_eq!(card(&hold), expected);
    }
}

//! What an agent hears while its call waits for a person: at once that it waits, and every ten seconds
//! how long still, where it has said by which token it knows progress (guarantees §7).

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::sse::SseComment;
use crate::model::clock::Clock;
use crate::model::ids::ActionId;
use crate::model::times::millis;
use crate::outlet::Outgoing;
use crate::store::state::Millis;
use serde_json::json;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often an agent hears that its call waits.
const NEWS_INTERVAL: Duration = Duration::from_secs(10);
/// How long a call waits at most whose agent hears that it does.
pub(in crate::gate) const MAX_TOLD_WAIT: Duration = Duration::from_mins(30);
/// How often a wait looks at the clock that decides, which also counts while the machine sleeps, when timers stand.
const CLOCK_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a token that an agent knows progress by.
const TOKEN_BYTES_MAX: usize = 256;

/// What is told of one wait.
pub(in crate::gate) struct HeldNews<'a> {
    call: &'a Call,
    clock: Clock,
    /// For whom it waits, and where that person reads of it.
    words: String,
    /// How long it had waited before this wait.
    before: Duration,
    /// When this wait began, in steady time.
    began: Duration,
    /// How many seconds it can wait, from the first time on.
    total: u64,
}

/// The hold that a call waits for.
pub(in crate::gate) struct AwaitedHold<'a> {
    pub(in crate::gate) id: ActionId,
    pub(in crate::gate) roles: &'a [String],
    /// How long the call has waited for it.
    pub(in crate::gate) before: Duration,
    /// How long it can still be decided.
    pub(in crate::gate) left: Duration,
    /// Until when, in milliseconds since 1970.
    pub(in crate::gate) until: Millis,
}

/// The token by which the agent knows progress of its call, if it said one.
pub(in crate::gate) fn progress_token(call: &Call) -> Option<Text> {
    let token = call.message.meta("progressToken")?;
    let is_one = token.as_str().is_some() || token.value().is_number();
    (is_one && token.as_bytes().len() <= TOKEN_BYTES_MAX).then_some(token)
}

impl Gate {
    /// Where a person reads of a held call, if the configuration names an address.
    pub(in crate::gate) fn page_of(&self, hold: ActionId) -> Option<String> {
        let at = self.public_url.as_ref()?;
        Some(format!("{at}/approvals/{hold}"))
    }
}

impl<'a> HeldNews<'a> {
    /// Of a wait that begins now.
    pub(in crate::gate) fn of(gate: &Gate, call: &'a Call, hold: &AwaitedHold<'_>) -> Self {
        let page = gate.page_of(hold.id);
        let place = page.unwrap_or_else(|| format!("toolgate approvals show {}", hold.id));
        let roles = hold.roles.join(" or ");
        Self {
            call,
            clock: gate.clock,
            words: format!("waiting for a person with the role {roles}: {place}"),
            before: hold.before,
            began: gate.clock.steady(),
            total: millis(hold.before.saturating_add(hold.left)).div_ceil(1000),
        }
    }

    fn waited(&self) -> Duration {
        let since = self.clock.steady().saturating_sub(self.began);
        self.before.saturating_add(since)
    }

    /// Tells, for as long as it is polled. A comment at once sends the head of the answer; after that
    /// every stream says by itself that it lives.
    pub(in crate::gate) async fn tell(&self) -> Infallible {
        let Some(token) = progress_token(self.call) else {
            if self.before.is_zero() {
                self.say(Outgoing::Comment(SseComment::default())).await;
            }
            return std::future::pending().await;
        };
        let mut due = next_due(self.before);
        loop {
            let early = due.saturating_sub(self.waited());
            if !early.is_zero() {
                tokio::time::sleep(early).await;
            }
            // A machine that slept has missed some.
            due = due.max(self.waited());
            let progress = self.progress(&token, due);
            self.say(Outgoing::Message(Box::new(progress))).await;
            due = next_due(due.max(Duration::from_nanos(1)));
        }
    }

    /// An agent that does not read misses news, and nobody waits for it.
    async fn say(&self, news: Outgoing) {
        let outlet = &self.call.origin.outlet;
        let _ = outlet.say_within(news, Duration::ZERO).await;
    }

    fn progress(&self, token: &Text, waited: Duration) -> Message {
        let told = &self.call.origin.waited;
        told.store(waited.as_secs(), Ordering::Relaxed);
        let left = clock_face(self.total.saturating_sub(waited.as_secs()));
        let said = Text::members_of(&[
            ("progressToken", token.clone()),
            ("progress", Text::of(&json!(waited.as_secs()))),
            ("total", Text::of(&json!(self.total))),
            (
                "message",
                Text::string(&format!("{} ({left} left)", self.words)),
            ),
        ]);
        Message::notification("notifications/progress", Some(said))
    }
}

/// Done when `time` has passed; soon after that where the machine has slept through the rest of it.
pub(in crate::gate) async fn wait_for(clock: Clock, time: Duration) {
    let (began, mut waited) = (clock.steady(), Duration::ZERO);
    loop {
        let passed = clock.steady().saturating_sub(began).max(waited);
        let left = time.saturating_sub(passed);
        if left.is_zero() {
            return;
        }
        let pause = left.min(CLOCK_LOOK_INTERVAL);
        tokio::time::sleep(pause).await;
        waited += pause;
    }
}

/// When it is told next, of a call that has waited so long: at once, then in tens of seconds.
fn next_due(waited: Duration) -> Duration {
    if waited.is_zero() {
        return waited;
    }
    let tens = waited.as_secs() / NEWS_INTERVAL.as_secs() + 1;
    Duration::from_secs(tens.saturating_mul(NEWS_INTERVAL.as_secs()))
}

/// `3:10`, or `1:03:10` from an hour on.
fn clock_face(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 {
        return format!("{minutes}:{seconds:02}");
    }
    format!("{hours}:{minutes:02}:{seconds:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds apart, whatever was waited before.
    #[test]
    fn news_come_in_tens_of_seconds() {
        let due = |ms: u64| next_due(Duration::from_millis(ms)).as_secs();
        let seen = [0, 1, 9_999, 10_000, 10_001, 19_999, 1_200_000].map(due);
        assert_eq!(seen, [0, 10, 10, 20, 20, 20, 1_210]);
        assert_eq!([9, 190, 3_790].map(clock_face), ["0:09", "3:10", "1:03:10"]);
    }
}

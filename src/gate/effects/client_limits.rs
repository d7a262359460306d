//! How long agents' programs wait for an answer, as far as that was seen: one that hangs up while its
//! call is held has a limit of its own, and its next call is answered before that. In memory only.

use crate::gate::call::Call;
use crate::mcp::bridge::CLIENT_META_KEY;
use crate::model::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Programs that are remembered; beyond, the one that hung up longest ago is forgotten.
const MAX_CLIENTS: usize = 256;
/// By how much sooner than its program hangs up a call is answered.
const MARGIN: Duration = Duration::from_secs(5);
/// Every call that may be held for as long is.
const SHORTEST: Duration = Duration::from_secs(5);
/// After so long without a hang-up a limit is tried again: that may have been a person who had
/// enough.
const MAX_AGE: Duration = Duration::from_hours(1);
/// Bytes of a program's name, and of its version, that tell it from others.
const NAME_BYTES: usize = 128;

/// A program of an agent, by its name and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::gate) struct ClientProgram(Digest);

/// The programs that have hung up.
#[derive(Default)]
pub(in crate::gate) struct ClientLimits {
    known: Mutex<HashMap<ClientProgram, HangUp>>,
}

/// The latest that a program has hung up.
struct HangUp {
    /// So long after its call had come.
    after: Duration,
    /// When it did so last, in steady time.
    seen: Duration,
}

impl ClientProgram {
    /// The program that makes `call`, if it says its name. What it says is its agent's word: of
    /// other agents it says nothing.
    pub(in crate::gate) fn of(call: &Call) -> Option<Self> {
        let said = call.message.meta(CLIENT_META_KEY);
        let said = said.or_else(|| call.origin.links.program())?;
        let part = |name: &str| {
            let part = said.get(name)?.as_str()?.into_owned();
            Some(part[..part.floor_char_boundary(NAME_BYTES)].to_owned())
        };
        let (name, version) = (part("name")?, part("version").unwrap_or_default());
        let agent = call.origin.caller.agent.as_str();
        let parts = [agent.as_bytes(), name.as_bytes(), version.as_bytes()];
        Some(Self(Digest::of_parts("program of an agent", &parts)))
    }
}

impl ClientLimits {
    /// It hung up on a held call so long `after` that had come.
    pub(in crate::gate) fn hung_up(&self, program: ClientProgram, after: Duration, now: Duration) {
        if after < SHORTEST {
            return;
        }
        let mut known = self.known.lock();
        if !known.contains_key(&program) && known.len() >= MAX_CLIENTS {
            let oldest = known.iter().min_by_key(|(_, limit)| limit.seen);
            let oldest = oldest.map(|(program, _)| *program);
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let limit = known.entry(program).or_insert(HangUp { after, seen: now });
        let is_old = now.saturating_sub(limit.seen) > MAX_AGE;
        limit.after = if is_old {
            after
        } else {
            limit.after.max(after)
        };
        limit.seen = now;
    }

    /// How long after it came a call of this program is answered at the latest, if it is known to
    /// hang up.
    pub(in crate::gate) fn longest(
        &self,
        program: ClientProgram,
        now: Duration,
    ) -> Option<Duration> {
        let known = self.known.lock();
        let limit = known.get(&program)?;
        let is_old = now.saturating_sub(limit.seen) > MAX_AGE;
        (!is_old).then(|| limit.after.saturating_sub(MARGIN).max(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn program(name: &str) -> ClientProgram {
        ClientProgram(Digest::of(name.as_bytes()))
    }

    /// The latest hang-up counts, 5 s before it and never under 5 s; after an hour it is tried again.
    #[test]
    fn the_latest_hang_up_is_the_limit() {
        let (limits, it) = (ClientLimits::default(), program("it"));
        assert_eq!(limits.longest(it, s(0)), None);
        for (after, longest) in [(3, None), (7, Some(5)), (60, Some(55)), (20, Some(55))] {
            limits.hung_up(it, s(after), s(100));
            assert_eq!(limits.longest(it, s(100)), longest.map(s), "{after}");
        }
        assert_eq!(limits.longest(program("other"), s(100)), None);
        assert_eq!(limits.longest(it, s(100 + 3600)), Some(s(55)));
        assert_eq!(limits.longest(it, s(101 + 3600)), None);
        limits.hung_up(it, s(30), s(101 + 3600));
        assert_eq!(limits.longest(it, s(101 + 3600)), Some(s(25)));
    }

    /// Names are the agents' own, so that there may be any number of them.
    #[test]
    fn the_oldest_gives_way() {
        let limits = ClientLimits::default();
        for number in 0..=MAX_CLIENTS as u64 {
            limits.hung_up(program(&number.to_string()), s(60), s(number));
        }
        assert_eq!(limits.known.lock().len(), MAX_CLIENTS);
        assert_eq!(limits.longest(program("0"), s(300)), None);
        assert_eq!(limits.longest(program("1"), s(300)), Some(s(55)));
    }
}

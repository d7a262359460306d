//! The tool server, which knows nothing of keys: each call that reaches it happens.

use super::gate::TIMEOUT;
use super::{SERVER, World};
use crate::store::state::claim::Stored;
use crate::store::state::command::Intent;
use crate::store::state::tests::result;
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot::{Receiver, channel};
use tokio::time::sleep;

/// What it answers.
#[derive(Debug)]
pub(super) enum Answer {
    Result(Stored),
    /// -32602.
    Invalid(Stored),
    /// 503.
    Busy,
    RefusedStream,
    /// `input_required`.
    Question(Stored),
}

/// What happens to a call.
#[derive(Debug, Clone, Copy)]
enum Fate {
    LostBefore,
    LostAfter,
    Slow,
    Invalid,
    Busy,
    RefusedStream,
    Question,
    Done,
}

impl World {
    /// A byte leaves. From here on nobody can take it back, and no crash of ours stops it.
    pub(super) fn send(self: &Rc<Self>, intent: &Intent) -> Receiver<Answer> {
        let (answer, answered) = channel();
        let fate = match self.roll(20) {
            0 => Fate::LostBefore,
            1 => Fate::LostAfter,
            2 => Fate::Slow,
            3 => Fate::Invalid,
            4 => Fate::Busy,
            5 => Fate::RefusedStream,
            6 | 7 if intent.round.is_none() => Fate::Question,
            _ => Fate::Done,
        };
        if matches!(fate, Fate::LostBefore | Fate::LostAfter | Fate::Slow) {
            self.book.borrow_mut().faults.insert(intent.action);
        }
        let (world, action) = (self.clone(), intent.action);
        self.schedule.spawn(SERVER, async move {
            sleep(Duration::from_millis(world.roll(400))).await;
            if matches!(fate, Fate::Slow) {
                sleep(TIMEOUT + Duration::from_millis(world.roll(40_000))).await;
            }
            let said = match fate {
                Fate::LostBefore => return,
                Fate::Invalid => Answer::Invalid(Stored::inline(true, Bytes::from_static(b"invalid"))),
                Fate::Busy => Answer::Busy,
                Fate::RefusedStream => Answer::RefusedStream,
                Fate::Question => Answer::Question(result("which account?")),
                Fate::LostAfter | Fate::Slow | Fate::Done => Answer::Result(result(&world.happen(action))),
            };
            sleep(Duration::from_millis(world.roll(400))).await;
            if !matches!(fate, Fate::LostAfter) {
                drop(answer.send(said));
            }
        });
        answered
    }
}

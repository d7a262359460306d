//! A full disk, as those see it who record: nothing queued is lost, nothing is promised that is not
//! kept, and it ends by itself (threat-model §9).

use super::super::health::JournalState;
use super::super::item::RecordGroup;
use super::{Frame, QueueInner, WriteQueue, put};
use std::sync::atomic::Ordering;
use std::task::Waker;

/// How much space there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Space {
    /// Enough.
    Ample,
    /// Only what was reserved: for the outcomes of calls in flight.
    Low(String),
    /// None. What is queued waits.
    Gone(String),
}

impl WriteQueue {
    /// How much space the writer has found. With [`Space::Gone`] callers that wait are told.
    pub(in super::super) fn set_space(&self, space: &Space) {
        let mut inside = self.inside.lock();
        if inside.space == *space {
            return;
        }
        let state = match space {
            Space::Ample => JournalState::Writing,
            Space::Low(why) | Space::Gone(why) => JournalState::Full(why.clone()),
        };
        self.writing
            .store(state == JournalState::Writing, Ordering::Release);
        inside.health.state = state;
        inside.space = space.clone();
        let queued = inside.queued();
        match space {
            Space::Ample => {
                inside.release();
                tracing::info!("there is space for the journal again; side effects may run again");
            }
            Space::Low(why) => tracing::error!(
                reason = %why,
                "the disk is full: no side effect runs until there is space; what is in flight is still recorded"
            ),
            Space::Gone(why) => {
                tracing::error!(reason = %why, queued, "the disk is full: nothing is recorded until there is space");
            }
        }
        let answered = inside.answered();
        drop(inside);
        answered.into_iter().for_each(Waker::wake);
    }

    /// Takes back what could not be written, before everything queued since.
    pub(in super::super) fn put_back(&self, mut frames: Vec<Frame>) {
        let mut inside = self.inside.lock();
        inside.at_work = (0, 0);
        inside.gathered += frames
            .iter()
            .map(|frame| frame.count() as usize)
            .sum::<usize>();
        inside.bytes += frames.iter().map(Frame::payload).sum::<usize>();
        frames.append(&mut inside.frames);
        inside.frames = frames;
    }
}

impl QueueInner {
    /// Keeps `group` until there is space again.
    pub(super) fn hold(&mut self, group: &RecordGroup) {
        put(&mut self.held, group, || None);
        self.bytes += group.bytes.len();
    }

    /// Numbers what was held.
    pub(super) fn release(&mut self) {
        let count = self
            .held
            .iter()
            .map(|frame| u64::from(frame.count()))
            .sum::<u64>();
        self.gathered = self.queued();
        self.last += count;
        self.frames.append(&mut self.held);
    }
}

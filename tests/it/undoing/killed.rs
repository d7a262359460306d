//! toolgate is killed at every point of an undo, and started again: the call is taken back once, or it
//! is known that nobody knows.

use super::UndoStage;
use crate::harness::setup::{Setup, beside};
use crate::kills::{PROGRAM, build};

/// The points of the second call, which is the one that takes the first one back. How often a body is asked
/// for its end is chance, so that `after-send` has no second time that means this call.
const POINTS: [&str; 7] = [
    "preparing:2",
    "intent-before-fsync:2",
    "intent-after-fsync:2",
    "before-send:2",
    "outcome-before-fsync:2",
    "outcome-after-fsync:2",
    "reply-to-agent:2",
];

impl UndoStage {
    /// One that is killed at `point`, and with what it is started again.
    pub(super) async fn killed_at(bin: &str, point: &str) -> (Self, Setup) {
        let stage = Self::with(bin).await;
        let mut gate = stage.gate;
        gate.terminate();
        gate.wait().await;
        let setup = gate.setup.clone();
        let armed = setup.clone().program(beside(PROGRAM));
        let armed = armed.environment("TOOLGATE_FAILPOINT", point);
        let stage = Self {
            scripted: stage.scripted,
            gate: armed.start().await,
        };
        (stage, setup)
    }

    /// The same bank before the toolgate that is started once this one is killed.
    pub(super) async fn after_the_kill(mut self, setup: Setup) -> Self {
        self.gate.wait().await;
        Self {
            scripted: self.scripted,
            gate: setup.start().await,
        }
    }
}

/// 003-64, 004-14: killed between any two states, what was asked for is made once, and what is not
/// known says so.
#[tokio::test]
async fn a_killed_undo_is_made_once() {
    build();
    for point in POINTS {
        let (stage, setup) = UndoStage::killed_at("ask: never", point).await;
        let id = stage.made("draft", "k").await;
        let (code, _) = stage.undoes(&id).await;
        assert_ne!(code, 0, "{point}: toolgate was killed before it answered");
        let stage = stage.after_the_kill(setup).await;
        let (code, said) = stage.undoes(&id).await;
        let sent = stage.sent("bin").len();
        let is_known = code == 0 || said.contains("taken back already");
        let is_unknown = said.contains("it is not known whether");
        assert!(is_known != is_unknown, "{point}: {said}");
        assert!(
            sent <= 1 && (is_unknown || sent == 1),
            "{point}: sent {sent} times: {said}"
        );
        if is_unknown {
            // An operator says what became of it; then it is as known as any.
            let by = said.split("calls resolve ").nth(1).unwrap_or_default();
            let by = by
                .trim()
                .trim_end_matches('`')
                .split(['`', ' ', ';'])
                .next();
            let words = [
                "calls",
                "resolve",
                by.unwrap(),
                "--applied",
                "--why",
                "seen",
            ];
            let (code, told) = stage.runs("rita", &words).await;
            assert_eq!(code, 0, "{point}: {told}");
            let (_, said) = stage.undoes(&id).await;
            assert!(said.contains("taken back already"), "{point}: {said}");
        }
    }
}

//! What the layers together say of a side door.

use super::layers::AllowlistLayer;
use super::side::{SideMatching, SideTarget};
use super::{LayerVerdict, Provenance, Rule};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;

/// The layer that closes what none allows.
const DEFAULT_LAYER: &str = "default";

/// What became of it.
#[derive(Debug)]
pub struct SideVerdict<'a> {
    /// What decided.
    pub by: Provenance<'a>,
}

impl SideVerdict<'_> {
    /// May it not pass?
    pub fn refuses(&self) -> bool {
        self.by.verdict.refuses()
    }
}

impl AllowlistLayer {
    fn judge_side(&self, wanted: &SideTarget) -> LayerVerdict<'_> {
        self.sides()
            .iter()
            .find(|side| side.door == wanted.door)
            .map_or(LayerVerdict::Passed, |side| side.judge(wanted))
    }
}

impl Rule {
    /// May `caller` reach what is `wanted`? The same in either mode: who asks knows what is
    /// enforced.
    pub fn side(&self, caller: &Caller, wanted: &SideTarget) -> SideVerdict<'_> {
        let mut by = Provenance {
            parent: None,
            layer: DEFAULT_LAYER,
            verdict: LayerVerdict::Closed,
        };
        self.side_steps(caller, None, wanted, &mut |step| {
            by = step;
            !by.verdict.refuses()
        });
        SideVerdict { by }
    }

    /// Every step of the decision, in order.
    pub fn explain_side(&self, caller: &Caller, wanted: &SideTarget) -> Vec<Provenance<'_>> {
        let mut steps = Vec::new();
        self.side_steps(caller, None, wanted, &mut |step| {
            steps.push(step);
            true
        });
        steps
    }

    /// The layers, what is closed by default, and the same of every parent. The last step that
    /// allowed is told last.
    fn side_steps<'a>(
        &'a self,
        caller: &Caller,
        parent: Option<&Caller>,
        wanted: &SideTarget,
        note: &mut dyn FnMut(Provenance<'a>) -> bool,
    ) -> bool {
        let parent = parent.map(|parent| parent.agent.clone());
        let step = |layer: &'a str, verdict| Provenance {
            parent: parent.clone(),
            layer,
            verdict,
        };
        if let SideMatching::Unclear(unclear) = wanted.how {
            return note(step(DEFAULT_LAYER, LayerVerdict::Unclear(unclear)));
        }
        for own in &caller.parents {
            if !self.side_steps(own, Some(own), wanted, note) {
                return false;
            }
        }
        let mut allowed = None;
        for layer in self.layers.of(caller) {
            let verdict = layer.judge_side(wanted);
            if !note(step(layer.label(), verdict)) {
                return false;
            }
            if matches!(verdict, LayerVerdict::Allowed(_)) {
                allowed = Some((layer.label(), verdict));
            }
        }
        let (layer, verdict) = allowed.unwrap_or((DEFAULT_LAYER, LayerVerdict::Closed));
        note(step(layer, verdict))
    }

    /// Does any layer say anything of side doors?
    pub fn has_sides(&self) -> bool {
        self.layers
            .every()
            .into_iter()
            .any(|layer| !layer.sides().is_empty())
    }

    /// May `caller` reach anything of `server` through `door`? In either mode by what the layers
    /// say.
    pub fn opens(&self, caller: &Caller, door: SideDoor, server: &ServerName) -> bool {
        !self.side(caller, &SideTarget::any(door, server)).refuses()
    }
}

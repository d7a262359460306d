//! The tools of which hooks hear. A `before` that names none, where one is called nearly so, is never
//! asked: it fails open.

use super::{KnownBy, KnownTools};
use crate::guards::allowlist::ToolPattern;
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::policy::locate::YamlDocument;

/// A tool, or a pattern of tools, that a hook names.
#[derive(Debug, Clone)]
pub(crate) struct HookedTool {
    /// As written.
    pub name: String,
    /// Where that is; without words yet.
    pub at: Diagnostic,
}

/// What the hooks of a configuration name.
pub(crate) fn hooked(document: &YamlDocument) -> Vec<HookedTool> {
    let hooks = document.tree()["hooks"].as_array().into_iter().flatten();
    let mut found = Vec::new();
    for (index, hook) in hooks.enumerate() {
        let tools = hook["tools"].as_array().into_iter().flatten();
        for (nth, name) in tools.enumerate() {
            let Some(name) = name.as_str() else { continue };
            let path = ["hooks", &index.to_string(), "tools", &nth.to_string()];
            let at = document.locate(Problem {
                part: None,
                severity: Severity::Warning,
                path: path.map(str::to_owned).to_vec(),
                message: String::new(),
                hint: None,
            });
            let name = name.to_owned();
            found.push(HookedTool { name, at });
        }
    }
    found
}

impl KnownTools {
    /// What hooks name that is no tool, where a tool is called nearly so.
    pub(crate) fn judge_hooked(&self, hooked: &[HookedTool]) -> Vec<Diagnostic> {
        let pattern = |one: &HookedTool| ToolPattern::compile(&one.name, &mut Problems::default());
        let patterns: Vec<ToolPattern> = hooked.iter().filter_map(pattern).collect();
        let is_named = |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
        let one = |HookedTool { name, at }: &HookedTool| {
            let near = self.nearly(name)?;
            let message = match self.by {
                KnownBy::Listing => {
                    format!("there is no tool `{name}`, so the hook never hears of its calls")
                }
                // One that waits for its approval may be called nearly as another that is meant, too.
                KnownBy::Pins if is_named(near.as_str()) => return None,
                KnownBy::Pins => {
                    format!("no pin is of a tool `{name}`, so the hook may never hear of its calls")
                }
            };
            Some(Diagnostic {
                severity: self.severity_of(&near),
                message,
                hint: Some(format!("did you mean `{near}`?")),
                ..at.clone()
            })
        };
        hooked.iter().filter_map(one).collect()
    }
}

//! The tools that may be called again and again: `repetition.except`.

use super::{KnownBy, KnownTools};
use crate::model::diagnostic::Problem;
use crate::policy::locate::YamlDocument;

impl KnownTools {
    /// What a file excepts that is no tool, where a tool is called nearly so: that one is watched.
    pub(super) fn judge_excepted(&self, document: &YamlDocument) -> Vec<Problem> {
        let except = document.tree()["repetition"]["except"].as_array();
        let names = except.into_iter().flatten().enumerate();
        let one = |(index, name): (usize, &serde_json::Value)| {
            let name = name.as_str().filter(|name| !name.contains('*'))?;
            let near = self.nearly(name)?;
            let message = match self.by {
                KnownBy::Listing => format!("there is no tool `{name}`, so this excepts nothing"),
                KnownBy::Pins => {
                    format!("no pin is of a tool `{name}`, so this may except nothing")
                }
            };
            Some(Problem {
                part: None,
                severity: self.severity_of(&near),
                path: ["repetition", "except", &index.to_string()]
                    .map(str::to_owned)
                    .to_vec(),
                message,
                hint: Some(format!("did you mean `{near}`?")),
            })
        };
        names.filter_map(one).collect()
    }
}

//! Which schemas and names a caller is shown: what its model takes, unless the configuration says
//! otherwise.

use crate::model::diagnostic::Problems;
use crate::model::reads::{Caps, Profile, SchemaReader};
use crate::schema::limits;
use schemars::JsonSchema;
use serde::Deserialize;

/// Names are cut to so many characters at least: a server's name has to stay whole.
const NAME_CHARS_MIN: usize = 48;

/// What the caller's model and program take, where toolgate does not know it from `model`.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Schemas")]
pub(crate) struct SchemaSettings {
    /// What the tools' schemas are fitted to [default: what `model` takes; `none` without a model]
    pub profile: Option<Profile>,
    /// The program that the agent runs in, where that takes only so many tools, or such names:
    /// claude-code, cursor, vscode, windsurf.
    pub client: Option<String>,
    /// Tools in one listing at most.
    pub max_tools: Option<usize>,
    /// Characters of a tool's name at most, 48 or more.
    pub max_name_len: Option<usize>,
}

impl SchemaSettings {
    /// What a caller of this model reads.
    pub(super) fn compile(self, model: Option<&str>, problems: &mut Problems) -> SchemaReader {
        let Self {
            profile,
            client,
            max_tools,
            max_name_len,
        } = self;
        let mut caps = Caps::default();
        if let Some(name) = client {
            match limits::of_program(&name) {
                Some(known) => caps = known,
                None => problems.under("client", |problems| {
                    let hint = format!(
                        "known here: {}; or set `max_tools` and `max_name_len`",
                        limits::programs().join(", ")
                    );
                    problems.error(format!("unknown client `{}`", name.escape_debug()), hint);
                }),
            }
        }
        if max_tools == Some(0) {
            problems.under("max_tools", |problems| {
                problems.error("lists nothing", "1 or more");
            });
        }
        if max_name_len.is_some_and(|longest| longest < NAME_CHARS_MIN) {
            let hint = format!("{NAME_CHARS_MIN} or more, so that the server's name stays whole");
            problems.under("max_name_len", |problems| {
                problems.error("is too short", hint);
            });
        }
        caps.tools = max_tools.unwrap_or(caps.tools);
        caps.name = max_name_len.unwrap_or(caps.name);
        let profile = profile
            .or_else(|| model.map(limits::of_model))
            .unwrap_or(Profile::None);
        SchemaReader { profile, caps }
    }
}

//! Floor 3: what the files say, compiled into one immutable snapshot.

use crate::guards::budget::Tasks;
use crate::guards::secrets::Bindings;
use crate::guards::{self, Mode, allowlist, identity, repetition};

pub mod compile;
pub mod file;
pub mod fit;
pub mod layers;
pub mod live;
pub mod locate;
pub mod pins;
pub mod shape;

/// Everything a call is judged by. Immutable; replaced as a whole.
#[derive(Debug)]
pub struct Policy {
    /// Twelve hexadecimal digits over what all files say.
    pub version: String,
    /// Whether calls are refused, or only would be.
    pub mode: Mode,
    /// Who calls?
    pub identity: identity::Rule,
    /// What may this caller see? The only door to the contracts.
    pub allowlist: allowlist::Rule,
    /// Whose definition has an operator approved?
    pub pins: guards::pins::Rule,
    /// When does a task go in circles?
    pub repetition: repetition::Rule,
    /// What may tasks use?
    pub tasks: Tasks,
    /// Which messages pass besides tool calls.
    pub methods: Methods,
    /// The header, in lower case, in which agents name their session.
    pub session_header: Option<String>,
    /// Where secrets come from and where they may go.
    pub secrets: Bindings,
}

/// Which methods pass (DESIGN §3): known ones do unless denied, unknown ones only if allowed, or when nothing is
/// enforced. Names are matched whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    /// Refused, known or not.
    pub deny: Vec<String>,
    /// Passed although unknown.
    pub allow: Vec<String>,
}

impl Methods {
    /// Does a message with this method pass?
    pub fn passes(&self, method: &str, known: bool, mode: Mode) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == method);
        !named(&self.deny) && (known || mode == Mode::Observe || named(&self.allow))
    }
}

//! How the effects server misbehaves: the argument `fault` of a call, or else the same member of
//! the control file.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The effect happens; the connection is closed without an answer. On stdio nothing is said.
    Drop,
    /// The effect happens once and is answered twice.
    Twice,
    /// The process dies before the effect.
    DieBefore,
    /// The process dies after the effect.
    DieAfter,
    /// A cancellation before the effect does not prevent it.
    IgnoreCancel,
    /// The answer is this HTTP status; 401, 429 and 503 without an effect, others after it. Nothing
    /// on stdio.
    Status(u16),
    /// The answer is any HTTP status with any body, whether the effect happened or not. Nothing on
    /// stdio.
    Says {
        /// The status.
        status: u16,
        /// What stands in the answer beside it.
        body: Body,
        /// Whether the effect happens first.
        runs: bool,
    },
    /// The answer is -32602 and nothing happened.
    InvalidParams,
    /// The answer is -32603 and the effect happened.
    Internal,
    /// The effect happens, and the result says `isError`.
    IsError,
    /// The first round asks for more; the effect happens when it comes.
    InputRequired,
}

/// What stands in an answer beside its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// What proxies say.
    Text,
    /// A JSON-RPC error that answers the call.
    Matching,
    /// A JSON-RPC error that answers another one.
    Foreign,
    /// A JSON-RPC error that answers none.
    Null,
    /// Half of a JSON-RPC error.
    Cut,
    /// An event stream that breaks.
    Broken,
}

impl Body {
    /// By its word: that of the enum in `snake_case`.
    fn named(word: &str) -> Self {
        match word {
            "text" => Self::Text,
            "matching" => Self::Matching,
            "foreign" => Self::Foreign,
            "null" => Self::Null,
            "cut" => Self::Cut,
            "broken" => Self::Broken,
            _ => Self::Empty,
        }
    }

    /// Its type and bytes, for the request of this id.
    pub fn write(self, id: &Value) -> (&'static str, String) {
        let error = |id: &Value| {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32050, "message": "told to" } })
                .to_string()
        };
        let half = || error(id)[..20].to_owned();
        match self {
            Self::Empty => ("", String::new()),
            Self::Text => (
                "text/plain",
                "upstream connect error or disconnect/reset before headers".to_owned(),
            ),
            Self::Matching => ("application/json", error(id)),
            Self::Foreign => ("application/json", error(&json!(987_654_321))),
            Self::Null => ("application/json", error(&Value::Null)),
            Self::Cut => ("application/json", half()),
            Self::Broken => ("text/event-stream", format!("data: {}", half())),
        }
    }
}

impl Fault {
    /// As an object says: `status`, `body` and `runs`.
    fn told(order: &Value) -> Self {
        let status = order["status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
            .unwrap_or(500);
        let body = Body::named(order["body"].as_str().unwrap_or_default());
        Self::Says {
            status,
            body,
            runs: order["runs"] == true,
        }
    }

    /// By its word: those of the enum in `snake_case`, or an HTTP status or JSON-RPC code.
    fn named(word: &str) -> Self {
        match word {
            "drop" => Self::Drop,
            "twice" => Self::Twice,
            "die_before" => Self::DieBefore,
            "die_after" => Self::DieAfter,
            "ignore_cancel" => Self::IgnoreCancel,
            "-32602" => Self::InvalidParams,
            "-32603" => Self::Internal,
            "is_error" => Self::IsError,
            "input_required" => Self::InputRequired,
            status => status.parse().map_or(Self::None, Self::Status),
        }
    }

    /// The status that is answered before anything happened.
    pub fn status_before(self) -> Option<u16> {
        match self {
            Self::Status(status @ (401 | 429 | 503)) => Some(status),
            _ => None,
        }
    }

    /// The status that is answered in place of the result.
    pub fn status_after(self) -> Option<u16> {
        match self {
            Self::Status(status) if self.status_before().is_none() => Some(status),
            _ => None,
        }
    }
}

/// What a call is told to do.
#[derive(Debug, Clone, Copy)]
pub struct Orders {
    /// What goes wrong.
    pub fault: Fault,
    /// How long it takes before the effect.
    pub before: Duration,
    /// How long it takes after the effect.
    pub after: Duration,
}

impl Orders {
    /// The orders for a call with these arguments: `fault`, `delay_ms` (before the effect) and
    /// `delay_after_ms`, each delay a number or `[from, to]`; what the arguments leave open
    /// stands in the file that `ORACLE_CONTROL` names.
    pub fn of(arguments: &Value) -> Self {
        let control = std::env::var_os("ORACLE_CONTROL").map(PathBuf::from);
        let control = control.and_then(|file| std::fs::read_to_string(file).ok());
        let control = control
            .and_then(|text| serde_json::from_str::<Value>(&text).ok())
            .unwrap_or(json!({}));
        let order = |name: &str| {
            arguments
                .get(name)
                .or_else(|| control.get(name))
                .cloned()
                .unwrap_or_default()
        };
        let fault = match order("fault") {
            Value::String(word) => Fault::named(&word),
            Value::Number(number) => Fault::named(&number.to_string()),
            order @ Value::Object(_) => Fault::told(&order),
            _ => Fault::None,
        };
        Self {
            fault,
            before: delay(&order("delay_ms")),
            after: delay(&order("delay_after_ms")),
        }
    }
}

fn delay(order: &Value) -> Duration {
    let milliseconds = match order {
        Value::Array(range) => {
            let bound = |at: usize| range.get(at).and_then(Value::as_u64).unwrap_or_default();
            let (from, to) = (bound(0), bound(1));
            from + dice() % (to.saturating_sub(from) + 1)
        }
        order => order.as_u64().unwrap_or_default(),
    };
    Duration::from_millis(milliseconds)
}

/// Any number: each `RandomState` has keys of its own.
fn dice() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

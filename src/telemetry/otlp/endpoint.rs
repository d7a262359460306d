//! Where spans, metrics and log records go: the environment variables of the OpenTelemetry
//! specification, as far as toolgate keeps them.

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use std::time::Duration;

/// What is exported; each kind goes to an address of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpSignal {
    /// Spans of calls.
    Traces,
    /// What a scrape shows.
    Metrics,
    /// Lines of the log.
    Logs,
}

impl OtlpSignal {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// What it is called in metrics and in the log.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    fn variables(self) -> SignalVariables {
        match self {
            Self::Traces => SignalVariables {
                exporter: "OTEL_TRACES_EXPORTER",
                endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                compression: "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
                headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            },
            Self::Metrics => SignalVariables {
                exporter: "OTEL_METRICS_EXPORTER",
                endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
                compression: "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
                headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
            },
            Self::Logs => SignalVariables {
                exporter: "OTEL_LOGS_EXPORTER",
                endpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
                protocol: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
                compression: "OTEL_EXPORTER_OTLP_LOGS_COMPRESSION",
                headers: "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
            },
        }
    }
}

/// The variables of one signal; each wins over the one that all share.
struct SignalVariables {
    exporter: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
    compression: &'static str,
    headers: &'static str,
}

/// A collector's address for one signal, and the headers that it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint {
    url: Uri,
    headers: HeaderMap,
}

/// Why the environment does not name a collector that toolgate can use.
#[derive(Debug, thiserror::Error)]
pub enum BadOtlpEndpoint {
    /// The address is no http or https URL.
    #[error(
        "{variable} is not an http:// or https:// URL; write for example http://127.0.0.1:4318"
    )]
    Url {
        /// The variable at fault.
        variable: &'static str,
    },
    /// Another protocol than the one toolgate speaks is asked for.
    #[error(
        "{variable} asks for `{written}`; toolgate speaks http/protobuf only (port 4318 of most collectors)"
    )]
    Protocol {
        /// The variable at fault.
        variable: &'static str,
        /// Its value.
        written: String,
    },
    /// What is sent should be compressed.
    #[error(
        "{variable} asks for `{written}`; toolgate compresses nothing: leave it out, or write none"
    )]
    Compression {
        /// The variable at fault.
        variable: &'static str,
        /// Its value.
        written: String,
    },
    /// The headers cannot be sent. Their values may be secret and are not repeated.
    #[error("{variable} is no list of headers; write for example api-key=1234,tenant=5678")]
    Headers {
        /// The variable at fault.
        variable: &'static str,
    },
    /// A time is not in milliseconds, or out of bounds.
    #[error("{variable} is not a number of milliseconds from 10 to 86400000")]
    Milliseconds {
        /// The variable at fault.
        variable: &'static str,
    },
}

impl OtlpEndpoint {
    /// The endpoint that `variables` names for `signal`, if it is asked for. An empty variable
    /// counts as unset.
    ///
    /// # Errors
    /// When a variable has a value that cannot be kept.
    pub fn read(
        signal: OtlpSignal,
        variables: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, BadOtlpEndpoint> {
        let own = signal.variables();
        let set = |variable: &str| set(variable, &variables);
        let is = |variable: &str, word: &str| {
            set(variable).is_some_and(|value| value.eq_ignore_ascii_case(word))
        };
        if is("OTEL_SDK_DISABLED", "true") || is(own.exporter, "none") {
            return Ok(None);
        }
        let first = |own: &'static str, shared: &'static str| {
            let found = [own, shared].into_iter();
            let mut found = found.filter_map(|variable| Some((variable, set(variable)?)));
            found.next()
        };
        let shared = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let Some((variable, mut url)) = first(own.endpoint, shared) else {
            return Ok(None);
        };
        if variable == shared {
            url = format!("{}/v1/{}", url.trim_end_matches('/'), signal.word());
        }
        match first(own.protocol, "OTEL_EXPORTER_OTLP_PROTOCOL") {
            Some((variable, written)) if written != "http/protobuf" => {
                return Err(BadOtlpEndpoint::Protocol { variable, written });
            }
            Some(_) | None => {}
        }
        match first(own.compression, "OTEL_EXPORTER_OTLP_COMPRESSION") {
            Some((variable, written)) if written != "none" => {
                return Err(BadOtlpEndpoint::Compression { variable, written });
            }
            Some(_) | None => {}
        }
        let headers = match first(own.headers, "OTEL_EXPORTER_OTLP_HEADERS") {
            Some((variable, written)) => {
                headers(&written).ok_or(BadOtlpEndpoint::Headers { variable })?
            }
            None => HeaderMap::new(),
        };
        let url: Uri = url.parse().map_err(|_| BadOtlpEndpoint::Url { variable })?;
        let usable = matches!(url.scheme_str(), Some("http" | "https"))
            && url.host().is_some_and(|host| !host.is_empty());
        if usable {
            Ok(Some(Self { url, headers }))
        } else {
            Err(BadOtlpEndpoint::Url { variable })
        }
    }

    /// The address.
    pub(crate) fn url(&self) -> String {
        self.url.to_string()
    }

    /// The headers that each request has.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Whether nothing goes there in the clear.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.scheme_str() == Some("https")
    }
}

/// The time that `variable` says in milliseconds, or `otherwise`.
///
/// # Errors
/// When it is no time from 10 ms to a day.
pub(crate) fn milliseconds(
    variable: &'static str,
    otherwise: Duration,
    variables: impl Fn(&str) -> Option<String>,
) -> Result<Duration, BadOtlpEndpoint> {
    let Some(written) = set(variable, &variables) else {
        return Ok(otherwise);
    };
    match written.parse() {
        Ok(number @ 10..=86_400_000) => Ok(Duration::from_millis(number)),
        Ok(_) | Err(_) => Err(BadOtlpEndpoint::Milliseconds { variable }),
    }
}

fn set(variable: &str, variables: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let value = variables(variable).map(|value| value.trim().to_owned());
    value.filter(|value| !value.is_empty())
}

/// `name=value` with commas between, values as in URLs; `None` when one cannot be a header.
fn headers(written: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in written.split_terminator(',') {
        let (name, value) = pair.split_once('=')?;
        let name: HeaderName = name.trim().parse().ok()?;
        let mut value = HeaderValue::from_bytes(&unescaped(value.trim())?).ok()?;
        // A key to the collector: shown nowhere.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Some(headers)
}

/// The bytes that a text with `%20` stands for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(bytes)
}

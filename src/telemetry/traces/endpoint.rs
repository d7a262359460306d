//! Where traces go: the environment variables of the OpenTelemetry specification, as far as
//! toolgate keeps them.

use http::Uri;

/// A collector's address for traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracesEndpoint(Uri);

/// Why the environment does not name a collector that toolgate can use.
#[derive(Debug, thiserror::Error)]
pub enum BadTracesEndpoint {
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
}

impl TracesEndpoint {
    /// The endpoint that `variables` names, if traces are asked for. An empty variable counts as
    /// unset.
    ///
    /// # Errors
    /// When a variable has a value that cannot be kept.
    pub fn read(
        variables: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, BadTracesEndpoint> {
        let set = |variable: &str| {
            variables(variable)
                .map(|value| value.trim().to_owned())
                .filter(|v| !v.is_empty())
        };
        let is = |variable: &str, word: &str| {
            set(variable).is_some_and(|value| value.eq_ignore_ascii_case(word))
        };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let shared = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let (variable, url) = match (set(own), set(shared)) {
            (Some(url), _) => (own, url),
            (None, Some(base)) => (shared, format!("{}/v1/traces", base.trim_end_matches('/'))),
            (None, None) => return Ok(None),
        };
        for variable in [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ] {
            match set(variable) {
                Some(written) if written != "http/protobuf" => {
                    return Err(BadTracesEndpoint::Protocol { variable, written });
                }
                Some(_) => break,
                None => {}
            }
        }
        let url: Uri = url
            .parse()
            .map_err(|_| BadTracesEndpoint::Url { variable })?;
        let usable = matches!(url.scheme_str(), Some("http" | "https"))
            && url.host().is_some_and(|host| !host.is_empty());
        if usable {
            Ok(Some(Self(url)))
        } else {
            Err(BadTracesEndpoint::Url { variable })
        }
    }

    pub(super) fn url(&self) -> String {
        self.0.to_string()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

//! The two formats in which a scraper can read the metrics, and which of them it asks for.
//!
//! The library writes `OpenMetrics`. Its older relative, the Prometheus text format, is what people, `curl` and
//! `promtool check metrics` read, so that it is given wherever `OpenMetrics` was not asked for.

/// Families that are left out of the text format: `promtool check metrics` refuses units other than base units.
const OPENMETRICS_ONLY: [&str; 1] = ["toolgate_latency_ms"];

/// How the metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// The format that a request with this `Accept` wants; of both equally, `OpenMetrics`. `None`: there is no such
    /// header, or one that is no text.
    pub fn of_accept(accept: Option<&str>) -> Self {
        let (mut open, mut text) = (0, 0);
        for wanted in accept.unwrap_or_default().split(',') {
            let mut parts = wanted.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let (mut weight, mut is_known) = (1000, true);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim() {
                    "q" => weight = thousandths(value.trim()),
                    "version" => {
                        is_known = matches!(value.trim().trim_matches('"'), "1.0.0" | "0.0.4");
                    }
                    _ => {}
                }
            }
            if !is_known {
                continue;
            }
            if kind.eq_ignore_ascii_case("application/openmetrics-text") {
                open = weight.max(open);
            } else if kind.eq_ignore_ascii_case("text/plain") {
                text = weight.max(text);
            }
        }
        if open > 0 && open >= text {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// The content type that says so.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A weight such as `0.5` in thousandths; one that is none counts for nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between 0 and 1000"
)]
fn thousandths(weight: &str) -> u32 {
    let weight: f64 = weight.parse().unwrap_or_default();
    (weight.clamp(0.0, 1.0) * 1000.0) as u32
}

/// `open`, which is `OpenMetrics`, in the text format: families of counters and infos are called there as their
/// samples are, and an info is a gauge.
pub(super) fn as_text(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut family = Family::default();
    for line in open.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            family = Family::described(described);
        } else if let Some((_, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|of| of.split_once(' '))
        {
            text += &family.head(kind);
        } else if !line.starts_with("# ") && !family.is_left_out() {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// The family whose lines are read.
#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
}

impl<'a> Family<'a> {
    fn described(line: &'a str) -> Self {
        let (name, help) = line.split_once(' ').unwrap_or((line, ""));
        Self { name, help }
    }

    fn is_left_out(&self) -> bool {
        OPENMETRICS_ONLY.contains(&self.name)
    }

    /// The lines before its samples; none where it is left out.
    fn head(&self, kind: &str) -> String {
        if self.is_left_out() {
            return String::new();
        }
        let (suffix, kind) = match kind {
            "counter" => ("_total", kind),
            "info" => ("_info", "gauge"),
            kind => ("", kind),
        };
        let Self { name, help } = self;
        format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What scrapers send, and people.
    #[test]
    fn the_format_that_is_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (None, MetricsFormat::Text),
            (Some("*/*"), MetricsFormat::Text),
            (Some("text/html, */*;q=0.8"), MetricsFormat::Text),
            (Some("text/plain;version=0.0.4"), MetricsFormat::Text),
            (
                Some("application/openmetrics-text"),
                MetricsFormat::OpenMetrics,
            ),
            (
                Some("application/openmetrics-text; version=\"1.0.0\""),
                MetricsFormat::OpenMetrics,
            ),
            (
                Some("application/openmetrics-text;q=0"),
                MetricsFormat::Text,
            ),
            (
                Some("application/openmetrics-text;version=2.0.0, text/plain"),
                MetricsFormat::Text,
            ),
            (
                Some("text/plain;q=0.9, application/openmetrics-text;q=0.1"),
                MetricsFormat::Text,
            ),
            (Some(prometheus), MetricsFormat::OpenMetrics),
            (Some(";;,=,q=x"), MetricsFormat::Text),
        ] {
            assert_eq!(MetricsFormat::of_accept(accept), format, "{accept:?}");
        }
    }

    #[test]
    fn counters_and_infos_are_called_as_their_samples() {
        let open = "# HELP a_calls Calls.\n# TYPE a_calls counter\na_calls_total{x=\"# TYPE\"} 1\n\
            # HELP a_build The \"version\".\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
            # HELP toolgate_latency_ms Ms.\n# TYPE toolgate_latency_ms histogram\ntoolgate_latency_ms_sum 1.0\n\
            # HELP a_seconds S.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\na_seconds_bucket{le=\"+Inf\"} 1\n# EOF\n";
        let text = "# HELP a_calls_total Calls.\n# TYPE a_calls_total counter\na_calls_total{x=\"# TYPE\"} 1\n\
            # HELP a_build_info The \"version\".\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
            # HELP a_seconds S.\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(as_text(open), text);
    }
}

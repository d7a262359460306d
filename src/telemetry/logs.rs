//! The log: for people on a terminal, JSON otherwise, always to stderr (stdout belongs to the
//! protocol).

#[cfg(test)]
mod tests;

use super::traces::SPANS;
use crate::model::clock::Clock;
use crate::model::scrub::KNOWN;
use std::fmt;
use std::io::{self, IsTerminal};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

impl Shape {
    /// What suits stderr.
    pub fn of_stderr() -> Self {
        if std::io::stderr().is_terminal() {
            Self::Human
        } else {
            Self::Json
        }
    }
}

/// What is not a log level.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{written}` is not a log level: {reason}; write error, warn, info, debug or trace, or a list such as `info,toolgate::gate=debug`"
)]
pub struct BadLevel {
    written: String,
    reason: String,
}

/// Which lines are written: a level for toolgate's own lines (those of libraries then start at
/// `warn`), or a list of `target=level` as in `RUST_LOG`.
///
/// # Errors
/// When `written` is neither.
pub fn level(written: &str) -> Result<EnvFilter, BadLevel> {
    let written = written.trim();
    let directives = match written.parse::<LevelFilter>() {
        Ok(level) => format!("{},toolgate={level}", level.min(LevelFilter::WARN)),
        Err(_) => written.to_owned(),
    };
    let bad = |reason: &dyn fmt::Display| BadLevel {
        written: written.to_owned(),
        reason: reason.to_string(),
    };
    let filter = EnvFilter::builder()
        .parse(directives)
        .map_err(|error| bad(&error))?;
    // Spans are for traces. Without this line they would be made for the log, and cost every call.
    let no_spans: Directive = format!("{SPANS}=off")
        .parse()
        .map_err(|error| bad(&error))?;
    Ok(filter.add_directive(no_spans))
}

/// The layer that writes lines to `writer`. A writer that fails loses lines and nothing else: by
/// default the library would complain on stderr, and panic when stderr is what is closed.
pub(super) fn layer<S, W>(shape: Shape, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(Clean(writer))
        .with_timer(Wall)
        .log_internal_errors(false);
    match shape {
        Shape::Human => layer.boxed(),
        Shape::Json => layer
            .with_ansi(false)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .boxed(),
    }
}

/// Takes secrets out of lines: nothing of ours writes one, and a line may hold what others wrote.
struct Clean<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for Clean<W> {
    type Writer = Clean<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        Clean(self.0.make_writer())
    }
}

impl<W: io::Write> io::Write for Clean<W> {
    /// One write is one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match KNOWN.scrubber().and_then(|scrubber| scrubber.scrub(line)) {
            Some(clean) => self.0.write_all(&clean).map(|()| line.len()),
            None => self.0.write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The time of a line: RFC 3339 in UTC.
struct Wall;

impl FormatTime for Wall {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.3}", Clock.wall())
    }
}

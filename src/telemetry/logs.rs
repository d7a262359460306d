//! The log: for people on a terminal, JSON otherwise, always to stderr (stdout belongs to the
//! protocol).

#[cfg(test)]
mod tests;

use super::traces::SPAN_TARGET;
use crate::model::child_target::CHILD_TARGET;
use crate::model::clock::Clock;
use crate::model::scrub::KNOWN_SECRETS;
use std::fmt;
use std::io::{self, IsTerminal};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{Directive, FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::Filter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

/// Which lines leave for a collector.
type ExportedFilter<S> = Box<dyn Filter<S> + Send + Sync>;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
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
pub(crate) fn level(written: &str) -> Result<EnvFilter, BadLevel> {
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
    let no_spans: Directive = format!("{SPAN_TARGET}=off")
        .parse()
        .map_err(|error| bad(&error))?;
    Ok(filter.add_directive(no_spans))
}

/// Which lines leave for a collector: as [`level`] has it, without what tool servers write to their
/// standard error, which may hold anything. A list that names it has it.
///
/// # Errors
/// When `written` is neither.
pub(super) fn exported_level<S>(written: &str) -> Result<ExportedFilter<S>, BadLevel>
where
    S: Subscriber + 'static,
{
    let filter = level(written)?;
    if written.contains(CHILD_TARGET) {
        return Ok(Box::new(filter));
    }
    // What toolgate itself says of them is a warning, where warnings are asked for.
    let told =
        filter_fn(|metadata| metadata.target() != CHILD_TARGET || *metadata.level() <= Level::WARN);
    let told = told.with_max_level_hint(LevelFilter::TRACE);
    Ok(Box::new(filter.and(told)))
}

/// The layer that writes lines to `writer`. A writer that fails loses lines and nothing else: by
/// default the library would complain on stderr, and panic when stderr is what is closed.
pub(super) fn layer<S, W>(shape: LogFormat, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(ScrubbedWriter(writer))
        .with_timer(UtcTime)
        .log_internal_errors(false);
    match shape {
        LogFormat::Human => layer.boxed(),
        LogFormat::Json => layer
            .with_ansi(false)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .boxed(),
    }
}

/// Takes secrets out of lines: nothing of ours writes one, and a line may hold what others wrote.
struct ScrubbedWriter<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for ScrubbedWriter<W> {
    type Writer = ScrubbedWriter<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        ScrubbedWriter(self.0.make_writer())
    }
}

impl<W: io::Write> io::Write for ScrubbedWriter<W> {
    /// One write is one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match KNOWN_SECRETS
            .scrubber()
            .and_then(|scrubber| scrubber.scrub(line))
        {
            Some(clean) => self.0.write_all(&clean).map(|()| line.len()),
            None => self.0.write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The time of a line: RFC 3339 in UTC.
struct UtcTime;

impl FormatTime for UtcTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.3}", Clock.wall())
    }
}

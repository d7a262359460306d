//! Lines of the log as records for a collector: the same words, in the trace of their call, without
//! secrets. A thread that logs never waits: what finds no room is counted and lost.

use super::endpoint::OtlpEndpoint;
use super::post::OnRuntime;
use super::requests::{attribute, nanoseconds, origin, scope, text};
use super::tallies::OTLP_TALLIES;
use crate::model::clock::Clock;
use crate::model::scrub::KNOWN_SECRETS;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use prost::Message as _;
use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::dispatcher::WeakDispatch;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Records that wait for the collector at most.
pub(crate) const MAX_WAITING: usize = 1024;
/// Records of one request at most.
const MAX_BATCH: usize = 512;
/// Fields of one record at most, the message aside.
const MAX_FIELDS: usize = 32;
/// Bytes of one field that are looked at, so that a secret at the end of what is kept is seen whole.
const MAX_READ_BYTES: usize = 8 << 10;
/// Bytes of one field that are kept.
const MAX_KEPT_BYTES: usize = 2 << 10;
/// Bytes of all fields of a record that are kept.
const MAX_RECORD_BYTES: usize = 8 << 10;

/// Which records leave, for where, and how long they gather.
#[derive(Debug)]
pub struct RecordExport {
    /// The collector.
    pub endpoint: OtlpEndpoint,
    /// Which lines, as `--log` says it.
    pub level: String,
    /// How long the first of a batch waits for others.
    pub gather: Duration,
}

/// The layer that makes records of lines.
pub(crate) struct RecordLayer {
    queue: mpsc::Sender<LogRecord>,
    /// What the layer is part of, once it is put together: a list of layers hands on no
    /// `on_register_dispatch`.
    pub(crate) dispatch: Arc<OnceLock<WeakDispatch>>,
}

/// The layer, and where its records come out.
pub(crate) fn layer() -> (RecordLayer, mpsc::Receiver<LogRecord>) {
    let (queue, records) = mpsc::channel(MAX_WAITING);
    let dispatch = Arc::default();
    (RecordLayer { queue, dispatch }, records)
}

impl RecordLayer {
    /// Says which span of a collector's trace the line is from, where spans are made.
    fn place(&self, record: &mut LogRecord, span: &tracing::span::Id) {
        let dispatch = self.dispatch.get().and_then(WeakDispatch::upgrade);
        let found =
            dispatch.and_then(|dispatch| tracing_opentelemetry::get_otel_context(span, &dispatch));
        if let Some(found) = found {
            let at = found.span().span_context().clone();
            if at.is_valid() {
                record.trace_id = at.trace_id().to_bytes().to_vec();
                record.span_id = at.span_id().to_bytes().to_vec();
                record.flags = u32::from(at.trace_flags().to_u8());
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for RecordLayer {
    fn on_event(&self, event: &Event<'_>, around: Context<'_, S>) {
        let Ok(room) = self.queue.try_reserve() else {
            OTLP_TALLIES.lose(1);
            return;
        };
        let mut words = RecordWords::default();
        event.record(&mut words);
        let mut record = words.record();
        let (number, word) = severity(*event.metadata().level());
        record.severity_number = number as i32;
        word.clone_into(&mut record.severity_text);
        let target = event.metadata().target().to_owned();
        record.attributes.push(attribute("target", text(target)));
        record.time_unix_nano = nanoseconds(Clock.wall());
        record.observed_time_unix_nano = record.time_unix_nano;
        if let Some(span) = around.current_span().id() {
            self.place(&mut record, span);
        }
        room.send(record);
    }
}

fn severity(level: Level) -> (SeverityNumber, &'static str) {
    match level {
        Level::ERROR => (SeverityNumber::Error, "ERROR"),
        Level::WARN => (SeverityNumber::Warn, "WARN"),
        Level::INFO => (SeverityNumber::Info, "INFO"),
        Level::DEBUG => (SeverityNumber::Debug, "DEBUG"),
        Level::TRACE => (SeverityNumber::Trace, "TRACE"),
    }
}

/// What a line says.
#[derive(Default)]
struct RecordWords {
    message: String,
    fields: Vec<(&'static str, Value)>,
    kept: usize,
    left_out: u32,
}

impl RecordWords {
    fn record(self) -> LogRecord {
        let fields = self.fields.into_iter();
        LogRecord {
            body: Some(AnyValue {
                value: Some(text(self.message)),
            }),
            attributes: fields.map(|(name, value)| attribute(name, value)).collect(),
            dropped_attributes_count: self.left_out,
            ..LogRecord::default()
        }
    }

    fn add_text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let mut read = BeginningOf::default();
        // It ends early where there is more than is read.
        let _ = read.write_fmt(value);
        let mut words = match KNOWN_SECRETS.scrubber() {
            Some(scrubber) => scrubber.scrub_text(&read.0).unwrap_or(read.0),
            None => read.0,
        };
        let room = MAX_KEPT_BYTES.min(MAX_RECORD_BYTES - self.kept);
        let end = words.floor_char_boundary(room);
        words.truncate(end);
        self.kept += words.len();
        if field.name() == "message" {
            self.message = words;
        } else {
            self.add(field, text(words));
        }
    }

    fn add(&mut self, field: &Field, value: Value) {
        if self.fields.len() < MAX_FIELDS {
            self.fields.push((field.name(), value));
        } else {
            self.left_out += 1;
        }
    }
}

impl Visit for RecordWords {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::IntValue(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.add(field, Value::IntValue(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::DoubleValue(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::BoolValue(value));
    }
}

/// The first bytes of a text; more of it is not made.
#[derive(Default)]
struct BeginningOf(String);

impl fmt::Write for BeginningOf {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = more.floor_char_boundary(MAX_READ_BYTES - self.0.len());
        self.0.push_str(&more[..end]);
        if end == more.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

/// Sends what `records` has until `stop`; then the rest of it.
pub(crate) async fn export(
    mut records: mpsc::Receiver<LogRecord>,
    collector: OnRuntime,
    gather: Duration,
    stop: CancellationToken,
) {
    let mut is_last = false;
    while !is_last {
        let mut batch = Vec::new();
        tokio::select! {
            received = records.recv_many(&mut batch, MAX_BATCH) => is_last = received == 0,
            () = stop.cancelled() => is_last = true,
        }
        if !is_last && batch.len() < MAX_BATCH {
            tokio::select! {
                () = tokio::time::sleep(gather) => {}
                () = stop.cancelled() => {}
            }
        }
        let room = if is_last { MAX_WAITING } else { MAX_BATCH };
        while batch.len() < room
            && let Ok(record) = records.try_recv()
        {
            batch.push(record);
        }
        let count = batch.len();
        if count > 0 && !collector.post(request(batch)).await {
            OTLP_TALLIES.lose(count);
        }
    }
}

fn request(log_records: Vec<LogRecord>) -> Vec<u8> {
    let scope_logs = ScopeLogs {
        scope: Some(scope()),
        log_records,
        ..ScopeLogs::default()
    };
    let resource_logs = ResourceLogs {
        resource: Some(origin()),
        scope_logs: vec![scope_logs],
        ..ResourceLogs::default()
    };
    let resource_logs = vec![resource_logs];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

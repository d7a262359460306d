//! What an export says beside its records: which process and which program it is from.

use super::post::resource;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The process.
pub(super) fn origin() -> Resource {
    let attributes = resource()
        .iter()
        .map(|(key, value)| attribute(key.as_str(), text(value.as_str().into_owned())))
        .collect();
    Resource {
        attributes,
        ..Resource::default()
    }
}

/// The program.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "toolgate".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// A name and a value.
pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// A value that is a text.
pub(super) fn text(text: String) -> Value {
    Value::StringValue(text)
}

/// A time in nanoseconds since 1970, as OTLP counts.
pub(super) fn nanoseconds(time: jiff::Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or_default()
}

//! What hostile bytes meet first, one function each: it panics when any bytes at all break what is
//! promised (threat-model §12).
//!
//! libFuzzer calls them with bytes of its own (`fuzz/run`); `tests/it/fuzz.rs` calls the same
//! functions with the committed corpora and with mutations of them, on any toolchain.

pub mod audit_verify;
pub mod canonical;
pub mod envelope;
pub mod header_codec;
pub mod policy_loader;
pub mod renderer;
pub mod schema;
pub mod scrubber;
pub mod second;
pub mod sse;
pub mod strict_reader;

/// One target.
pub type Target = fn(&[u8]);

/// All of them, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("strict_reader", strict_reader::run),
    ("envelope", envelope::run),
    ("header_codec", header_codec::run),
    ("sse", sse::run),
    ("schema", schema::run),
    ("canonical", canonical::run),
    ("renderer", renderer::run),
    ("scrubber", scrubber::run),
    ("policy_loader", policy_loader::run),
    ("audit_verify", audit_verify::run),
];

/// What the first byte says, and the bytes after it.
fn led(data: &[u8]) -> (u8, &[u8]) {
    data.split_first()
        .map_or((0, data), |(first, rest)| (*first, rest))
}

//! What the oracle says while it behaves, in both eras, and where it notes what it executed.
//!
//! The scenarios of toolgate include this file for their oracle over HTTP, so that both doors say
//! the same.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The modern revision.
pub const MODERN: &str = "2026-07-28";
/// The newest legacy revision.
pub const LEGACY: &str = "2025-11-25";
/// The key of `_meta` that makes a request modern.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// The key of `_meta` under which toolgate says which action of which session a call is.
pub const FENCE_KEY: &str = "dev.toolgate/fence";

/// Which eras an oracle speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// Both.
    Both,
    /// 2026-07-28 only.
    Modern,
    /// Up to 2025-11-25 only.
    Legacy,
}

/// Whether a request carries the modern envelope.
pub fn is_modern(message: &Value) -> bool {
    message["params"]["_meta"].get(VERSION_KEY).is_some()
}

/// The answer to any request that is not a call: `result` or `error`, as members of the response.
pub fn answer(message: &Value, tools: &[Value], eras: Eras) -> Value {
    let modern = is_modern(message);
    let method = message["method"].as_str().unwrap_or_default();
    let outcome = match (method, modern) {
        (_, true) if eras == Eras::Legacy => error(-32601, "no such method"),
        (_, false) if eras == Eras::Modern => error(-32602, "a request needs `_meta`"),
        ("server/discover", true) => result(
            json!({
                "supportedVersions": [MODERN],
                "capabilities": { "tools": {}, "resources": {} },
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            true,
        ),
        ("initialize", false) => result(
            json!({
                "protocolVersion": LEGACY,
                "capabilities": { "tools": {}, "resources": {} },
                "serverInfo": { "name": "oracle", "version": "1" },
            }),
            false,
        ),
        ("ping", false) => result(json!({}), false),
        ("tools/list", true) => result(
            json!({ "tools": tools, "ttlMs": 0, "cacheScope": "private" }),
            true,
        ),
        ("tools/list", false) => result(json!({ "tools": tools }), false),
        ("resources/list", _) => result(json!({ "resources": [] }), modern),
        _ => error(-32601, "no such method"),
    };
    under(message, outcome)
}

/// What a tool answers that does what it was asked to.
pub fn done(message: &Value) -> Value {
    under(
        message,
        result(
            json!({ "content": [{ "type": "text", "text": "done" }], "isError": false }),
            is_modern(message),
        ),
    )
}

fn result(mut members: Value, modern: bool) -> Value {
    if modern {
        members["resultType"] = json!("complete");
    }
    json!({ "result": members })
}

fn error(code: i64, words: &str) -> Value {
    json!({ "error": { "code": code, "message": words } })
}

fn under(message: &Value, mut outcome: Value) -> Value {
    outcome["jsonrpc"] = json!("2.0");
    outcome["id"] = message["id"].clone();
    outcome
}

/// What is noted of an execution: the tool, the business key in the argument `key`, the arguments
/// and their digest, the fence that came with the call, when (boot time in nanoseconds, which no
/// wall clock shifts) and by which process.
pub fn execution(params: &Value) -> Value {
    let arguments = &params["arguments"];
    json!({
        "tool": params["name"],
        "key": arguments["key"],
        "arguments": arguments,
        "digest": digest(arguments),
        "fence": params["_meta"][FENCE_KEY],
        "at": boot_time(),
        "pid": std::process::id(),
    })
}

/// SHA-256 over the RFC 8785 form, in hex: the `params_hash` of toolgate's ledger.
pub fn digest(arguments: &Value) -> String {
    let canonical = serde_json_canonicalizer::to_vec(arguments).unwrap_or_default();
    Sha256::digest(canonical)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

/// Nanoseconds since the machine started, sleep included.
pub fn boot_time() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The file of executions: one line each, on the disk before the tool answers.
#[derive(Debug)]
pub struct Log(Mutex<File>);

impl Log {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map(|file| Self(Mutex::new(file)))
    }

    /// Notes an execution.
    ///
    /// # Errors
    /// When the line did not reach the disk.
    pub fn note(&self, line: &Value) -> std::io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }
}

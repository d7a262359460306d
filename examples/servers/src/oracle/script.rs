//! What the oracle says while it behaves, in both eras, and where it notes what it executed.
//!
//! The scenarios of toolgate include this file for their oracle over HTTP, so that both doors say the same.

use serde_json::{Value, json};
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
        ("tools/list", true) => result(json!({ "tools": tools, "ttlMs": 0, "cacheScope": "private" }), true),
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
        result(json!({ "content": [{ "type": "text", "text": "done" }], "isError": false }), is_modern(message)),
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

/// The file of executions: one line each, on the disk before the tool answers.
#[derive(Debug)]
pub struct Log(Mutex<File>);

impl Log {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(|file| Self(Mutex::new(file)))
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

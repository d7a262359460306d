//! The oracle on standard input and output. Its tools say by name how they misbehave; all take any
//! object.

use super::folding::disagreement;
use super::script::{Eras, Log, answer, done, execution};
use crate::serve::Failure;
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::path::Path;

/// The tools, by what they do. `read` and `write` behave; each other one notes its execution first,
/// except `dies_before`.
const TOOLS: &[&str] = &[
    "read",
    "write",
    "garbage",
    "twice",
    "foreign_id",
    "never",
    "dies_before",
    "dies_after",
    "half_a_line",
    "asks",
    "long_line",
    "echoes",
    "says",
];

/// Serves until its input ends; with `stubborn` it lives on then, whatever signal comes that can be
/// ignored.
///
/// # Errors
/// When the log or a pipe breaks.
pub fn serve(log: &Path, eras: Eras, stubborn: bool) -> Result<(), Failure> {
    let mut beside = log.as_os_str().to_owned();
    beside.push(".disagreements");
    let log = Log::open(log)?;
    let tools: Vec<Value> = TOOLS
        .iter()
        .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
        .collect();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(words) = disagreement(&line) {
            Log::open(beside.as_ref())?.note(&json!(words))?;
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if message.get("id").is_none() || message.get("method").is_none() {
            continue;
        }
        if message["method"] == "tools/call" {
            execute(&log, &message, &line)?;
        } else {
            say(&answer(&message, &tools, eras))?;
        }
    }
    if !stubborn {
        return Ok(());
    }
    loop {
        std::thread::park();
    }
}

fn execute(log: &Log, message: &Value, line: &str) -> Result<(), Failure> {
    let params = &message["params"];
    let tool = params["name"].as_str().unwrap_or_default();
    if tool == "dies_before" {
        return Err("the tool dies before its effect".into());
    }
    let mut noted = execution(params);
    noted["headers"] = json!({});
    noted["body"] = json!(line);
    log.note(&noted)?;
    match tool {
        "garbage" => line_of("this is no JSON"),
        "twice" => say(&done(message)).and_then(|()| say(&done(message))),
        "foreign_id" => say(&json!({ "jsonrpc": "2.0", "id": 987_654, "result": {} })),
        "never" => Ok(()),
        "dies_after" => Err("the tool dies after its effect".into()),
        "half_a_line" => {
            print_bytes(b"{\"jsonrpc\":\"2.0\",")?;
            Err("the tool dies in the middle of its answer".into())
        }
        "asks" => {
            say(
                &json!({ "jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {} }),
            )?;
            say(&done(message))
        }
        "echoes" => {
            let said = params["arguments"].to_string();
            let (first, rest) = said.split_at(said.floor_char_boundary(said.len() / 2));
            let mut stderr = std::io::stderr().lock();
            for part in [first, rest, "\n"] {
                stderr.write_all(part.as_bytes())?;
                stderr.flush()?;
            }
            line_of(&said)?;
            let mut answer = done(message);
            answer["result"]["content"][0]["text"] = json!(said);
            say(&answer)
        }
        "says" => {
            for line in params["arguments"]["lines"]
                .as_array()
                .into_iter()
                .flatten()
            {
                say(&said(line.as_str().unwrap_or_default(), message))?;
            }
            Ok(())
        }
        "long_line" => line_of(&"x".repeat(5 << 20)),
        _ => say(&done(message)),
    }
}

/// What a call wants said: an answer, which has the id 0, under the call's own, and progress under
/// its token.
fn said(line: &str, call: &Value) -> Value {
    let mut said: Value = serde_json::from_str(line).unwrap_or_default();
    if said["id"] == 0 {
        said["id"] = call["id"].clone();
    }
    if said["method"] == "notifications/progress" {
        said["params"]["progressToken"] = call["params"]["_meta"]["progressToken"].clone();
    }
    said
}

fn say(message: &Value) -> Result<(), Failure> {
    line_of(&message.to_string())
}

fn line_of(line: &str) -> Result<(), Failure> {
    print_bytes(format!("{line}\n").as_bytes())
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

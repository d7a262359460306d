//! The same messages directly and through toolgate, between an agent and a server of one era: every
//! member in its order and every number as it was written, on HTTP and stdio, in observe mode and in
//! enforce mode. What differs all the same is [`PUBLISHED`], which protocol §5.2 has, too.

use crate::harness::agent::{Agent, modern};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::stdio::StdioGate;
use crate::harness::tool_server::script::LEGACY;
use crate::harness::until;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What is not as it was written, and why.
const PUBLISHED: [(&str, &str); 6] = [
    (
        "id",
        "two agents may use the same one, so servers read toolgate's own, and agents theirs",
    ),
    (
        "members of a message that JSON-RPC does not know",
        "two readers could read them differently; with them a call is refused",
    ),
    (
        "`dev.toolgate/…` in `_meta`",
        "between agent and toolgate, or toolgate's word to the server",
    ),
    (
        "`_meta` of the result of a call",
        "has toolgate's decision, too",
    ),
    (
        "numbers that some readers change (`-0`, `1e308`)",
        "refused from agents in enforce mode; servers' travel as they were written",
    ),
    (
        "keys of one object that differ in case only",
        "refused from agents in enforce mode where it counts what they say (threat-model §3A A2)",
    ),
];

/// Values whose spelling a reader may lose.
const SPELLINGS: [&str; 20] = [
    "1.0",
    "1e2",
    "1E+2",
    "-0",
    "-0.0",
    "0.10",
    "0.1e-7",
    "9007199254740993",
    "18446744073709551615",
    "-9223372036854775808",
    "1.7976931348623157e308",
    r#""\u00e9\u0041\/""#,
    r#""\ud83d\ude00""#,
    r#""é \"quoted\" \\ \n\t""#,
    r#""""#,
    r#"{"b":1,"a":2,"c":{"z":[],"y":null}}"#,
    r#"{"":{},"0":[1.50,true]}"#,
    "[1.50,null,true,[[]],{}]",
    r#"{ "z" : [ 1 ,2 ] , "a":	0 }"#,
    r#"{"$ref":"x","__proto__":1,"x-y/z":"a"}"#,
];

/// Of these, what no agent may say in enforce mode (threat-model §3A A6).
const REFUSED: [&str; 3] = ["-0", "-0.0", "1.7976931348623157e308"];

/// What stands around a value in the parameters of a request, and in its result.
const PLACES: [(&str, &str, &str); 7] = [
    (
        "resources/read",
        r#"{"uri":"x:1","zz":@,"aa":1}"#,
        r#"{"zz":@,"contents":[{"uri":"x:1","text":"","_meta":{"b":@,"a":1}}],"aa":1@@}"#,
    ),
    (
        "prompts/get",
        r#"{"name":"p","arguments":{"b":"","a":""},"zz":@}"#,
        r#"{"messages":[],"description":"","zz":[@,@]@@}"#,
    ),
    (
        "completion/complete",
        r#"{"zz":@,"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"b","value":""}}"#,
        r#"{"completion":{"values":[],"total":1.0},"zz":@@@}"#,
    ),
    ("prompts/list", r#"{"zz":@}"#, r#"{"zz":@,"prompts":[]@@}"#),
    (
        "tools/call",
        r#"{"name":"read","arguments":{"zz":@,"aa":[@]}}"#,
        r#"{"structuredContent":{"zz":@,"aa":[@]},"content":[{"type":"text","text":"","zz":@}]@@}"#,
    ),
    (
        "tools/call",
        r#"{"name":"write","arguments":{"zz":@,"aa":[@],"n":#}}"#,
        r#"{"content":[],"isError":false,"zz":@@@}"#,
    ),
    ("resources/read", r#"{"zz":@,"uri":"x:2"}"#, "error"),
];

/// The parts of a message as they are written.
#[derive(Deserialize)]
struct Written<'m> {
    #[serde(borrow)]
    method: Option<&'m RawValue>,
    #[serde(borrow)]
    params: Option<&'m RawValue>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
    #[serde(borrow)]
    error: Option<&'m RawValue>,
}

/// A part of a message, but for what is published: `_meta` has its members in order, without
/// toolgate's own.
fn part(raw: Option<&RawValue>) -> String {
    raw.map_or_else(String::new, |raw| without_own(raw.get()))
}

/// Cuts the members that begin with `dev.toolgate/` out of a text, and `_meta` if nothing else is in
/// it.
fn without_own(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(begin) = text.find("\"dev.toolgate/") {
        let after = text[begin..].find("\":").unwrap() + begin + 2;
        let mut values =
            serde_json::Deserializer::from_str(&text[after..]).into_iter::<&RawValue>();
        values.next().unwrap().unwrap();
        let mut end = after + values.byte_offset();
        let mut begin = begin;
        if text[end..].starts_with(',') {
            end += 1;
        } else if text[..begin].ends_with(',') {
            begin -= 1;
        }
        text.replace_range(begin..end, "");
    }
    for bare in [",\"_meta\":{}", "\"_meta\":{},", "\"_meta\":{}"] {
        text = text.replace(bare, "");
    }
    text
}

fn read(text: &str) -> Written<'_> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Answers each request with the text in the file `reply`, and appends what it reads to `heard`.
const CHILD: &str = r#"
import json, sys
modern = sys.argv[1] == "modern"
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method = message["method"]
    names = ("tools", "prompts", "resources", "completions")
    capabilities = {name: {} for name in names}
    if method == "server/discover" and modern:
        answer = '"result":' + json.dumps({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"})
    elif method == "initialize" and not modern:
        answer = '"result":' + json.dumps({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "child", "version": "1"}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write", "undo")]
        answer = '"result":' + json.dumps({"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"})
    elif method in ("server/discover", "initialize", "ping"):
        answer = '"error":{"code":-32601,"message":"no such method"}'
    else:
        with open("heard", "a") as out: out.write(line)
        answer = open("reply").read()
    sys.stdout.write('{"jsonrpc":"2.0","id":%s,%s}\n' % (json.dumps(message["id"]), answer))
    sys.stdout.flush()
"#;

/// Which carriers there are between agent, toolgate and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carried {
    Http,
    ToChild,
    FromStdio,
}

enum Speaks {
    /// It lives as long as toolgate does.
    Http {
        agent: Box<Agent>,
        _gate: Box<Gate>,
    },
    Stdio(Box<StdioGate>),
}

/// An agent and a server of one era with toolgate between them.
struct Conversation {
    modern: bool,
    enforces: bool,
    speaks: Speaks,
    /// What the server answers next, `result` or `error` as a member.
    reply: Arc<Mutex<String>>,
    /// Over HTTP: what it hears.
    server: Option<ScriptedServer>,
    setup: Setup,
    next: u64,
}

impl Conversation {
    async fn start(modern: bool, carried: Carried, mode: &'static str) -> Self {
        let reply = Arc::<Mutex<String>>::default();
        let mut setup = Setup::new()
            .contracts(&[("s__read", "read"), ("s__write", "write")])
            .open_sides()
            .mode(mode);
        let mut server = None;
        if carried == Carried::ToChild {
            let era = if modern { "modern" } else { "legacy" };
            let members = format!(
                "command: python3, args: [echo.py, {era}], cwd: ., env: {{ PATH: \"${{PATH}}\" }}"
            );
            let path = std::env::var("PATH").unwrap();
            setup = setup.server_with("s", &members).environment("PATH", &path);
            std::fs::write(setup.directory().join("echo.py"), CHILD).unwrap();
        } else {
            let offers = Offers {
                modern,
                legacy: !modern,
                tools: ["read", "write", "undo"].map(tool).to_vec(),
                ..Offers::default()
            };
            let started = ScriptedServer::start(offers).await;
            let says = reply.clone();
            started.answers(move |seen| {
                let (id, said) = (&seen.body["id"], says.lock().unwrap());
                let body = format!(r#"{{"jsonrpc":"2.0","id":{id},{said}}}"#);
                Reply::Said(200, "application/json", body)
            });
            setup = setup.server_with("s", &format!("url: \"{}\"", started.url()));
            server = Some(started);
        }
        let speaks = if carried == Carried::FromStdio {
            Speaks::Stdio(Box::new(StdioGate::start(&setup)))
        } else {
            let gate = setup.clone().start().await;
            let agent = if modern {
                gate.agent().at("s")
            } else {
                gate.legacy("/mcp/s").await
            };
            Speaks::Http {
                agent: Box::new(agent),
                _gate: Box::new(gate),
            }
        };
        let mut started = Self {
            modern,
            enforces: mode == "enforce",
            speaks,
            reply,
            server,
            setup,
            next: 1,
        };
        started.is_introduced().await;
        started
    }

    /// On stdio the handshake is the agent's.
    async fn is_introduced(&mut self) {
        let Speaks::Stdio(gate) = &mut self.speaks else {
            return;
        };
        if self.modern {
            return;
        }
        let info = json!({ "name": "agent", "version": "1" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        assert!(gate.ask(hello.to_string().as_bytes()).await.message()["result"].is_object());
        gate.write(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
    }

    /// A request with these parameters; toolgate's answer to it as it is written.
    async fn asks(&mut self, method: &str, params: &str) -> (String, String) {
        self.next += 1;
        let id = self.next;
        let meta = if self.modern {
            let envelope = modern(method, json!({}))["params"]["_meta"].to_string();
            format!(r#","_meta":{envelope}"#)
        } else {
            r#","_meta":{"acme/b":1.0,"acme/a":"\u0041"}"#.to_owned()
        };
        let params = format!("{}{meta}}}", params.strip_suffix('}').unwrap());
        // A call may have nothing that JSON-RPC does not know.
        let unheard = if method == "tools/call" {
            ""
        } else {
            r#","unheard":{"of":1}"#
        };
        let text = format!(
            r#"{{"jsonrpc":"2.0"{unheard},"id":{id},"method":"{method}","params":{params}}}"#
        );
        let answer = match &mut self.speaks {
            Speaks::Http { agent, .. } => {
                let message: Value = serde_json::from_str(&text).unwrap();
                let mut reading = agent.raw(&message, text.clone()).await;
                if reading.is_stream() {
                    until_data(&mut reading).await
                } else {
                    reading.whole().await;
                    reading.head.text()
                }
            }
            Speaks::Stdio(gate) => loop {
                let said = gate.ask(text.as_bytes()).await.text();
                if !said.contains("\"method\"") {
                    break said;
                }
            },
        };
        (params, answer)
    }

    /// What the server read last, word for word.
    async fn heard(&self, count: usize) -> String {
        if let Some(server) = &self.server {
            return server.seen().last().unwrap().text.clone();
        }
        let file = self.setup.directory().join("heard");
        until("the child has noted it", || async {
            nth_line(&file, count)
        })
        .await
    }

    /// The value in this place, both ways.
    async fn carries(&mut self, spelling: &str, place: (&str, &str, &str), count: usize) {
        let (method, params, result) = place;
        // Two writes whose numbers mean the same would be one call.
        let own = if self.enforces && REFUSED.contains(&spelling) {
            let refused = params.replace('@', spelling).replace('#', "0");
            let (_, refused) = self.asks(method, &refused).await;
            assert!(refused.contains("\"error\""), "{spelling}: {refused}");
            "0"
        } else {
            spelling
        };
        let params = params.replace('@', own).replace('#', &count.to_string());
        let kind = if self.modern {
            r#","resultType":"complete""#
        } else {
            ""
        };
        let said = if result == "error" {
            format!(
                r#""error":{{"code":-32000,"message":"m","data":{{"zz":{spelling},"aa":1.0}}}}"#
            )
        } else {
            let result = result.replace("@@}", &format!("{kind}}}"));
            format!("\"result\":{}", result.replace('@', spelling))
        };
        self.reply.lock().unwrap().clone_from(&said);
        std::fs::write(self.setup.directory().join("reply"), &said).unwrap();
        let (sent, answer) = self.asks(method, &params).await;
        // An action id may have the digits of any code in it.
        assert!(
            !answer.contains("\"refused\"") && !answer.contains("\"code\":-3260"),
            "{answer}"
        );
        let heard = self.heard(count).await;
        let (asked, answered) = (read(&heard), read(&answer));
        let what = format!(
            "{method} with {spelling}, {}",
            self.setup.directory().display()
        );
        assert_eq!(part(asked.params), without_own(&sent), "asked: {what}");
        assert_eq!(asked.method.unwrap().get(), format!("\"{method}\""));
        let whole = format!("{{{said}}}");
        let direct = read(&whole);
        assert_eq!(
            part(answered.result),
            part(direct.result),
            "answered: {what}"
        );
        assert_eq!(part(answered.error), part(direct.error), "answered: {what}");
        assert!(!heard.contains("unheard"), "{heard}");
    }
}

async fn until_data(reading: &mut crate::harness::answer::Reading) -> String {
    loop {
        let line = reading.line().await.expect("the stream goes on");
        if let Some(data) = line.strip_prefix("data:").map(str::trim)
            && !data.is_empty()
        {
            return data.to_owned();
        }
    }
}

fn nth_line(file: &Path, count: usize) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.ends_with('\n').then_some(())?;
    text.lines().nth(count).map(str::to_owned)
}

async fn carries_all(carried: Carried) {
    assert!(PUBLISHED.iter().all(|(_, why)| !why.is_empty()));
    for modern in [true, false] {
        for mode in ["enforce", "observe"] {
            let mut conversation = Conversation::start(modern, carried, mode).await;
            let places = SPELLINGS
                .iter()
                .flat_map(|spelling| PLACES.map(|place| (spelling, place)));
            for (count, (spelling, place)) in places.enumerate() {
                conversation.carries(spelling, place, count).await;
            }
        }
    }
}

#[tokio::test]
async fn messages_keep_their_spelling_over_http() {
    carries_all(Carried::Http).await;
}

#[tokio::test]
async fn messages_keep_their_spelling_to_a_child() {
    carries_all(Carried::ToChild).await;
}

#[tokio::test]
async fn messages_keep_their_spelling_from_stdio() {
    carries_all(Carried::FromStdio).await;
}

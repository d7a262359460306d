//! The oracle on HTTP/2 over TLS, frame by frame: its tools say by name how they refuse the first
//! stream that calls them.

use super::folding;
use super::tool_server::script::{Eras, answer, done};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What a client says first (RFC 9113 §3.4).
const PREFACE: usize = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// The flag for the last frame of a stream; on SETTINGS and PING: an acknowledgement.
const END: u8 = 1;
const END_HEADERS: u8 = 4;
/// Error codes (RFC 9113 §7).
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// How a first call is refused: the tool's name, and whether that proves that nothing was
/// processed.
pub const REFUSALS: [(&str, bool); 5] = [
    ("refused", true),
    ("going", true),
    ("leaving", false),
    ("cancelled", false),
    ("broken", false),
];

/// A running server; dropping it ends it.
pub struct Refusing {
    address: SocketAddr,
    /// Tool and key of every call, and whether it was refused.
    calls: Arc<Mutex<Vec<(String, Value, bool)>>>,
    serving: JoinHandle<()>,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Refusing {
    /// Serves it on a port of the system's choice.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, calls) = (
            listener.local_addr().unwrap(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (acceptor, noted) = (acceptor(), calls.clone());
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (acceptor, noted) = (acceptor.clone(), noted.clone());
                connections.spawn(async move { connection(stream, &acceptor, &noted).await });
            }
        });
        Self {
            address,
            calls,
            serving,
        }
    }

    /// The MCP endpoint.
    pub fn url(&self) -> String {
        format!("https://{}/mcp", self.address)
    }

    /// How often `tool` was called with `key`: in all, and without being refused.
    pub fn calls(&self, tool: &str, key: &Value) -> (usize, usize) {
        let calls = self.calls.lock().unwrap();
        let own: Vec<_> = calls
            .iter()
            .filter(|(name, own, _)| name == tool && own == key)
            .collect();
        (
            own.len(),
            own.iter().filter(|(.., refused)| !refused).count(),
        )
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/harness/tls")
        .join(name)
}

/// Whom to trust so that the server's certificate is good.
pub fn authority() -> PathBuf {
    file("authority.pem")
}

fn acceptor() -> TlsAcceptor {
    acceptor_of(vec![b"h2".to_vec()])
}

/// The same for another protocol than HTTP.
pub fn plain_acceptor() -> TlsAcceptor {
    acceptor_of(Vec::new())
}

fn acceptor_of(protocols: Vec<Vec<u8>>) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = protocols;
    TlsAcceptor::from(Arc::new(config))
}

type Calls = Mutex<Vec<(String, Value, bool)>>;

/// Serves one connection. None: it is over.
async fn connection(stream: TcpStream, acceptor: &TlsAcceptor, calls: &Calls) -> Option<()> {
    let mut tls = acceptor.accept(stream).await.ok()?;
    tls.read_exact(&mut [0; PREFACE]).await.ok()?;
    write(&mut tls, (SETTINGS, 0, 0), &[]).await?;
    let mut bodies = HashMap::<u32, Vec<u8>>::new();
    let mut empty = HashSet::new();
    loop {
        let frame = read(&mut tls).await?;
        match frame.kind {
            SETTINGS | PING if frame.flags & END == 0 => {
                let payload = if frame.kind == PING {
                    &frame.payload[..]
                } else {
                    &[]
                };
                write(&mut tls, (frame.kind, END, 0), payload).await?;
            }
            HEADERS if frame.flags & END != 0 => drop(empty.insert(frame.stream)),
            DATA => {
                bodies
                    .entry(frame.stream)
                    .or_default()
                    .extend(&frame.payload);
                let more = u32::try_from(frame.payload.len()).unwrap().to_be_bytes();
                if !frame.payload.is_empty() {
                    write(&mut tls, (WINDOW_UPDATE, 0, 0), &more).await?;
                }
                if frame.flags & END != 0 {
                    let body = bodies.remove(&frame.stream).unwrap_or_default();
                    folding::reads(&String::from_utf8_lossy(&body));
                    respond(
                        &mut tls,
                        frame.stream,
                        &serde_json::from_slice(&body).unwrap(),
                        calls,
                    )
                    .await?;
                }
            }
            _ => {}
        }
        // A request without a body: nothing of it is for us.
        for stream in empty.drain() {
            head(&mut tls, stream, "405", END).await?;
        }
    }
}

async fn respond(
    tls: &mut TlsStream<TcpStream>,
    stream: u32,
    message: &Value,
    calls: &Calls,
) -> Option<()> {
    if message.get("id").is_none() {
        return head(tls, stream, "202", END).await;
    }
    let reply = if message["method"] == "tools/call" {
        let (tool, key) = (
            message["params"]["name"].as_str()?.to_owned(),
            message["params"]["arguments"]["key"].clone(),
        );
        let first = !calls
            .lock()
            .unwrap()
            .iter()
            .any(|(name, own, _)| *name == tool && *own == key);
        calls.lock().unwrap().push((tool.clone(), key, first));
        if first {
            let reset = |code: u32| code.to_be_bytes();
            match tool.trim_end_matches("_again") {
                "refused" => {
                    return write(tls, (RST_STREAM, 0, stream), &reset(REFUSED_STREAM)).await;
                }
                "cancelled" => return write(tls, (RST_STREAM, 0, stream), &reset(CANCEL)).await,
                "broken" => {
                    return write(tls, (RST_STREAM, 0, stream), &reset(INTERNAL_ERROR)).await;
                }
                // It may have looked at this stream, and is gone.
                "leaving" => {
                    write(
                        tls,
                        (GOAWAY, 0, 0),
                        &[stream.to_be_bytes(), [0; 4]].concat(),
                    )
                    .await?;
                    return None;
                }
                _ => {
                    let before = (stream - 2).to_be_bytes();
                    return write(tls, (GOAWAY, 0, 0), &[before, [0; 4]].concat()).await;
                }
            }
        }
        done(message)
    } else {
        let names = REFUSALS
            .into_iter()
            .flat_map(|(name, _)| [name.to_owned(), format!("{name}_again")]);
        let tools: Vec<Value> = names
            .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
            .collect();
        answer(message, &tools, Eras::Both)
    };
    head(tls, stream, "200", 0).await?;
    write(tls, (DATA, END, stream), reply.to_string().as_bytes()).await
}

/// The head of an answer, each field a literal that nobody need remember (RFC 7541 §6.2.2).
async fn head(tls: &mut TlsStream<TcpStream>, stream: u32, status: &str, last: u8) -> Option<()> {
    let literal = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let mut fields = vec![8];
    fields.extend(literal(status));
    fields.push(0);
    fields.extend(literal("content-type"));
    fields.extend(literal("application/json"));
    write(tls, (HEADERS, END_HEADERS | last, stream), &fields).await
}

async fn write(tls: &mut TlsStream<TcpStream>, head: (u8, u8, u32), payload: &[u8]) -> Option<()> {
    let (kind, flags, stream) = head;
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    tls.write_all(&bytes).await.ok()?;
    tls.flush().await.ok()
}

async fn read(tls: &mut TlsStream<TcpStream>) -> Option<Frame> {
    let mut head = [0; 9];
    tls.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    tls.read_exact(&mut payload).await.ok()?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Some(Frame {
        kind: head[3],
        flags: head[4],
        stream,
        payload,
    })
}

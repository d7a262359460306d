//! A machine without root certificates, as an empty container is: toolgate serves what needs none of them, and
//! believes no server that shows one.

use crate::harness::left_out::left_out;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A web server whose certificate nobody vouches for, at a port of the system's choice.
const WEB_SERVER: &str = r#"
import http.server, os, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
class Asked(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        open("asked", "w").close()
        self.send_error(500)
server = http.server.HTTPServer(("127.0.0.1", 0), Asked)
server.socket = context.wrap_socket(server.socket, server_side=True)
with open("port.new", "w") as file: file.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
"#;

struct WebServer(Child);

impl Drop for WebServer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// None where this machine cannot make a certificate.
async fn web_server(directory: &Path) -> Option<(WebServer, SocketAddr)> {
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -addext basicConstraints=critical,CA:FALSE -days 1 -keyout key.pem -out cert.pem";
    let mut made = Command::new("openssl");
    made.args(words.split_whitespace()).current_dir(directory);
    let made = made.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut python = Command::new("python3");
    python.args(["-c", WEB_SERVER]).current_dir(directory);
    let child = python.stderr(Stdio::null()).spawn().unwrap();
    let server = WebServer(child);
    let port = until("the web server's port", || async {
        let read = std::fs::read_to_string(directory.join("port")).ok()?;
        read.parse::<u16>().ok()
    });
    let port = port.await;
    Some((server, SocketAddr::from(([127, 0, 0, 1], port))))
}

#[tokio::test]
async fn an_empty_container_serves_and_believes_nobody() {
    let place = tempfile::tempdir().unwrap();
    let plain = Script::new().tool("read", Behaviour::Answers).start().await;
    let web = web_server(place.path()).await;
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut setup = Setup::new().server("plain", &plain);
    if let Some((_, address)) = &web {
        setup = setup.server_with("web", &format!("url: \"https://{address}/mcp\""));
    }
    let gate = setup
        .contracts(&[("plain__read", "read")])
        .environment("SSL_CERT_FILE", "/dev/null")
        .environment("SSL_CERT_DIR", empty.to_str().unwrap())
        .start()
        .await;
    let answer = gate.agent().modern_call("plain__read", json!({})).await;
    assert!(answer.is_done());
    let said = "this machine has no root certificates";
    assert_eq!(gate.log().matches(said).count(), 1, "{}", gate.log());
    if web.is_none() {
        left_out(
            "openssl",
            "nobody with a certificate of their own was refused",
        );
        return;
    }
    let readiness = gate.readiness().await;
    let web = &readiness["servers"][1];
    assert_eq!(web["state"], "down", "{readiness}");
    let fault = web["last_fault"].to_string();
    assert!(fault.contains("certificate"), "{fault}");
    assert!(
        !place.path().join("asked").exists(),
        "nothing leaves for who is not believed"
    );
}

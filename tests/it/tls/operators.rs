//! The operators' door with TLS, and the verbs that ask there.

use super::{CEL_TOKEN, server};
use crate::harness::doors::{Authority, Issued, Way, certificate, place};
use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::tool_server::ToolServer;
use crate::harness::until;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const ANN_TOKEN: &str = "ann-operator-0123456789abcdef";

/// A toolgate whose operators' door speaks TLS, with the agents' door beside it.
async fn stage(server: &ToolServer, authority: &Authority) -> Gate {
    let setup = Setup::new()
        .server("oracle", server)
        .contracts(&[("oracle__read", "read")])
        .unwatched()
        .callers(&format!("  - {{ agent: cel, token: {CEL_TOKEN} }}"))
        .operators(&format!(
            "tls: {{ cert: door.pem, key: door-key.pem }}, tokens: [{{ name: ann, token: {ANN_TOKEN}, roles: [approver, switch] }}]"
        ))
        .environment("OPERATOR_TOKEN", ANN_TOKEN);
    authority.door(2100).put(setup.directory(), "door");
    let mut gate = setup.begin().await;
    // Verbs find the door by the configuration.
    let found = gate.operators.to_string();
    gate.setup = gate.setup.clone().admin_listens(&found);
    gate.setup.write();
    until("it is ready, as `status` sees", || async {
        let (code, ..) = run(&gate.setup, &["status"]).await;
        (code == 0).then_some(())
    })
    .await;
    gate
}

/// Issue 20 "verbs reach a TLS door": by the configuration's own certificate, also after it was
/// exchanged, or by one that is named.
#[tokio::test]
async fn verbs_reach_a_door_with_tls() {
    let (server, authority) = (server().await, Authority::new());
    let gate = stage(&server, &authority).await;
    let away = ["disable", "oracle__read", "--why", "x"];
    let (code, out, err) = run(&gate.setup, &away).await;
    assert_eq!(code, 0, "{out}{err}");
    place(&gate.path(""), "ca.pem", &authority.pem);
    let named = format!("https://{}", gate.operators);
    let named = ["approvals", "list", "--admin", &named, "--ca", "ca.pem"];
    let (code, out, err) = run(&gate.setup, &named).await;
    assert_eq!(code, 0, "{out}{err}");
    authority.door(2101).put(&gate.path(""), "door");
    until("the next certificate is known", || async {
        let (code, ..) = run(&gate.setup, &["approvals", "list"]).await;
        (code == 0).then_some(())
    })
    .await;
    let way = Way::tls(gate.operators, &[&authority], None);
    let request = http::Request::get("/readyz")
        .header("Host", format!("localhost:{}", gate.operators.port()));
    let request = request.body(http_body_util::Full::default()).unwrap();
    let ready = way.connect().await.unwrap().send(request).await.unwrap();
    assert_eq!(ready.status, 200);
}

/// Stands in the way with a certificate of `authority`, and keeps what it is told.
async fn stand_in_the_way(authority: &Authority) -> (SocketAddr, Arc<Mutex<String>>) {
    let Issued { cert, key } = authority.door(2100);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate(&cert)], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let told = Arc::new(Mutex::new(String::new()));
    let kept = told.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&piece[..read]);
            kept.lock().unwrap().push_str(&text);
        }
    });
    (address, told)
}

/// A door that proves to be another gets no token: who stands in the way reads nothing.
#[tokio::test]
async fn a_door_of_another_gets_no_token() {
    let (server, authority, other) = (server().await, Authority::new(), Authority::new());
    let gate = stage(&server, &authority).await;
    place(&gate.path(""), "ca.pem", &other.pem);
    place(&gate.path(""), "own.pem", &authority.pem);
    let (code, out, err) = run(&gate.setup, &["approvals", "list", "--ca", "ca.pem"]).await;
    let words = "proves not to be whom ca.pem trusts";
    assert!(code != 0 && err.contains(words), "{out}{err}");
    let (address, told) = stand_in_the_way(&other).await;
    let there = format!("https://{address}");
    let asks = |ca: &'static str| {
        let there = there.clone();
        let setup = &gate.setup;
        async move {
            let args = ["approvals", "list", "--admin", &there, "--ca", ca];
            run(setup, &args).await
        }
    };
    let (code, out, err) = asks("own.pem").await;
    let words = "proves not to be whom own.pem trusts";
    assert!(code != 0 && err.contains(words), "{out}{err}");
    assert_eq!(*told.lock().unwrap(), "", "it was told nothing");
    // Whom it takes for its door is told.
    let (code, ..) = asks("ca.pem").await;
    assert!(code != 0 && told.lock().unwrap().contains(ANN_TOKEN));
    let named = format!("https://{}", gate.operators);
    let (code, out, err) = run(&gate.setup, &["approvals", "list", "--admin", &named]).await;
    assert!(code != 0 && err.contains("--ca"), "{out}{err}");
    // Without TLS nothing is read, and the door says so.
    let plain = gate.operators.to_string();
    let (code, out, err) = run(&gate.setup, &["approvals", "list", "--admin", &plain]).await;
    assert!(
        code != 0 && err.contains("use https:// in its address"),
        "{out}{err}"
    );
}

/// A door that is open and proves to be another is told of as that, not as one where nothing answers; and nothing is
/// answered from files in its place.
#[tokio::test]
async fn a_door_that_cannot_be_trusted_is_told_of() {
    let (server, authority, other) = (server().await, Authority::new(), Authority::new());
    let gate = stage(&server, &authority).await;
    place(&gate.path(""), "ca.pem", &other.pem);
    let explain = "approvals grants explain --tool oracle__read --agent cel --ca ca.pem";
    for line in [
        "status --ca ca.pem",
        "status --ready --ca ca.pem",
        "approvals list --ca ca.pem",
        explain,
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (code, out, err) = run(&gate.setup, &words).await;
        assert!(code != 0, "{line}: {out}{err}");
        let said = format!("{out}{err}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("proves not to be"), "{line}: {said}");
        assert!(!said.contains("nothing answers"), "{line}: {said}");
    }
    let named = format!("https://{}", gate.operators);
    let (code, out, err) = run(&gate.setup, &["status", "--admin", &named]).await;
    assert!(code != 0 && out.contains("--ca"), "{out}{err}");
}

/// An operator who names a certificate means TLS: nothing is asked without it, and the token stays here.
#[tokio::test]
async fn a_certificate_without_tls_is_a_slip() {
    let (server, authority) = (server().await, Authority::new());
    let gate = stage(&server, &authority).await;
    place(&gate.path(""), "ca.pem", &authority.pem);
    let plain = gate.operators.to_string();
    for verb in [&["approvals", "list"][..], &["status"], &["doctor"]] {
        let words = [verb, &["--admin", &plain, "--ca", "ca.pem"]].concat();
        let (code, out, err) = run(&gate.setup, &words).await;
        assert_eq!(code, 2, "{verb:?}: {out}{err}");
        let hint = format!("--admin https://{plain}");
        assert!(err.contains(&hint), "{verb:?}: {out}{err}");
    }
}

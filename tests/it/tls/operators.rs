//! The operators' door with TLS, and the verbs that ask there.

use super::{CEL_TOKEN, server};
use crate::harness::doors::{Authority, Way, place};
use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::tool_server::ToolServer;
use crate::harness::until;

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

/// A door that proves to be another gets no token: who stands in the way reads nothing.
#[tokio::test]
async fn a_door_of_another_gets_no_token() {
    let (server, authority, other) = (server().await, Authority::new(), Authority::new());
    let gate = stage(&server, &authority).await;
    place(&gate.path(""), "ca.pem", &other.pem);
    let (code, out, err) = run(&gate.setup, &["approvals", "list", "--ca", "ca.pem"]).await;
    assert!(code != 0, "{out}{err}");
    let named = format!("https://{}", gate.operators);
    let (code, out, err) = run(&gate.setup, &["approvals", "list", "--admin", &named]).await;
    assert!(code != 0 && err.contains("--ca"), "{out}{err}");
    // Without TLS nothing is read, and the door says so.
    let plain = gate.operators.to_string();
    let (code, out, err) = run(&gate.setup, &["approvals", "list", "--admin", &plain]).await;
    assert!(code != 0, "{out}{err}");
}

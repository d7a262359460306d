//! Doors that speak TLS: who gets in by which certificate, and files that change while agents call.

mod operators;

use crate::harness::answer::{Answer, exchange};
use crate::harness::doors::{Authority, Issued, Way, place};
use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use jiff::ToSpan as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const ANN_URI: &str = "spiffe://example.org/ns/agents/sa/ann";
const BEN_URI: &str = "spiffe://example.org/ns/agents/sa/ben";
const CEL_TOKEN: &str = "cel-0123456789abcdef";
/// What the door shows; agents are asked for nothing.
const PLAIN: &str = "tls: { cert: door.pem, key: door-key.pem }";
/// What it shows, and whom it takes.
const ASKING: &str = "tls: { cert: door.pem, key: door-key.pem, client_ca: agents.pem }";

async fn server() -> ToolServer {
    let script = Script::new().tool("read", Behaviour::Answers);
    script.start().await
}

/// A toolgate in the making whose door `authority` vouches for, with these members of `tls`.
fn setup(server: &ToolServer, authority: &Authority, tls: &str) -> Setup {
    let setup = Setup::new()
        .server("oracle", server)
        .contracts(&[("oracle__read", "read")])
        .unwatched()
        .callers(&format!("  - {{ agent: cel, token: {CEL_TOKEN} }}"))
        .more(tls);
    authority.door(2100).put(setup.directory(), "door");
    setup
}

/// A toolgate that knows callers by certificates of `agents`.
async fn asking(server: &ToolServer, door: &Authority, agents: &Authority, tls: &str) -> Gate {
    let setup = setup(server, door, tls).callers(&format!(
        "  - {{ agent: ann, certificate: \"{ANN_URI}\" }}\n  - {{ agent: ben, certificate: \"{BEN_URI}\" }}\n  \
         - {{ agent: cel, token: {CEL_TOKEN} }}"
    ));
    place(setup.directory(), "agents.pem", &agents.pem);
    setup.start().await
}

/// Issue 20 "TLS at both doors, reload on change, under load without one failed call": the certificate
/// is exchanged again and again, its files one after the other, while agents call on old and new
/// connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_rotate_under_load_without_a_failed_call() {
    let (server, first, second) = (server().await, Authority::new(), Authority::new());
    let gate = setup(&server, &first, PLAIN).start().await;
    let trusting = Way::tls(gate.agents, &[&first, &second], None);
    let (stop, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut load = Vec::new();
    for number in 0..4 {
        let (way, stop, calls) = (trusting.clone(), stop.clone(), calls.clone());
        load.push(tokio::spawn(async move {
            let mut kept = way.connect().await.unwrap();
            let mut failed = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let anew = way.call(Some(CEL_TOKEN), "oracle__read").await;
                let arguments = json!({ "n": number });
                let open = kept.call(Some(CEL_TOKEN), "oracle__read", arguments).await;
                for answer in [anew, open] {
                    calls.fetch_add(1, Ordering::Relaxed);
                    if !answer.as_ref().is_ok_and(Answer::is_done) {
                        failed.push(format!("{answer:?}"));
                    }
                }
            }
            failed
        }));
    }
    for (authority, other) in [(&second, &first), (&first, &second), (&second, &first)] {
        authority.door(2100).put(&gate.path(""), "door");
        let (new, old) = (
            Way::tls(gate.agents, &[authority], None),
            Way::tls(gate.agents, &[other], None),
        );
        until("the new certificate is shown", || async {
            new.connect().await.ok().map(drop)
        })
        .await;
        assert!(old.connect().await.is_err(), "the old one is not");
        let before = calls.load(Ordering::Relaxed);
        until("agents go on", || async {
            (calls.load(Ordering::Relaxed) > before + 8).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    for load in load {
        assert_eq!(load.await.unwrap(), [""; 0]);
    }
    assert!(calls.load(Ordering::Relaxed) > 24);
}

/// Issue 20 "client certificates … under load without one failed call": another authority vouches for agents, after a time
/// in which both do; who shows a certificate that counts, or comes on a connection that is open, is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_of_agents_change_under_load_without_a_failed_call() {
    let (server, door) = (server().await, Authority::new());
    let authorities = [Authority::new(), Authority::new()];
    let gate = asking(&server, &door, &authorities[0], ASKING).await;
    let [first, second] = authorities
        .each_ref()
        .map(|one| Way::tls(gate.agents, &[&door], Some(&one.agent(&[ANN_URI]))));
    let (stop, phase) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let moved = Arc::new(AtomicUsize::new(0));
    let mut load = Vec::new();
    for number in 0..3 {
        let ways = [first.clone(), second.clone()];
        let (stop, phase, moved) = (stop.clone(), phase.clone(), moved.clone());
        load.push(tokio::spawn(async move {
            let mut kept = ways[0].connect().await.unwrap();
            let (mut calls, mut seen) = (0, 0);
            while !stop.load(Ordering::Acquire) {
                let now = phase.load(Ordering::Acquire);
                moved.fetch_add(now - seen, Ordering::AcqRel);
                seen = now;
                let anew = ways[now].call(None, "oracle__read").await;
                let arguments = json!({ "n": number });
                let open = kept.call(None, "oracle__read", arguments).await;
                for answer in [anew, open] {
                    assert!(answer.as_ref().is_ok_and(Answer::is_done), "{answer:?}");
                    calls += 1;
                }
            }
            calls
        }));
    }
    let is_known = async |way: &Way| {
        let answer = way.call(None, "oracle__read").await;
        answer.is_ok_and(|answer| answer.is_done()).then_some(())
    };
    assert_eq!(is_known(&second).await, None);
    let both = format!("{}{}", authorities[0].pem, authorities[1].pem);
    place(&gate.path(""), "agents.pem", &both);
    until("both authorities count", || is_known(&second)).await;
    phase.store(1, Ordering::Release);
    until("all agents have another certificate", || async {
        (moved.load(Ordering::Acquire) == 3).then_some(())
    })
    .await;
    place(&gate.path(""), "agents.pem", &authorities[1].pem);
    until("the first counts no more", || async {
        is_known(&first).await.is_none().then_some(())
    })
    .await;
    stop.store(true, Ordering::Release);
    for load in load {
        assert!(load.await.unwrap() > 0);
    }
}

/// Issue 20 "a broken new pair leaves the old in force and says so": policies come in force meanwhile.
#[tokio::test]
async fn a_broken_pair_leaves_the_old_one_in_force() {
    let (server, authority, other) = (server().await, Authority::new(), Authority::new());
    let gate = setup(&server, &authority, PLAIN).start().await;
    let way = Way::tls(gate.agents, &[&authority], None);
    let Issued { cert, .. } = other.door(2100);
    place(&gate.path(""), "door.pem", &cert);
    until("the log says so", || async {
        gate.log()
            .contains("the certificate before stays in force")
            .then_some(())
    })
    .await;
    assert!(
        gate.log()
            .contains("the key cannot be used with the certificate")
    );
    assert!(
        way.call(Some(CEL_TOKEN), "oracle__read")
            .await
            .unwrap()
            .is_done()
    );
    let version = gate.readiness().await["policy"]["version"].clone();
    gate.setup
        .clone()
        .contracts(&[("oracle__read", "read"), ("oracle__other", "read")])
        .unwatched()
        .write();
    until("the changed policy is in force", || async {
        (gate.readiness().await["policy"]["version"] != version).then_some(())
    })
    .await;
    assert!(
        way.call(Some(CEL_TOKEN), "oracle__read")
            .await
            .unwrap()
            .is_done()
    );
    // What `check` says of the same files is an error, with its place.
    let (code, out, err) = run(&gate.setup, &["check", "toolgate.yaml"]).await;
    let text = out + &err;
    assert!(
        code == 1 && text.contains("cannot be used with the certificate"),
        "{text}"
    );
    authority.door(2100).put(&gate.path(""), "door");
    until("the next pair is in force", || async {
        gate.log()
            .contains("new connections are shown")
            .then_some(())
    })
    .await;
    assert!(
        way.call(Some(CEL_TOKEN), "oracle__read")
            .await
            .unwrap()
            .is_done()
    );
}

/// Issue 20 "plain HTTP sent to a TLS door": told in HTTP, each time, and in one line of the log.
#[tokio::test]
async fn plain_http_is_told_to_use_tls() {
    let (server, authority) = (server().await, Authority::new());
    let gate = setup(&server, &authority, PLAIN).start().await;
    for _ in 0..8 {
        let body = "x".repeat(30_000);
        let text = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {CEL_TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(gate.agents, text.into_bytes()).await.unwrap();
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("https://"), "{answer:?}");
    }
    let log = gate.log();
    assert_eq!(log.matches("plain HTTP came to a door").count(), 1, "{log}");
    assert!(!log.contains(CEL_TOKEN), "{log}");
    let way = Way::tls(gate.agents, &[&authority], None);
    assert!(
        way.call(Some(CEL_TOKEN), "oracle__read")
            .await
            .unwrap()
            .is_done()
    );
}

/// What a caller is told who is not known, and whether it got through the handshake.
async fn refused(way: &Way, token: Option<&str>) -> Option<(u16, String)> {
    let answer = way.call(token, "oracle__read").await.ok()?;
    Some((answer.status, answer.text()))
}

/// Issue 20 "client certificates mapped to callers": who is known, and as whom; who is refused, and
/// where.
#[tokio::test]
async fn callers_are_known_by_their_certificates() {
    let (server, door, agents) = (server().await, Authority::new(), Authority::new());
    let gate = asking(&server, &door, &agents, ASKING).await;
    let with = |own: &Issued| Way::tls(gate.agents, &[&door], Some(own));
    let bare = Way::tls(gate.agents, &[&door], None);
    let ann = with(&agents.agent(&[ANN_URI]));
    let stranger = with(&agents.agent(&["spiffe://example.org/ns/agents/sa/other"]));
    for (way, token) in [
        (&ann, None),
        (&bare, Some(CEL_TOKEN)),
        (&stranger, Some(CEL_TOKEN)),
    ] {
        let answer = way.call(token, "oracle__read").await.unwrap();
        assert!(answer.is_done(), "{answer:?}");
    }
    let entries = gate.entries(3).await;
    let known: Vec<(&Value, &Value)> = entries
        .iter()
        .map(|entry| (&entry["user_id"], &entry["certificate"]))
        .collect();
    let (cel, none) = (json!("cel"), Value::Null);
    assert_eq!(
        known,
        [
            (&json!("ann"), &json!(ANN_URI)),
            (&cel, &none),
            (&cel, &none)
        ]
    );
    let two = with(&agents.agent(&[ANN_URI, BEN_URI]));
    for (way, token, words) in [
        (&bare, None, "no bearer token came"),
        (&stranger, None, "names no caller"),
        (&two, None, "names two callers"),
        (&ann, Some(CEL_TOKEN), "different callers"),
        (
            &ann,
            Some("nobody-0123456789abcdef"),
            "is not in the configuration",
        ),
    ] {
        let (status, text) = refused(way, token).await.unwrap();
        assert_eq!(status, 401, "{text}");
        assert!(text.contains(words), "{text}");
    }
    // One of an authority that nobody named does not get through the handshake, whatever it names.
    let forged = with(&Authority::new().agent(&[ANN_URI]));
    assert_eq!(refused(&forged, None).await, None);
    assert_eq!(refused(&forged, Some(CEL_TOKEN)).await, None);
    assert!(gate.log().contains("a TLS handshake failed"));
    assert_eq!(gate.entries(3).await.len(), 3, "nothing else was called");
}

/// Issue 20 "client certificates": where they are required, a token alone is not enough; authorities
/// change like certificates.
#[tokio::test]
async fn a_certificate_can_be_required_and_its_authority_exchanged() {
    let (server, door) = (server().await, Authority::new());
    let (agents, next) = (Authority::new(), Authority::new());
    let tls = ASKING.replace(" }", ", client_certificates: required }");
    let gate = asking(&server, &door, &agents, &tls).await;
    let with = |own: &Issued| Way::tls(gate.agents, &[&door], Some(own));
    let bare = Way::tls(gate.agents, &[&door], None);
    assert_eq!(refused(&bare, Some(CEL_TOKEN)).await, None);
    let (before, after) = (
        with(&agents.agent(&[ANN_URI])),
        with(&next.agent(&[ANN_URI])),
    );
    let mut open = before.connect().await.unwrap();
    let called = open.call(None, "oracle__read", json!({ "n": 1 })).await;
    assert!(called.unwrap().is_done());
    assert_eq!(refused(&after, None).await, None);
    place(&gate.path(""), "agents.pem", &next.pem);
    until("the next authority is taken", || async {
        let answer = after.call(None, "oracle__read").await.ok()?;
        answer.is_done().then_some(())
    })
    .await;
    assert_eq!(refused(&before, None).await, None, "the one before is not");
    let called = open.call(None, "oracle__read", json!({ "n": 2 })).await;
    assert!(called.unwrap().is_done(), "what was open goes on");
}

/// Only what the door speaks is agreed on.
#[tokio::test]
async fn http_2_is_not_agreed_on() {
    let (server, authority) = (server().await, Authority::new());
    let gate = setup(&server, &authority, PLAIN).start().await;
    let way = Way::tls(gate.agents, &[&authority], None);
    let both = way.offering(&[b"h2", b"http/1.1"]);
    assert!(
        both.call(Some(CEL_TOKEN), "oracle__read")
            .await
            .unwrap()
            .is_done()
    );
    assert!(way.offering(&[b"h2"]).connect().await.is_err());
}

/// Issue 20 "certificate expiring within 14 days warned and shown as a metric".
#[tokio::test]
async fn a_certificate_that_ends_soon_is_told_of() {
    let (server, authority) = (server().await, Authority::new());
    let setup = setup(&server, &authority, PLAIN);
    let soon = jiff::Zoned::now().date() + 5.days();
    authority.door_until(soon).put(setup.directory(), "door");
    let (code, out, err) = run(&setup, &["check", setup.write().to_str().unwrap()]).await;
    let text = out + &err;
    assert!(
        code == 0 && text.contains("the certificate expires soon"),
        "{text}"
    );
    let gate = setup.start().await;
    assert!(gate.log().contains("the certificate expires soon"));
    let series = "toolgate_tls_certificate_expires_seconds{door=\"agents\"}";
    let left = gate.metric(series).await;
    let day = 86_400.0;
    assert!((3.0 * day..6.0 * day).contains(&left), "{left}");
    authority.door(2100).put(&gate.path(""), "door");
    until("the next one is shown", || async {
        (gate.metric(series).await > 365.0 * day).then_some(())
    })
    .await;
}

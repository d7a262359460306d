//! Incidents at the operators' door.

use super::*;

pub(super) struct IncidentsDoor {
    pub(super) router: axum::Router,
    _data: tempfile::TempDir,
}

pub(super) fn door() -> IncidentsDoor {
    let data = tempfile::tempdir().unwrap();
    let [bob, aud] = ["bob", "aud"].map(|name| format!("0123456789abcdef-{name}"));
    let secrets = [ANN_TOKEN.to_owned(), bob, aud].map(Secret::new);
    let names = [
        known("ann", &["switch"]),
        known("bob", &["approver"]),
        known("aud", &["auditor"]),
    ];
    let operators = Operators::of(names.into_iter().zip(&secrets), OperatorVerbs::default());
    let router = router(
        Arc::new(FixedStatus { ready: true }),
        switches(data.path()),
        operators,
        DoorReach {
            hosts: hosts("127.0.0.1:7778".parse().unwrap(), &[]),
            public_url: None,
            places: 8,
        },
    );
    IncidentsDoor {
        router,
        _data: data,
    }
}

impl IncidentsDoor {
    /// What the operator is answered; without a body it is a GET.
    pub(super) async fn ask(&self, who: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        let bearer = format!("Bearer 0123456789abcdef-{who}");
        let headers = [
            ("host", "127.0.0.1:7778"),
            ("content-type", "application/json"),
            ("authorization", &*bearer),
        ];
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.unwrap_or_default().to_owned();
        let asked = request(method, path, &headers).map(|_| Body::from(body));
        let answer = self.router.clone().oneshot(asked).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        (status, text.parse().unwrap())
    }
}

/// Only an operator with the role opens and closes one, for tools that there can be, and with a reason.
#[tokio::test]
async fn incidents_are_opened_and_closed_by_operators_with_the_role() {
    let door = door();
    let good = r#"{"tool":"fs__*","why":"it wiped"}"#;
    assert_eq!(door.ask("eve", "/api/incidents", None).await.0, 401);
    assert_eq!(door.ask("bob", "/api/incidents", Some(good)).await.0, 403);
    for (body, status) in [
        (r#"{"tool":"bank__*","why":"x"}"#, 404),
        (r#"{"tool":"fs__wype","why":"a typo"}"#, 404),
        (r#"{"tool":"fs__*","why":""}"#, 400),
        (r#"{"tool":"fs__*"}"#, 400),
        (r#"{"tool":"fs__*","why":"x","who":"bob"}"#, 400),
        (r#"["fs__*","x"]"#, 400),
    ] {
        let (got, told) = door.ask("ann", "/api/incidents", Some(body)).await;
        assert_eq!(got, status, "{body}: {told}");
    }
    let (status, opened) = door.ask("ann", "/api/incidents", Some(good)).await;
    assert_eq!(
        (status, &opened["id"], &opened["state"], &opened["who"]),
        (200, &json!(1), &json!("open"), &json!("ann")),
        "{opened}"
    );
    assert_eq!(door.ask("ann", "/api/incidents", Some(good)).await.0, 409);
    let (_, listed) = door.ask("bob", "/api/incidents", None).await;
    assert_eq!(listed["incidents"], json!([opened]));
    let (_, report) = door.ask("bob", "/api/status", None).await;
    assert_eq!(report["frozen"][0]["pattern"], "fs__*", "{report}");
    assert_eq!(door.ask("bob", "/api/incidents/7", None).await.0, 404);
    assert_eq!(door.ask("bob", "/api/incidents/x", None).await.0, 400);

    let close = r#"{"why":"mended"}"#;
    let (status, told) = door.ask("ann", "/api/incidents/1/close", Some(close)).await;
    assert_eq!(status, 409, "it has no sample: {told}");
    let sample = r#"{"action_id":"a-1","expect":"too_much","file":"tests/incidents.yaml"}"#;
    let path = "/api/incidents/1/samples";
    assert_eq!(door.ask("bob", path, Some(sample)).await.0, 403);
    // Calls that never were, are of other tools, or are not named whole.
    for id in ["nope", "a-2", "a"] {
        let (status, told) = door
            .ask("ann", path, Some(&sample.replace("a-1", id)))
            .await;
        assert_eq!(status, 404, "{id}: {told}");
    }
    let (status, noted) = door.ask("ann", path, Some(sample)).await;
    assert_eq!(
        (status, &noted["samples"][0]["tool"]),
        (200, &json!("fs__wipe"))
    );
    let closing = "/api/incidents/1/close";
    assert_eq!(door.ask("bob", closing, Some(close)).await.0, 403);
    let (status, closed) = door.ask("ann", closing, Some(close)).await;
    assert_eq!(
        (status, &closed["state"], &closed["closed"]["forced"]),
        (200, &json!("closed"), &json!(false)),
        "{closed}"
    );
    assert_eq!(door.ask("ann", closing, Some(close)).await.0, 409);
}

//! Tools that are taken away, and those that are hidden.

use super::*;

/// 003-41: only an operator takes a tool away, only one that can exist, and only with a reason.
#[tokio::test]
async fn tools_are_taken_away_by_operators_with_a_reason() {
    let bearer = format!("Bearer {ANN_TOKEN}");
    let ask_as = async |token: Option<&str>, (tool, verb): (&str, &str), body: &str| {
        let mut headers = vec![
            ("host", "127.0.0.1:7778"),
            ("content-type", "application/json"),
        ];
        headers.extend(token.map(|token| ("authorization", token)));
        let request = request("POST", &format!("/api/tools/{tool}/{verb}"), &headers);
        let (status, _, text) = ask(true, request.map(|_| Body::from(body.to_owned()))).await;
        (status.as_u16(), text)
    };
    let why = r#"{"why":"it wiped"}"#;
    let good = Some(bearer.as_str());
    assert_eq!(ask_as(None, ("fs__wipe", "disable"), why).await.0, 401);
    assert_eq!(
        ask_as(Some("Bearer x"), ("fs__wipe", "disable"), why)
            .await
            .0,
        401
    );
    let (status, text) = ask_as(good, ("fs__wipe", "disable"), why).await;
    assert_eq!(
        (status, text.as_str()),
        (200, r#"{"tool":"fs__wipe","disabled":true,"who":"ann"}"#)
    );
    assert_eq!(ask_as(good, ("fs__wiep", "disable"), why).await.0, 404);
    assert_eq!(
        ask_as(good, ("fs__wipe", "enable"), why).await.0,
        404,
        "nothing is away there"
    );
    for wrong in [
        "",
        "{}",
        "[]",
        r#"["x"]"#,
        r#"{"why":""}"#,
        r#"{"why":1}"#,
        r#"{"why":"x","who":"bob"}"#,
        r#"{"why":"x","why":"y"}"#,
        r#"{"why":"two\nlines"}"#,
        r#"{"why":"\u001b[2J"}"#,
        r#"{"why":"\u202ex"}"#,
    ] {
        assert_eq!(
            ask_as(good, ("fs__wipe", "disable"), wrong).await.0,
            400,
            "{wrong}"
        );
    }
}

/// 001-21: operators list what is hidden, with a token only.
#[tokio::test]
async fn hidden_tools_are_listed_for_operators() {
    let secret = crate::model::secret::Secret::new("token-of-an-operator".to_owned());
    let data = tempfile::tempdir().unwrap();
    let names = hosts("127.0.0.1:7778".parse().unwrap(), &[]);
    let router = router(
        Arc::new(FixedStatus { ready: true }),
        switches(data.path()),
        Operators::of([(known("ann", &[]), &secret)], OperatorVerbs::default()),
        DoorReach {
            hosts: names,
            public_url: None,
            places: 8,
        },
    );
    for (bearer, expected) in [
        ("Bearer token-of-an-operator", StatusCode::OK),
        ("Bearer no", StatusCode::UNAUTHORIZED),
    ] {
        let headers = [("host", "127.0.0.1:7778"), ("authorization", bearer)];
        let answer = router
            .clone()
            .oneshot(request("GET", "/api/quarantined", &headers))
            .await
            .unwrap();
        assert_eq!(answer.status(), expected);
        let text = String::from_utf8(
            answer
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .to_vec(),
        )
        .unwrap();
        assert_eq!(
            text.contains("profile_root"),
            expected == StatusCode::OK,
            "{text}"
        );
    }
}

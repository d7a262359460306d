//! Tool servers are asked what became of calls.

use super::*;
use crate::model::ids::ActionId;
use crate::store::operator::asking::{AskedOutcome, OutcomeAsker, Unasked};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};

/// The call about which there is something to ask by.
const ASKABLE: &str = "019abc00-0000-7001-8000-0000aaaa1111";

/// Knows one call.
pub(super) struct FixedAsker;

impl OutcomeAsker for FixedAsker {
    fn ask<'a>(
        &'a self,
        action: ActionId,
        who: &'a str,
    ) -> BoxFuture<'a, Result<AskedOutcome, Unasked>> {
        let asked = if action.to_string() == ASKABLE {
            Ok(AskedOutcome {
                action_id: action.to_string(),
                found: "absent".to_owned(),
                words: format!("absent, 1 of 2 times, for {who}"),
                fault: None,
                state: "unknown".to_owned(),
            })
        } else {
            Err(Unasked::NoClaim(action))
        };
        ready(asked).boxed()
    }
}

const REA_TOKEN: &str = "0123456789abcdef-rea";

async fn probes(token: Option<&str>, id: &str, body: &str) -> (u16, Value) {
    let data = tempfile::tempdir().unwrap();
    let secrets = [ANN_TOKEN, REA_TOKEN].map(|token| Secret::new(token.to_owned()));
    let names = [known("ann", &["switch"]), known("rea", &["resolver"])];
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
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![
        ("host", "127.0.0.1:7778"),
        ("content-type", "application/json"),
    ];
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let asked = request("POST", &format!("/api/calls/{id}/probe"), &headers);
    let asked = asked.map(|_| Body::from(body.to_owned()));
    let answer = router.oneshot(asked).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (
        status,
        serde_json::from_str(std::str::from_utf8(&body).unwrap()).unwrap(),
    )
}

/// Issue 19, `reconcile`: who may not resolve calls has no tool server asked about them, for what is
/// found can end one; the answer says what was found, or why nothing is asked.
#[tokio::test]
async fn only_who_may_resolve_calls_has_them_asked_about() {
    let rea = Some(REA_TOKEN);
    assert_eq!(probes(None, ASKABLE, "{}").await.0, 401);
    assert_eq!(probes(Some(ANN_TOKEN), ASKABLE, "{}").await.0, 403);
    let (status, told) = probes(rea, ASKABLE, "{}").await;
    let expected = json!({
        "action_id": ASKABLE, "found": "absent", "words": "absent, 1 of 2 times, for rea", "state": "unknown",
    });
    assert_eq!((status, told), (200, expected));
    let other = ActionId::generate().to_string();
    assert_eq!(probes(rea, &other, "{}").await.0, 404);
    for (id, body) in [
        ("7", "{}"),
        (ASKABLE, ""),
        (ASKABLE, "[]"),
        (ASKABLE, r#"{"verdict":"applied"}"#),
    ] {
        assert_eq!(probes(rea, id, body).await.0, 400, "{id} {body}");
    }
}

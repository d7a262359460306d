//! Six ways to bring a state where it does not belong (threat-model §3C C8).

use super::*;
use crate::model::ids::TenantId;
use serde_json::{Value, json};

fn request(method: &str, params: &Value) -> Message {
    Message::request(1, method, Some(Text::of(params)))
}

fn state_of(message: &Message) -> String {
    message
        .body
        .as_ref()
        .unwrap()
        .get(STATE_MEMBER)
        .unwrap()
        .as_str()
        .unwrap()
        .into_owned()
}

/// threat-model §13 F8, §3C C8: opened for the same caller, server and request only, and to the
/// server's own words; what is another's with each round does not matter.
#[test]
fn c8_a_state_comes_back_to_where_it_belongs_only() {
    let (seal, other_key) = (
        RoundSeal::new(&[7; ROUND_KEY_BYTES]).unwrap(),
        RoundSeal::new(&[8; ROUND_KEY_BYTES]).unwrap(),
    );
    assert!(RoundSeal::new(&[7; 31]).is_none() && RoundSeal::new(&[]).is_none());
    let caller = Caller {
        tenant: Some(TenantId::new("t1")),
        ..Caller::named("alice")
    };
    let (server, other) = (ServerName::new("oracle"), ServerName::new("other"));
    let own = "opaque/==\u{1f9fe}.\"x\"";
    let params = json!({ "name": "pay", "arguments": { "n": 1, "idempotency_key": "k1" }, "_meta": { "a": 1 } });
    let asked = request("tools/call", &params);
    let bound = RoundBinding {
        caller: &caller,
        server: &server,
        method: &asked.method,
        params: asked.body.as_ref(),
    };
    let answer = Message::response(
        None,
        Text::of(&json!({ "x": 1, "requestState": own, "y": 2 })),
        false,
    );
    let given = state_of(&seal.sealed(bound, answer.clone()));
    assert!(given.starts_with(SEALED_PREFIX) && given != own);
    assert_eq!(
        state_of(&seal.sealed(bound, answer)),
        given,
        "a replay is byte for byte the same"
    );

    let back = |method: &str, change: &dyn Fn(&mut Value), state: &str| {
        let mut params = json!({ "name": "pay", "arguments": { "idempotency_key": "k2", "n": 1 }, "inputResponses": { "a": {} }, "_meta": { "b": 2 } });
        change(&mut params);
        params[STATE_MEMBER] = json!(state);
        request(method, &params)
    };
    let opened = |seal: &RoundSeal, caller: &Caller, server: &ServerName, message: &Message| {
        seal.opened(
            RoundBinding {
                caller,
                server,
                method: &message.method,
                params: message.body.as_ref(),
            },
            message,
        )
    };
    let good = back("tools/call", &|_| {}, &given);
    assert_eq!(
        state_of(&opened(&seal, &caller, &server, &good).unwrap().unwrap()),
        own
    );

    let bob = Caller {
        tenant: caller.tenant.clone(),
        ..Caller::named("bob")
    };
    let elsewhere = Caller {
        tenant: Some(TenantId::new("t2")),
        ..caller.clone()
    };
    let nowhere = Caller {
        tenant: None,
        ..caller.clone()
    };
    for (caller, server, seal) in [
        (&bob, &server, &seal),
        (&elsewhere, &server, &seal),
        (&nowhere, &server, &seal),
        (&caller, &other, &seal),
        (&caller, &server, &other_key),
    ] {
        assert_eq!(opened(seal, caller, server, &good).err(), Some(Foreign));
    }
    for message in [
        back(
            "tools/call",
            &|params| params["arguments"]["n"] = json!(2),
            &given,
        ),
        back(
            "tools/call",
            &|params| params["arguments"]["more"] = json!(null),
            &given,
        ),
        back(
            "tools/call",
            &|params| params["name"] = json!("refund"),
            &given,
        ),
        back("prompts/get", &|_| {}, &given),
        back("tools/call", &|_| {}, own),
        back("tools/call", &|_| {}, ""),
    ] {
        assert_eq!(
            opened(&seal, &caller, &server, &message).err(),
            Some(Foreign)
        );
    }
}

/// Of the bytes of a state none may differ, and none be missing.
#[test]
fn c8_no_byte_of_a_state_differs() {
    let seal = RoundSeal::new(&[7; ROUND_KEY_BYTES]).unwrap();
    let (caller, server) = (Caller::named("alice"), ServerName::new("oracle"));
    let bound = RoundBinding {
        caller: &caller,
        server: &server,
        method: "resources/read",
        params: None,
    };
    let answer = Message::response(
        None,
        Text::of(&json!({ "requestState": "own.\u{1f9fe}" })),
        false,
    );
    let given = state_of(&seal.sealed(bound, answer));
    let is_foreign = |state: &str| {
        let message = request("resources/read", &json!({ "requestState": state }));
        seal.opened(bound, &message).err() == Some(Foreign)
    };
    assert!(!is_foreign(&given));
    for (at, letter) in given.char_indices() {
        let mut bent = given.clone();
        bent.replace_range(
            at..at + letter.len_utf8(),
            if letter == 'A' { "B" } else { "A" },
        );
        assert!(is_foreign(&bent) && is_foreign(&given[..at]), "{bent}");
    }
}

/// What asks nothing is as it was written.
#[test]
fn what_brings_no_state_is_left_alone() {
    let seal = RoundSeal::new(&[7; ROUND_KEY_BYTES]).unwrap();
    let (caller, server) = (Caller::named("alice"), ServerName::new("oracle"));
    let asked = request("tools/call", &json!({ "name": "pay" }));
    let bound = RoundBinding {
        caller: &caller,
        server: &server,
        method: &asked.method,
        params: asked.body.as_ref(),
    };
    assert_eq!(seal.opened(bound, &asked).unwrap().map(|_| ()), None);
    for (text, is_error) in [
        ("{ \"content\" : [] }", false),
        ("{\"requestState\":{\"a\":1}}", false),
        ("{\"requestState\":\"x\"}", true),
    ] {
        let text = Text::read(text.into(), &crate::mcp::json::SERVER_JSON_LIMITS).unwrap();
        let answer = Message::response(None, text.clone(), is_error);
        assert_eq!(seal.sealed(bound, answer).body, Some(text));
    }
}

//! Six ways to bring a state where it does not belong (threat-model §3C C8).

use super::*;
use crate::model::ids::{TenantId, UserId};
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

/// What the server said.
const OWN: &str = "opaque/==\u{1f9fe}.\"x\"";

/// Who asked whom for what.
struct Asker {
    caller: Caller,
    server: ServerName,
}

impl Asker {
    fn new() -> Self {
        Self {
            caller: Caller {
                tenant: Some(TenantId::new("t1")),
                ..Caller::named("alice")
            },
            server: ServerName::new("oracle"),
        }
    }

    fn bound<'a>(&'a self, message: &'a Message) -> RoundBinding<'a> {
        RoundBinding {
            caller: &self.caller,
            server: &self.server,
            method: &message.method,
            params: message.body.as_ref(),
        }
    }

    /// The state as the agent gets it, of the call that [`back`] repeats.
    fn given_state(&self, seal: &RoundSeal) -> String {
        let params = json!({ "name": "pay", "arguments": { "n": 1, "idempotency_key": "k1" }, "_meta": { "a": 1 } });
        let asked = request("tools/call", &params);
        let answer = Message::response(
            None,
            Text::of(&json!({ "x": 1, "requestState": OWN, "y": 2 })),
            false,
        );
        state_of(&seal.sealed(self.bound(&asked), answer))
    }

    fn opened(&self, seal: &RoundSeal, message: &Message) -> Result<Option<Message>, Foreign> {
        seal.opened(self.bound(message), message)
    }
}

fn seal() -> RoundSeal {
    RoundSeal::new(&[7; ROUND_KEY_BYTES]).unwrap()
}

/// The call that an agent sends again with `state`, but for a `change`.
fn back(method: &str, change: impl FnOnce(&mut Value), state: &str) -> Message {
    let mut params = json!({ "name": "pay", "arguments": { "idempotency_key": "k2", "n": 1 }, "inputResponses": { "a": {} }, "_meta": { "b": 2 } });
    change(&mut params);
    params[STATE_MEMBER] = json!(state);
    request(method, &params)
}

#[test]
fn a_key_has_its_length() {
    assert!(RoundSeal::new(&[7; 31]).is_none() && RoundSeal::new(&[]).is_none());
}

/// threat-model §13 F8, §3C C8: opened to the server's own words; what is another's with each round
/// does not matter.
#[test]
fn c8_a_state_comes_back_to_where_it_belongs() {
    let asker = Asker::new();
    let given = asker.given_state(&seal());
    assert!(given.starts_with(SEALED_PREFIX) && given != OWN);
    assert_eq!(
        asker.given_state(&seal()),
        given,
        "a replay is byte for byte the same"
    );
    let good = back("tools/call", |_| {}, &given);
    assert_eq!(
        state_of(&asker.opened(&seal(), &good).unwrap().unwrap()),
        OWN
    );
}

/// threat-model §13 F8, §3C C8: opened for the same caller and server only, with the same key.
#[test]
fn c8_a_state_is_for_its_caller_and_server_only() {
    let alice = Asker::new();
    let good = back("tools/call", |_| {}, &alice.given_state(&seal()));
    let other_key = RoundSeal::new(&[8; ROUND_KEY_BYTES]).unwrap();
    assert_eq!(alice.opened(&other_key, &good).err(), Some(Foreign));
    let of_caller = |caller: Caller| Asker {
        caller,
        ..Asker::new()
    };
    for asker in [
        of_caller(Caller {
            tenant: alice.caller.tenant.clone(),
            ..Caller::named("bob")
        }),
        of_caller(Caller {
            tenant: Some(TenantId::new("t2")),
            ..alice.caller.clone()
        }),
        of_caller(Caller {
            tenant: None,
            ..alice.caller.clone()
        }),
        of_caller(alice.caller.for_user(UserId::new("ada"))),
        Asker {
            server: ServerName::new("other"),
            ..Asker::new()
        },
    ] {
        assert_eq!(asker.opened(&seal(), &good).err(), Some(Foreign));
    }
}

/// threat-model §13 F8, §3C C8: opened for the same request only.
#[test]
fn c8_a_state_is_for_its_request_only() {
    let asker = Asker::new();
    let given = asker.given_state(&seal());
    for message in [
        back(
            "tools/call",
            |params| params["arguments"]["n"] = json!(2),
            &given,
        ),
        back(
            "tools/call",
            |params| params["arguments"]["more"] = json!(null),
            &given,
        ),
        back(
            "tools/call",
            |params| params["name"] = json!("refund"),
            &given,
        ),
        back("prompts/get", |_| {}, &given),
        back("tools/call", |_| {}, OWN),
        back("tools/call", |_| {}, ""),
    ] {
        assert_eq!(asker.opened(&seal(), &message).err(), Some(Foreign));
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

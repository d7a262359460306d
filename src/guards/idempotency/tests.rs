//! Keys: whose, from where, and for how long. What a contract may write of them is in `written`.

use super::*;
use crate::guards::Mode;
use crate::guards::evidence::NotRepeated;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, TenantId};
use serde_json::json;

mod written;

fn caller(agent: &str, tenant: Option<&str>) -> Caller {
    let tenant = tenant.map(TenantId::new);
    Caller {
        tenant,
        ..Caller::named(agent)
    }
}

fn rule(written: Value) -> Rule {
    let (rule, problems) = compiled(written);
    assert_eq!(problems, Vec::<String>::new());
    rule
}

fn compiled(written: Value) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let rule = serde_json::from_value::<Settings>(written)
        .unwrap()
        .compile(&mut problems);
    let shown = problems.into_found().into_iter().map(|found| {
        format!(
            "{:?} {}: {}",
            found.severity,
            found.path.join("."),
            found.message
        )
    });
    (rule, shown.collect())
}

struct KeyedSample {
    caller: Caller,
    server: &'static str,
    tool: &'static str,
    arguments: Value,
    meta: Option<Value>,
    argument: Option<Value>,
    header: Option<&'static str>,
}

impl KeyedSample {
    fn with(arguments: Value) -> Self {
        let caller = caller("bot", Some("t_001"));
        Self {
            caller,
            server: "shop",
            tool: "create_order",
            arguments,
            meta: None,
            argument: None,
            header: None,
        }
    }

    fn key(&self, rule: &Rule) -> Result<Keyed, Refusal> {
        let server = ServerName::new(self.server);
        let given = Given {
            meta: self.meta.as_ref(),
            argument: self.argument.as_ref(),
            header: self.header,
        };
        let Self {
            caller,
            tool,
            arguments,
            ..
        } = self;
        rule.key(
            &KeyRequest {
                caller,
                server: &server,
                tool,
                arguments,
                given,
                place: CallPlace {
                    key: Digest::of(b"place"),
                    is_named: false,
                },
                hints_idempotent: false,
                undoes: None,
            },
            &NotRepeated::observed(Mode::Observe).unwrap(),
        )
    }
}

fn given(key: &str) -> KeyedSample {
    KeyedSample {
        meta: Some(json!(key)),
        ..KeyedSample::with(json!({ "sku": "s1" }))
    }
}

/// 004-11, 004-24: a given key wins over a derived one, whichever way it came, and all ways mean
/// the same key.
#[test]
fn a_given_key_wins() {
    let rule = Rule::default();
    let derived = KeyedSample::with(json!({ "sku": "s1" }))
        .key(&rule)
        .unwrap();
    assert_eq!(derived.source(), KeySource::Derived);
    let meta = given("k-1").key(&rule).unwrap();
    let argument = KeyedSample {
        argument: Some(json!("k-1")),
        meta: None,
        ..given("")
    }
    .key(&rule)
    .unwrap();
    assert_eq!(
        (meta.source(), argument.source()),
        (KeySource::Meta, KeySource::Argument)
    );
    for header in ["k-1", "\"k-1\"", " \"k-\\1\" "] {
        let header = KeyedSample {
            header: Some(header),
            meta: None,
            ..given("")
        }
        .key(&rule)
        .unwrap();
        assert_eq!(
            (header.source(), header.call_key()),
            (KeySource::Header, meta.call_key())
        );
    }
    assert_eq!(argument.call_key(), meta.call_key());
    assert_ne!(derived.call_key(), meta.call_key());
    assert_eq!(derived.fingerprint(), meta.fingerprint());
}

/// 004-27: whose call it is, where, and which tool, are in the key; parts cannot be moved from one
/// to the next.
#[test]
fn a_key_means_something_for_its_agent_tenant_and_tool_only() {
    let rule = Rule::default();
    let calls = [
        given("k"),
        given("k2"),
        KeyedSample {
            caller: caller("bot2", Some("t_001")),
            ..given("k")
        },
        KeyedSample {
            caller: caller("bot", Some("t_002")),
            ..given("k")
        },
        KeyedSample {
            caller: caller("bot", None),
            ..given("k")
        },
        KeyedSample {
            caller: caller("bot", Some("")),
            ..given("k")
        },
        KeyedSample {
            caller: caller("t_001bot", None),
            ..given("k")
        },
        KeyedSample {
            server: "shop2",
            ..given("k")
        },
        KeyedSample {
            tool: "create",
            ..given("_orderk")
        },
        KeyedSample {
            tool: "create_orderk",
            ..given("\u{20}")
        },
        KeyedSample {
            meta: None,
            ..given("")
        },
    ];
    let keys: Vec<Digest> = calls
        .iter()
        .map(|call| call.key(&rule).unwrap().call_key())
        .collect();
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[..index].contains(key), "{index}");
    }
}

/// 004-11: what cannot be a key refuses like a missing one, and says what would be one; never its
/// value.
#[test]
fn unusable_keys_are_refused() {
    let rule = Rule::default();
    let long = "k".repeat(256);
    for bad in [
        json!(""),
        json!(long),
        json!("a\nb"),
        json!("a\u{0}"),
        json!(7),
        json!(null),
        json!(["k"]),
    ] {
        let refused = KeyedSample {
            meta: Some(bad.clone()),
            ..given("")
        }
        .key(&rule)
        .unwrap_err();
        assert_eq!(refused.code(), "idempotency_key_required", "{bad}");
        assert!(
            refused.words().contains("1 to 255 characters"),
            "{}",
            refused.words()
        );
    }
    for good in ["k".repeat(255), "顾".repeat(255), "a b\u{301}".to_owned()] {
        assert!(given(&good).key(&rule).is_ok(), "{good}");
    }
    let two = KeyedSample {
        header: Some("other"),
        ..given("k")
    }
    .key(&rule)
    .unwrap_err();
    assert!(
        two.words().contains("differ") && !two.words().contains("other"),
        "{}",
        two.words()
    );
    let required = KeyedSample::with(json!({}))
        .key(&self::rule(json!({ "require": true })))
        .unwrap_err();
    assert_eq!(required.code(), "idempotency_key_required");
    // D28: where it goes, in the words of the wire.
    for told in ["did not run", KEY_META_NAME, KEY_ARGUMENT_NAME] {
        assert!(
            required.words().contains(told),
            "{told}: {}",
            required.words()
        );
    }
}

/// 004-23: the fingerprint stands on RFC 8785: `1` and `1.0` are one number; composed and
/// decomposed letters are two texts, because the tool server can tell them apart.
#[test]
fn equal_arguments_have_one_fingerprint() {
    let rule = Rule::default();
    let key = |arguments: &str| {
        KeyedSample::with(serde_json::from_str(arguments).unwrap())
            .key(&rule)
            .unwrap()
    };
    let same = [
        r#"{"n":1,"s":"x"}"#,
        r#"{ "s": "x", "n": 1.0 }"#,
        r#"{"n":1e0,"s":"\u0078"}"#,
    ];
    for other in same {
        assert_eq!(key(other), key(same[0]), "{other}");
    }
    let all = [
        r#"{"n":1,"s":"x"}"#,
        r#"{"n":"1","s":"x"}"#,
        r#"{"n":1,"s":"x","m":null}"#,
        r#"{"n":[1],"s":"x"}"#,
        r#"{"s":"\u00e9"}"#,
        r#"{"s":"e\u0301"}"#,
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(
            all[..index]
                .iter()
                .all(|other| key(other).call_key() != key(one).call_key()),
            "{one}"
        );
    }
}

/// 004-09, 004-15: a business key looks at some arguments only; what else differs is a conflict,
/// not another key.
#[test]
fn a_key_can_be_made_of_some_arguments() {
    let rule = rule(json!({ "derive": ["/tenant", "/order/id"] }));
    let key = |arguments: Value| KeyedSample::with(arguments).key(&rule);
    let first = key(json!({ "tenant": "t", "order": { "id": 1 }, "memo": "a" })).unwrap();
    let again = key(json!({ "tenant": "t", "order": { "id": 1.0 }, "memo": "b" })).unwrap();
    assert_eq!(first.call_key(), again.call_key());
    assert_ne!(first.fingerprint(), again.fingerprint());
    let absent = key(json!({ "tenant": "t" })).unwrap();
    let null = key(json!({ "tenant": "t", "order": { "id": null } })).unwrap();
    assert_ne!(absent.call_key(), null.call_key());
    assert_ne!(absent.call_key(), first.call_key());
    assert_eq!(
        key(json!({ "memo": "a" })).unwrap_err().code(),
        "idempotency_key_required"
    );
}

/// 004-22: the documents' formula is derived, kept apart by tenant and server, and goes upstream as
/// it is.
#[test]
fn the_documents_formula_is_there() {
    let rule = rule(json!({ "derive": "sha256-32" }));
    let order = json!({ "sku": "s1", "business_id": "b1", "amount": 3 });
    let call = KeyedSample {
        caller: caller("u_1", Some("t_001")),
        ..KeyedSample::with(order)
    };
    let key = call.key(&rule).unwrap();
    assert_eq!(
        key.upstream_key(ActionId::generate()),
        "17a18697bf690ebed865fd2594482433"
    );
    let other = KeyedSample {
        caller: caller("u_1", Some("t_002")),
        ..call
    }
    .key(&rule)
    .unwrap();
    assert_ne!(key.call_key(), other.call_key());
}

/// 004-29, 004-43, 004-45: a given key stays used for 90 days more; a derived one ends with its
/// window.
#[test]
fn keys_end() {
    let (hour, days) = (Duration::from_hours(1), Duration::from_hours(90 * 24));
    let usual = Rule::default();
    let given_key = given("k").key(&usual).unwrap();
    assert_eq!((given_key.ttl(), given_key.keep()), (hour, days));
    let windowed = rule(json!({ "derive": "arguments", "ttl": "2h", "window": "5m" }));
    let derived = KeyedSample::with(json!({})).key(&windowed).unwrap();
    assert_eq!(
        (derived.ttl(), derived.keep()),
        (Duration::from_mins(5), Duration::ZERO)
    );
    assert_eq!(given("k").key(&windowed).unwrap().ttl(), 2 * hour);
    let (one, two) = (ActionId::generate(), ActionId::generate());
    assert_eq!(given_key.upstream_key(one), given_key.upstream_key(two));
    assert_ne!(derived.upstream_key(one), derived.upstream_key(two));
    assert_ne!(given_key.upstream_key(one), "k");
}

/// 004-11: how agents give a key is the same for all calls of a tool: a case shows what its contract
/// shows, whatever it says itself of which calls are the same.
#[test]
fn a_case_shows_the_key_as_its_contract_does() {
    let settings = |written: Value| serde_json::from_value::<Settings>(written).unwrap();
    for (contract, case, is_shown) in [
        (None, json!({ "derive": ["/to"] }), true),
        (Some(json!({})), json!({ "derive": ["/to"] }), true),
        (
            Some(json!({ "derive": "arguments" })),
            json!({ "derive": "retry" }),
            false,
        ),
        (
            Some(json!({ "derive": "retry" })),
            json!({ "derive": ["/to"] }),
            true,
        ),
        (Some(json!({ "require": true })), json!({}), true),
        (
            Some(json!({ "derive": "retry", "expose": false })),
            json!({ "derive": "retry" }),
            false,
        ),
    ] {
        let contract = contract.map(settings);
        let rule = settings(case)
            .within(contract.as_ref())
            .compile(&mut Problems::default());
        assert_eq!(rule.is_exposed(), is_shown, "{contract:?}");
    }
}

/// 004-36: what calls have in common that differ only in their keys, wherever these stand; with no key
/// it is the key of a call whose contract says that equal calls are one.
#[test]
fn equal_calls_are_kin_whatever_their_keys() {
    let declared = |upstream: Value| json!({ "derive": "arguments", "upstream": upstream });
    let equal = rule(declared(Value::Null));
    let rule = rule(declared(json!({ "argument": "reference" })));
    let plain = KeyedSample::with(json!({ "to": "x" }));
    let own = plain.key(&equal).unwrap();
    assert_eq!((own.kin(), plain.key(&rule).unwrap().kin()), (None, None));
    for (name, key) in [
        ("reference", "1"),
        ("reference", "2"),
        ("idempotency_key", "3"),
    ] {
        let mut sample = KeyedSample::with(json!({ "to": "x", name: key }));
        sample.argument = Some(json!(key));
        assert_eq!(
            sample.key(&rule).unwrap().kin(),
            Some(own.call_key()),
            "{name}"
        );
    }
    let mut other = KeyedSample::with(json!({ "to": "y", "reference": "1" }));
    other.argument = Some(json!("1"));
    assert_ne!(other.key(&rule).unwrap().kin(), Some(own.call_key()));
}

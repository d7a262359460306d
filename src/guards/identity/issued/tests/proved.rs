//! For how long a token proves who came by it: until it is over, or its key is withdrawn.

use super::*;

/// threat-model §3F: an agent is there only while a token of it counts, and none does whose key was withdrawn:
/// a thief who has that key hears nothing any more. Keys that come beside it take nobody away.
#[test]
fn who_came_by_a_withdrawn_key_is_not_there() {
    let (old, new) = (
        SigningKey::new("1", SigningAlgorithm::Es256),
        SigningKey::new("2", SigningAlgorithm::Es256),
    );
    let (clock, rule) = ready(settings(vec![written(|_| {})], Vec::new()), &[&old]);
    let issued = rule.issued().unwrap();
    let arrive = |keys: &[&SigningKey]| {
        for ring in issued.rings() {
            let set = Bytes::from(key_set(keys).to_string());
            ring.arrived(KeySet::read(set).unwrap(), clock.clock().steady());
        }
    };
    let lasting = |seconds: i64| {
        claims(clock, |claims| {
            claims["exp"] = json!(claims["exp"].as_i64().unwrap() + seconds);
        })
    };
    let there = || rule.present().len();
    who(&rule, &old.token(&lasting(900))).unwrap();
    arrive(&[&old, &new]);
    assert_eq!(there(), 1, "a key that comes takes nobody away");
    who(&rule, &new.token(&lasting(0))).unwrap();
    arrive(&[&new]);
    assert_eq!(there(), 1, "by the token of the other key");
    clock.pass(Duration::from_mins(10));
    arrive(&[&new]);
    assert_eq!(
        there(),
        0,
        "that one is over, and the key of the longer one gone"
    );
    arrive(&[&old, &new]);
    assert_eq!(there(), 1, "it is back");
    for number in 3..12 {
        let next = SigningKey::new(&number.to_string(), SigningAlgorithm::Es256);
        arrive(&[&next]);
        who(&rule, &next.token(&lasting(900 + number))).unwrap();
        assert_eq!(there(), 1);
        arrive(&[&new]);
        assert_eq!(there(), 0);
    }
}

/// What an agent has asked for a person with its roles, it can go on with only by a token that gives all of it: the
/// one that it came by, or another.
#[test]
fn a_caller_is_proved_by_a_token_that_counts() {
    let key = key();
    let (clock, rule) = ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    let token = |seconds: i64, user: &str, roles: &[&str]| {
        key.token(&claims(clock, |claims| {
            claims["exp"] = json!(claims["exp"].as_i64().unwrap() + seconds);
            claims["sub"] = json!(user);
            claims["realm"] = json!({ "roles": roles });
        }))
    };
    let asked = who(&rule, &token(0, "ada", &["billing"])).unwrap();
    let proved = || rule.still_proves(&asked);
    assert!(proved());
    who(&rule, &token(900, "ben", &["billing"])).unwrap();
    who(&rule, &token(900, "ada", &["clerk"])).unwrap();
    clock.pass(Duration::from_secs(400));
    assert!(!proved(), "neither of them is ada with that role");
    let entry = rule.entries_of("support-bot", Some("t_1"));
    assert!(
        entry.iter().all(|entry| rule.still_proves(entry)),
        "whom no token has named"
    );
    who(&rule, &token(0, "ada", &["clerk", "billing"])).unwrap();
    assert!(proved());
    let (mut after, _) = found(settings(vec![written(|_| {})], vec![caller("own")]));
    let issued = after.issued.take().and_then(Arc::into_inner).unwrap();
    let at = clock.clock();
    after.issued = Some(Arc::new(IssuedCallers {
        clock: at,
        ..issued
    }));
    after.succeed(&rule);
    assert!(after.still_proves(&asked), "a reload goes on with it");
    let other = SigningKey::new("2", SigningAlgorithm::Es256);
    for ring in rule.issued().unwrap().rings() {
        let set = Bytes::from(key_set(&[&other]).to_string());
        ring.arrived(KeySet::read(set).unwrap(), clock.clock().steady());
    }
    assert!(!proved(), "its key is withdrawn");
}

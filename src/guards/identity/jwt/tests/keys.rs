//! Scenarios of the keys of issuers: which are taken, and for how long.

use super::*;

/// Keys of a set that check nothing are left out; too many, or none that fits, is no set.
#[test]
fn key_sets_are_bounded() {
    let key = SigningKey::new("1", SigningAlgorithm::Es256);
    let no_set = |set: Value| KeySet::read(Bytes::from(set.to_string())).unwrap_err();
    let changed = |name: &str, value: Value| {
        let mut public = key.public();
        public[name] = value;
        public
    };
    for odd in [
        changed("use", json!("enc")),
        changed("key_ops", json!(["encrypt"])),
        changed("alg", json!("HS256")),
        changed("kty", json!("oct")),
        changed("crv", json!("secp256k1")),
        changed("x", json!("AA")),
        changed("x", json!(7)),
        changed("kid", json!(7)),
        json!("text"),
    ] {
        assert_eq!(
            no_set(json!({ "keys": [odd.clone()] })),
            NoKeySet::NoneFits,
            "{odd}"
        );
        read(&json!({ "keys": [odd, key.public()] }));
    }
    assert_eq!(no_set(json!({})), NoKeySet::NoList);
    assert_eq!(no_set(json!({ "keys": {} })), NoKeySet::NoList);
    assert_eq!(
        no_set(json!({ "keys": vec![key.public(); 65] })),
        NoKeySet::TooMany
    );
    read(&json!({ "keys": vec![key.public(); 64] }));
    let wide = json!({ "keys": [key.public()], "more": "m".repeat(256 << 10) });
    assert_eq!(no_set(wide), NoKeySet::NoJson);
    let twice = format!(r#"{{"keys":[],"keys":[{}]}}"#, key.public());
    assert_eq!(
        KeySet::read(Bytes::from(twice)).unwrap_err(),
        NoKeySet::NoJson
    );
}

/// A key that is too short to be taken is left out, and told of, before its tokens are refused one by one.
#[test]
fn short_rsa_keys_are_left_out() {
    let (good, key) = (
        SigningKey::new("1", SigningAlgorithm::Es256),
        SigningKey::new("2", SigningAlgorithm::Rs256),
    );
    let rsa = |bytes: usize, first: u8| {
        let mut modulus = vec![0xff; bytes];
        modulus[0] = first;
        let mut public = key.public();
        public["n"] = json!(encoded(modulus));
        public
    };
    for (public, is_weak) in [
        (key.public(), false),
        (rsa(256, 0x80), false),
        (rsa(256, 0x7f), true),
        (rsa(255, 0xff), true),
        (rsa(128, 0xff), true),
    ] {
        let alone = KeySet::read(Bytes::from(json!({ "keys": [public] }).to_string()));
        assert_eq!(alone.err(), is_weak.then_some(NoKeySet::Weak), "{public}");
        let set = read(&json!({ "keys": [public, good.public()] }));
        assert_eq!((set.weak, set.has("2")), (usize::from(is_weak), !is_weak));
        let issuer = compiled(terms(&[]));
        assert!(issuer.ring.arrived(read(&key_set(&[&good])), STEADY));
        assert!(issuer.ring.arrived(set, STEADY), "what is left out is told");
    }
}

/// A key that is for another algorithm of its kind checks nothing else, and a token without a key's
/// name is taken where one key fits.
#[test]
fn a_key_is_for_its_own_algorithm() {
    use SigningAlgorithm as By;
    let key = SigningKey::new("1", By::Rs256);
    let mut public = key.public();
    public["alg"] = json!("RS512");
    let issuer = compiled(terms(&[By::Rs256, By::Rs512, By::Es256]));
    issuer
        .ring
        .arrived(read(&json!({ "keys": [public] })), STEADY);
    let token = key.token(&claims());
    assert_eq!(judged(&issuer, &token), Err(TokenRejected::UnknownKey));
    let token = key.also(By::Rs512).token(&claims());
    assert!(judged(&issuer, &token).is_ok());
    let (one, two) = (
        SigningKey::new("1", By::Es256),
        SigningKey::new("2", By::Es256),
    );
    let nameless = one.signed(&json!({ "alg": "ES256" }), &claims());
    issuer.ring.arrived(read(&key_set(&[&one])), STEADY);
    assert!(judged(&issuer, &nameless).is_ok());
    issuer.ring.arrived(read(&key_set(&[&one, &two])), STEADY);
    assert_eq!(judged(&issuer, &nameless), Err(TokenRejected::UnknownKey));
}

/// An issuer at both doors has one set of keys, whichever door it was fetched for; what other keys have
/// checked is checked again, and the keys get no older than the stricter door lets them.
#[test]
fn both_doors_share_the_keys_of_an_issuer() {
    let (key, other) = (
        SigningKey::new("1", SigningAlgorithm::Es256),
        SigningKey::new("2", SigningAlgorithm::Es256),
    );
    let token = key.token(&claims());
    let by = |one: &Issuer| check([one], &token, AT).map(|(_, checked)| checked.generation);
    for is_turned in [false, true] {
        let (agents, operators) = (issuer(&[&key]), compiled(terms(&[])));
        if is_turned {
            operators.ring.join(&agents.ring);
        } else {
            agents.ring.join(&operators.ring);
        }
        let known = by(&agents).unwrap();
        assert_eq!(by(&operators), Ok(known));
        let both = read(&key_set(&[&key, &other]));
        operators.ring.arrived(both, STEADY);
        assert_eq!(agents.still_checks(known, AT), Ok(false));
        assert_eq!(by(&agents), by(&operators));
    }
    let (agents, operators) = (issuer(&[&key]), issuer(&[&key]));
    let known = by(&operators).unwrap();
    agents.ring.join(&operators.ring);
    assert_eq!(operators.still_checks(known, AT), Ok(false));
    let strict = compiled(IssuerTerms {
        max_stale: Some("1m".to_owned()),
        ..terms(&[])
    });
    strict.ring.join(&agents.ring);
    let later = STEADY + Duration::from_secs(15);
    assert_eq!(
        [strict.ring.is_due(later), agents.ring.is_due(later)],
        [true, false]
    );
    let elsewhere = compiled(IssuerTerms {
        issuer: "https://other.example.com".to_owned(),
        ..terms(&[])
    });
    elsewhere.ring.join(&agents.ring);
    assert_eq!(elsewhere.ring.age(STEADY), None);
}

/// Keys that cannot be fetched count for a while, and then nobody is let in, without a word against
/// the token.
#[test]
fn the_last_good_keys_count_for_a_while() {
    let key = SigningKey::new("1", SigningAlgorithm::Es256);
    let issuer = compiled(terms(&[]));
    let token = key.token(&with("exp", json!(1_785_999_999)));
    let at = |after: Duration| TokenMoment {
        steady: STEADY + after,
        ..AT
    };
    let found = |after: Duration| check([&issuer], &token, at(after)).map(drop);
    assert_eq!(found(Duration::ZERO), Err(TokenRejected::KeysUnavailable));
    assert!(TokenRejected::KeysUnavailable.again().is_some());
    issuer.ring.arrived(read(&key_set(&[&key])), STEADY);
    assert_eq!(found(Duration::ZERO), Ok(()));
    issuer.ring.failed(STEADY + Duration::from_mins(10));
    assert_eq!(found(Duration::from_hours(1)), Ok(()));
    let late = Duration::from_hours(1) + Duration::from_secs(1);
    assert_eq!(found(late), Err(TokenRejected::KeysUnavailable));
    let (_, checked) = check([&issuer], &token, AT).unwrap();
    let kept = issuer.still_checks(checked.generation, at(late));
    assert_eq!(
        kept,
        Err(TokenRejected::KeysUnavailable),
        "a token that was checked, too"
    );
    issuer.ring.arrived(read(&key_set(&[&key])), STEADY + late);
    assert_eq!(found(late), Ok(()));
    assert_eq!(issuer.still_checks(checked.generation, at(late)), Ok(true));
    let other = SigningKey::new("2", SigningAlgorithm::Es256);
    issuer
        .ring
        .arrived(read(&key_set(&[&other])), STEADY + late);
    let kept = issuer.still_checks(checked.generation, at(late));
    assert_eq!(
        kept,
        Ok(false),
        "a key that was taken away checks nothing any more"
    );
}

/// What a key has signed counts for as long as that key is the issuer's, whatever keys come beside it.
#[test]
fn a_key_counts_until_it_is_withdrawn() {
    let (first, second) = (
        SigningKey::new("1", SigningAlgorithm::Es256),
        SigningKey::new("2", SigningAlgorithm::Es256),
    );
    let issuer = compiled(terms(&[]));
    issuer.ring.arrived(read(&key_set(&[&first])), STEADY);
    let (_, checked) = check([&issuer], &first.token(&claims()), AT).unwrap();
    let stands = |keys: &[&SigningKey]| {
        issuer.ring.arrived(read(&key_set(keys)), STEADY);
        issuer.still_signs(&checked.key, AT)
    };
    assert!(stands(&[&first]) && stands(&[&second, &first]));
    assert_eq!(issuer.still_checks(checked.generation, AT), Ok(false));
    assert!(!stands(&[&second]), "withdrawn");
    let forged = SigningKey::new("1", SigningAlgorithm::Es256);
    assert!(!stands(&[&forged]), "another key of its name");
    assert!(stands(&[&first]));
    let late = TokenMoment {
        steady: STEADY + Duration::from_hours(2),
        ..AT
    };
    assert!(!issuer.still_signs(&checked.key, late), "too old");
}

/// However many tokens name keys that nobody knows, they lead to one fetch in ten seconds; one that was
/// looked for is refused, one that could not be waits.
#[test]
fn unknown_keys_are_looked_for_once_in_a_while() {
    let (known, new) = (
        SigningKey::new("1", SigningAlgorithm::Es256),
        SigningKey::new("2", SigningAlgorithm::Es256),
    );
    let issuer = issuer(&[&known]);
    let token = new.token(&claims());
    let ring = &issuer.ring;
    assert!(lacking([&issuer], &known.token(&claims()), AT).is_none());
    let wanted = lacking([&issuer], &token, AT).unwrap();
    assert_eq!(wanted.id.as_deref(), Some("2"));
    ring.begins();
    ring.looks(STEADY);
    // Those that come while it is looked for wait for that, too.
    assert!(ring.wants(Some("2"), STEADY) && !ring.wants(Some("1"), STEADY));
    ring.arrived(read(&key_set(&[&known])), STEADY);
    ring.looked_for("2");
    assert_eq!(judged(&issuer, &token), Err(TokenRejected::UnknownKey));
    assert!(!ring.wants(Some("2"), STEADY) && !ring.wants(Some("3"), STEADY));
    let third = SigningKey::new("3", SigningAlgorithm::Es256).token(&claims());
    let pending = judged(&issuer, &third).unwrap_err();
    assert_eq!(
        pending.again(),
        Some(Duration::from_secs(10)),
        "not looked for yet"
    );
    let later = STEADY + Duration::from_secs(10);
    assert!(ring.wants(Some("2"), later) && ring.wants(Some("3"), later));
    ring.arrived(read(&key_set(&[&known, &new])), later);
    assert!(judged(&issuer, &token).is_ok() && !ring.wants(Some("2"), later));
    // A fetch that failed says nothing of a key.
    ring.failed(later);
    ring.looked_for("4");
    assert!(!ring.wants(Some("4"), later), "not at once");
    let fourth = SigningKey::new("4", SigningAlgorithm::Es256).token(&claims());
    assert!(judged(&issuer, &fourth).unwrap_err().again().is_some());
    assert!(ring.wants(Some("4"), later + Duration::from_mins(1)));
    let foreign = with("iss", json!("https://other.example.com"));
    assert!(lacking([&issuer], &new.token(&foreign), AT).is_none());
}

/// A failed fetch is tried again later each time; what a reload puts in its place goes on with it.
#[test]
fn failures_wait_longer_each_time_and_reloads_forget_nothing() {
    let key = SigningKey::new("1", SigningAlgorithm::Es256);
    let before = issuer(&[&key]);
    let mut waited = Vec::new();
    for _ in 0..12 {
        before.ring.failed(STEADY);
        let mut wait = Duration::ZERO;
        while !before.ring.is_due(STEADY + wait) {
            wait += Duration::from_millis(100);
        }
        waited.push(wait);
    }
    assert!(waited[0] <= Duration::from_millis(1100) && waited[0] >= Duration::from_millis(500));
    assert!(waited[11] <= Duration::from_mins(1) && waited[11] >= Duration::from_secs(30));
    let after = compiled(terms(&[]));
    after.ring.take_over(&before.ring);
    assert!(judged(&after, &key.token(&claims())).is_ok());
    let other = compiled(IssuerTerms {
        issuer: "https://other.example.com".to_owned(),
        ..terms(&[])
    });
    other.ring.take_over(&before.ring);
    assert_eq!(
        other.ring.age(STEADY),
        None,
        "another issuer's keys are not its own"
    );
}

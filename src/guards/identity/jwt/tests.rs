//! Scenarios of tokens: which are taken, and for what each of the others is not.

use super::key_set::{KeySet, NoKeySet};
use super::signing::{SigningKey, encoded, key_set};
use super::*;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::Sha256;

mod keys;
mod settings;

const ISSUER: &str = "https://login.example.com";
const AUDIENCE: &str = "https://tools.example.com/mcp";
/// Now, in seconds since 1970.
const NOW: f64 = 1_785_229_200.0;
const STEADY: Duration = Duration::from_hours(1);
const AT: TokenMoment = TokenMoment {
    wall: NOW,
    steady: STEADY,
};

fn terms(algs: &[SigningAlgorithm]) -> IssuerTerms {
    IssuerTerms {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        jwks_url: Some("https://login.example.com/jwks".to_owned()),
        algs: algs.to_vec(),
        ..IssuerTerms::default()
    }
}

fn compiled(terms: IssuerTerms) -> Issuer {
    let mut problems = Problems::default();
    let issuer = terms.compile(&mut problems);
    assert_eq!(problems.into_found(), []);
    issuer
}

fn read(set: &Value) -> KeySet {
    KeySet::read(Bytes::from(set.to_string())).unwrap()
}

/// An issuer that takes the usual algorithms, and has these keys.
fn issuer(keys: &[&SigningKey]) -> Issuer {
    let issuer = compiled(terms(&[]));
    issuer.ring.arrived(read(&key_set(keys)), STEADY);
    issuer
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "exp": 1_785_229_500, "sub": "42", "azp": "bot" })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn judged(issuer: &Issuer, token: &str) -> Result<String, TokenRejected> {
    let (_, checked) = check([issuer], token, AT)?;
    checked.claims.name(&place("azp"))
}

fn place(written: &str) -> claims::ClaimPlace {
    claims::ClaimPlace::compile(written, &mut Problems::default())
}

/// Each algorithm checks what its own key has signed, and only that.
#[test]
fn each_algorithm_checks_its_own_signatures() {
    use SigningAlgorithm as By;
    let curves = [By::Es256, By::Es384, By::Es512, By::EdDsa];
    let rsa = [
        By::Rs256,
        By::Rs384,
        By::Rs512,
        By::Ps256,
        By::Ps384,
        By::Ps512,
    ];
    let mut key = SigningKey::new("rsa", By::Rs256);
    let public = key.public();
    let mut tokens = Vec::new();
    for by in rsa {
        key = key.also(by);
        tokens.push((by, public.clone(), key.token(&claims())));
    }
    for by in curves {
        let key = SigningKey::new("curve", by);
        tokens.push((by, key.public(), key.token(&claims())));
    }
    assert_eq!(tokens.len(), 10);
    for (by, public, token) in &tokens {
        let issuer = compiled(terms(&[*by]));
        let set = json!({ "keys": [public] });
        issuer.ring.arrived(read(&set), STEADY);
        assert_eq!(judged(&issuer, token), Ok("bot".to_owned()), "{by:?}");
        for (other, _, foreign) in tokens.iter().filter(|(other, ..)| other != by) {
            let refused = judged(&issuer, foreign);
            assert_eq!(refused, Err(TokenRejected::Algorithm), "{by:?} {other:?}");
        }
        let cut = &token[..token.len() - 4];
        assert!(judged(&issuer, cut).is_err(), "{by:?}");
        // One letter of what was signed is another.
        let (head, rest) = token.split_once('.').unwrap();
        let (said, signature) = rest.split_once('.').unwrap();
        let other = encoded(with("azp", json!("owner")).to_string());
        assert_ne!(said, other);
        let forged = format!("{head}.{other}.{signature}");
        assert_eq!(
            judged(&issuer, &forged),
            Err(TokenRejected::Signature),
            "{by:?}"
        );
    }
}

/// What nobody has signed, and what a forger signs with the public key as a secret, is refused before
/// any key is looked at.
#[test]
fn unsigned_tokens_and_shared_secrets_are_refused() {
    let key = SigningKey::new("1", SigningAlgorithm::Rs256);
    let issuer = issuer(&[&key]);
    for none in ["none", "None", "NONE", "nOnE"] {
        let header = encoded(json!({ "alg": none, "kid": "1" }).to_string());
        for signature in ["", "AAAA"] {
            let token = format!("{header}.{}.{signature}", encoded(claims().to_string()));
            assert_eq!(
                judged(&issuer, &token),
                Err(TokenRejected::Unsigned),
                "{none}"
            );
        }
    }
    for named in [
        "HS256", "HS384", "HS512", "hs256", "RS256 ", "rs256", "ES256K", "", "dir",
    ] {
        let header = encoded(json!({ "alg": named, "kid": "1" }).to_string());
        let signed = format!("{header}.{}", encoded(claims().to_string()));
        for secret in [key.public_der(), key.public().to_string().into_bytes()] {
            let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
            mac.update(signed.as_bytes());
            let token = format!("{signed}.{}", encoded(mac.finalize().into_bytes()));
            assert_eq!(
                judged(&issuer, &token),
                Err(TokenRejected::Algorithm),
                "{named}"
            );
        }
    }
    let shared = json!({ "kty": "oct", "kid": "1", "k": encoded([7; 32]), "alg": "HS256" });
    let set = json!({ "keys": [shared] }).to_string();
    assert_eq!(
        KeySet::read(Bytes::from(set)).unwrap_err(),
        NoKeySet::NoneFits
    );
}

/// A token that is for others, or not of now, is refused with why.
#[test]
fn audience_issuer_and_time_are_checked() {
    let key = SigningKey::new("1", SigningAlgorithm::Es256);
    let issuer = issuer(&[&key]);
    let second = 1_785_229_200;
    for (claims, expected) in [
        (claims(), None),
        (with("aud", json!(["other", AUDIENCE])), None),
        (with("aud", json!("other")), Some(TokenRejected::Audience)),
        (
            with("aud", json!(format!("{AUDIENCE}/"))),
            Some(TokenRejected::Audience),
        ),
        (with("aud", json!([])), Some(TokenRejected::Audience)),
        (
            with("aud", json!({ "a": AUDIENCE })),
            Some(TokenRejected::Audience),
        ),
        (without("aud"), Some(TokenRejected::Audience)),
        (
            with("iss", json!("https://other.example.com")),
            Some(TokenRejected::Issuer),
        ),
        (
            with("iss", json!(format!("{ISSUER}/"))),
            Some(TokenRejected::Issuer),
        ),
        (with("iss", json!([ISSUER])), Some(TokenRejected::Issuer)),
        (without("iss"), Some(TokenRejected::Issuer)),
        (with("exp", json!(second - 29)), None),
        (
            with("exp", json!(second - 30)),
            Some(TokenRejected::Expired),
        ),
        (with("exp", json!(0)), Some(TokenRejected::Expired)),
        (
            with("exp", json!(second.to_string())),
            Some(TokenRejected::Malformed),
        ),
        (with("exp", json!(null)), Some(TokenRejected::Malformed)),
        (without("exp"), Some(TokenRejected::NoExpiry)),
        (with("nbf", json!(second + 30)), None),
        (with("nbf", json!(second + 31)), Some(TokenRejected::NotYet)),
        (with("nbf", json!("soon")), Some(TokenRejected::Malformed)),
    ] {
        let found = judged(&issuer, &key.token(&claims)).err();
        assert_eq!(found, expected, "{claims}");
    }
}

/// Headers that would have to be understood, that name another kind of token, or bring a key of their
/// own.
#[test]
fn headers_cannot_change_how_a_token_is_checked() {
    let key = SigningKey::new("1", SigningAlgorithm::Es256);
    let forger = SigningKey::new("1", SigningAlgorithm::Es256);
    let issuer = issuer(&[&key]);
    let header = |more: Value| {
        let mut header = json!({ "alg": "ES256", "kid": "1" });
        let more = more.as_object().unwrap().clone();
        header.as_object_mut().unwrap().extend(more);
        header
    };
    for (more, expected) in [
        (json!({}), None),
        (json!({ "typ": "JWT" }), None),
        (json!({ "typ": "application/at+jwt" }), None),
        (json!({ "typ": "logout+jwt" }), Some(TokenRejected::Kind)),
        (json!({ "typ": "dpop+jwt" }), Some(TokenRejected::Kind)),
        (json!({ "typ": 7 }), Some(TokenRejected::Malformed)),
        (
            json!({ "crit": ["exp"], "exp": 1 }),
            Some(TokenRejected::Critical),
        ),
        (json!({ "crit": [] }), Some(TokenRejected::Critical)),
        (json!({ "b64": false }), Some(TokenRejected::Critical)),
        (json!({ "kid": ["1"] }), Some(TokenRejected::Malformed)),
        (
            json!({ "kid": "k".repeat(257) }),
            Some(TokenRejected::Malformed),
        ),
        (json!({ "alg": ["ES256"] }), Some(TokenRejected::Malformed)),
        (json!({ "alg": null }), Some(TokenRejected::Malformed)),
    ] {
        let token = key.signed(&header(more.clone()), &claims());
        assert_eq!(judged(&issuer, &token).err(), expected, "{more}");
    }
    let own = header(json!({ "jwk": forger.public(), "jku": "https://evil.example/jwks" }));
    let by_other = forger.signed(&own, &claims());
    assert_eq!(judged(&issuer, &by_other), Err(TokenRejected::Signature));
    for text in [
        r#"{"alg":"none","alg":"ES256","kid":"1"}"#,
        r#"{"alg":"ES256","kid":"1","kid":"2"}"#,
        r#"["ES256"]"#,
        r#"{"alg":"ES256","kid":"1"} "#,
        "",
    ] {
        let token = key.signed_text(text, &claims().to_string());
        let found = judged(&issuer, &token);
        let is_plain = text.ends_with(' ');
        assert_eq!(found.is_ok(), is_plain, "{text}");
    }
    let twice = format!(r#"{{"aud":"{AUDIENCE}",{}"#, &claims().to_string()[1..]);
    let token = key.signed_text(&header(json!({})).to_string(), &twice);
    assert_eq!(judged(&issuer, &token), Err(TokenRejected::Malformed));
}

/// A key of one issuer has signed nothing of another, by whatever name it goes.
#[test]
fn a_token_is_checked_by_the_keys_of_its_own_issuer() {
    let (ours, theirs) = (
        SigningKey::new("same", SigningAlgorithm::Es256),
        SigningKey::new("same", SigningAlgorithm::Es256),
    );
    let first = issuer(&[&ours]);
    let second = compiled(IssuerTerms {
        issuer: "https://second.example.com".to_owned(),
        ..terms(&[])
    });
    second.ring.arrived(read(&key_set(&[&theirs])), STEADY);
    let at_second = with("iss", json!("https://second.example.com"));
    let both = |token: &str| check([&first, &second], token, AT).map(|(index, _)| index);
    assert_eq!(both(&ours.token(&claims())), Ok(0));
    assert_eq!(both(&theirs.token(&at_second)), Ok(1));
    assert_eq!(
        both(&theirs.token(&claims())),
        Err(TokenRejected::Signature)
    );
    assert_eq!(both(&ours.token(&at_second)), Err(TokenRejected::Signature));
}

/// A token is bounded, and is three parts of base64url.
#[test]
fn what_is_no_token_is_refused() {
    let key = SigningKey::new("1", SigningAlgorithm::Es256);
    let issuer = issuer(&[&key]);
    let token = key.token(&claims());
    let long = key.token(&with("more", json!("m".repeat(16 << 10))));
    assert_eq!(judged(&issuer, &long), Err(TokenRejected::TooLong));
    let wide = key.token(&with("more", json!("m".repeat(8000))));
    assert!(wide.len() < 16 << 10 && judged(&issuer, &wide).is_ok());
    for odd in [
        String::new(),
        "..".to_owned(),
        format!("{token}="),
        format!("{token}.x"),
        format!(" {token}"),
        token.replace('.', ":"),
        format!("{token}\u{e9}"),
    ] {
        assert_eq!(
            judged(&issuer, &odd),
            Err(TokenRejected::Malformed),
            "{odd}"
        );
    }
    let deep = "[".repeat(20) + &"]".repeat(20);
    let deep = with("more", serde_json::from_str(&deep).unwrap());
    assert_eq!(
        judged(&issuer, &key.token(&deep)),
        Err(TokenRejected::Malformed)
    );
}

proptest! {
    /// Whatever comes, it is judged, and nothing but the token of the issuer is taken.
    #[test]
    fn no_text_breaks_the_reader(text in "[ -~]{0,64}(\\.[ -~]{0,64}){0,3}") {
        let issuer = compiled(terms(&[]));
        prop_assert!(judged(&issuer, &text).is_err());
        prop_assert!(lacking([&issuer], &text, AT).is_none());
    }
}

//! Whom certificates name, and beside which tokens.

use super::*;
use crate::guards::Section as _;
use crate::guards::identity::Settings;
use serde_json::{Value, json};

const ANN_URI: &str = "spiffe://example.org/ns/agents/sa/ann";
const BEN_URI: &str = "spiffe://example.org/ns/agents/sa/ben";
const ANN_TOKEN: &str = "ann-0123456789abcdef";
const OLD_TOKEN: &str = "old-0123456789abcdef";
const CEL_TOKEN: &str = "cel-0123456789abcdef";

fn compiled(callers: Value) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let settings = Settings {
        callers: serde_json::from_value(callers).unwrap(),
        ..Settings::default()
    };
    let rule = settings.compile(&mut problems);
    let found = problems.into_found().into_iter();
    let words = found.map(|problem| format!("{}: {}", problem.path.join("."), problem.message));
    (rule, words.collect())
}

fn rule() -> Rule {
    let (rule, problems) = compiled(json!([
        { "agent": "ann", "certificate": ANN_URI, "token": ANN_TOKEN, "previous": [{ "token": OLD_TOKEN }] },
        { "agent": "ben", "certificate": BEN_URI },
        { "agent": "cel", "token": CEL_TOKEN },
    ]));
    assert_eq!(problems, [""; 0]);
    rule
}

fn known(uris: Option<&[&str]>, bearer: Option<&str>) -> Result<(String, bool), Unauthorized> {
    let uris: Option<Vec<String>> =
        uris.map(|uris| uris.iter().map(|uri| (*uri).to_owned()).collect());
    let shown = ShownProof {
        certificate: uris.as_deref(),
        bearer,
    };
    let rule = rule();
    let found = rule.identify_by(shown, |_| None)?.caller;
    Ok((found.agent.to_string(), found.certificate.is_some()))
}

/// Issue 20 "client certificates mapped to callers": which proofs name whom.
#[test]
fn token_and_certificate_name_one_caller_or_none() {
    let of = |agent: &str, by_certificate| Ok((agent.to_owned(), by_certificate));
    let other = "spiffe://example.org/ns/agents/sa/other";
    for (uris, bearer, expected) in [
        (None, Some(ANN_TOKEN), of("ann", false)),
        (None, Some(OLD_TOKEN), of("ann", false)),
        (Some(&[ANN_URI][..]), None, of("ann", true)),
        (Some(&[ANN_URI, other]), None, of("ann", true)),
        (Some(&[ANN_URI, ANN_URI]), None, of("ann", true)),
        (Some(&[ANN_URI]), Some(ANN_TOKEN), of("ann", true)),
        (Some(&[ANN_URI]), Some(OLD_TOKEN), of("ann", true)),
        (Some(&[BEN_URI]), None, of("ben", true)),
        (Some(&[other]), Some(CEL_TOKEN), of("cel", false)),
        (Some(&[]), Some(CEL_TOKEN), of("cel", false)),
        (None, None, Err(Unauthorized::NoToken)),
        (Some(&[other]), None, Err(Unauthorized::UnknownCertificate)),
        (Some(&[]), None, Err(Unauthorized::UnknownCertificate)),
        (
            Some(&[other]),
            Some("none"),
            Err(Unauthorized::UnknownToken),
        ),
        (
            Some(&[ANN_URI]),
            Some("none"),
            Err(Unauthorized::UnknownToken),
        ),
        (
            Some(&[ANN_URI, BEN_URI]),
            None,
            Err(Unauthorized::TwoCallers),
        ),
        (
            Some(&[ANN_URI, BEN_URI]),
            Some(ANN_TOKEN),
            Err(Unauthorized::TwoCallers),
        ),
        (
            Some(&[ANN_URI]),
            Some(CEL_TOKEN),
            Err(Unauthorized::Contradicted),
        ),
        (
            Some(&[BEN_URI]),
            Some(ANN_TOKEN),
            Err(Unauthorized::Contradicted),
        ),
    ] {
        assert_eq!(known(uris, bearer), expected, "{uris:?} {bearer:?}");
    }
}

/// No part, other case or other writing of a URI is the URI.
#[test]
fn a_certificate_is_known_by_its_exact_uri() {
    for uri in [
        "spiffe://example.org/ns/agents/sa/an",
        "spiffe://example.org/ns/agents/sa/ann/",
        "spiffe://example.org/ns/agents/sa/ann2",
        "spiffe://example.org/ns/agents/sa/Ann",
        "spiffe://example.org//ns/agents/sa/ann",
        "spiffe://example.org/ns/agents/sa/%61nn",
        "spiffe://example.org/ns/agents/x/../sa/ann",
    ] {
        let found = known(Some(&[uri]), None);
        assert_eq!(found, Err(Unauthorized::UnknownCertificate), "{uri}");
    }
}

#[test]
fn what_is_no_uri_of_a_certificate_is_named() {
    for (uri, why) in [
        ("ann", "is no URI"),
        ("spiffe://example.org/a b", "is no URI"),
        ("spiffe://example.org", "is no SPIFFE ID"),
        ("spiffe://Example.org/a", "is no SPIFFE ID"),
        ("spiffe://example.org:8443/a", "is no SPIFFE ID"),
        ("spiffe://example.org/a/", "is no SPIFFE ID"),
        ("spiffe://example.org/a?b", "is no SPIFFE ID"),
        ("spiffe://example.org/*", "is no SPIFFE ID"),
    ] {
        let (_, problems) = compiled(json!([{ "agent": "a", "certificate": uri }]));
        let [problem] = &problems[..] else {
            panic!("{uri}: {problems:?}")
        };
        assert!(
            problem.starts_with("callers.0.certificate: ") && problem.contains(why),
            "{problem}"
        );
    }
    let twice = json!([
        { "agent": "a", "certificate": ANN_URI },
        { "agent": "b", "certificate": ANN_URI, "token": ANN_TOKEN, "previous": [{ "token": ANN_TOKEN }] },
    ]);
    let (_, problems) = compiled(twice);
    assert_eq!(
        problems.len(),
        2,
        "the certificate and the token: {problems:?}"
    );
}

/// Issue 20 "tokens rotate with overlap": a token whose time is over proves nothing.
#[test]
fn a_previous_token_ends_when_it_is_said_to() {
    let with = |until: Value| {
        compiled(json!([
            { "agent": "ann", "token": ANN_TOKEN, "previous": [{ "token": OLD_TOKEN, "until": until }] },
        ]))
    };
    let found = |rule: &Rule, token| rule.identify(Some(token), |_| None).is_ok();
    let (rule, problems) = with(json!("2999-01-01T00:00:00+01:00"));
    assert_eq!(problems, [""; 0]);
    assert!(found(&rule, ANN_TOKEN) && found(&rule, OLD_TOKEN));
    let (rule, problems) = with(json!("2020-01-01T00:00:00Z"));
    assert!(found(&rule, ANN_TOKEN) && !found(&rule, OLD_TOKEN));
    assert_eq!(problems.len(), 1, "a warning: {problems:?}");
    let (_, problems) = with(json!("tomorrow"));
    assert_eq!(problems, ["callers.0.previous.0.until: is no time"]);
}

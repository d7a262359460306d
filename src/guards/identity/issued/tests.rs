//! Scenarios of callers whom tokens name.

use super::super::jwt::SigningAlgorithm;
use super::super::jwt::key_set::KeySet;
use super::super::jwt::signing::{SigningKey, key_set};
use super::super::{CallerSettings, EntryMiss, Rule, Settings, Unauthorized, kept_of};
use super::settings::{AuthSettings, CallerIssuerSettings};
use super::*;
use crate::guards::Section as _;
use crate::model::clock::hands::TestClock;
use crate::model::diagnostic::Problems;
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

mod certified;
mod proved;

const ISSUER: &str = "https://login.example.com";

fn written(change: impl FnOnce(&mut Value)) -> CallerIssuerSettings {
    let mut written = json!({
        "issuer": ISSUER, "audience": "tools", "jwks_url": "https://login.example.com/jwks",
        "claims": { "agent": "azp", "tenant": "/org", "roles": "/realm/roles", "on_behalf_of": "sub" },
        "group": "support",
    });
    change(&mut written);
    serde_json::from_value(written).unwrap()
}

fn caller(agent: &str) -> CallerSettings {
    let written = json!({ "agent": agent, "token": "0123456789abcdef-own" });
    serde_json::from_value(written).unwrap()
}

fn settings(jwt: Vec<CallerIssuerSettings>, callers: Vec<CallerSettings>) -> Settings {
    let public_url = Some("https://tools.example.com".to_owned());
    Settings {
        auth: AuthSettings { public_url, jwt },
        callers,
        ..Settings::default()
    }
}

fn found(settings: Settings) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let rule = settings.compile(&mut problems);
    let found = problems.into_found().into_iter();
    let words = found.map(|one| format!("{}: {}", one.path.join("."), one.message));
    (rule, words.collect())
}

/// Issuers with keys that were fetched just now, and a clock that a test moves.
fn ready(settings: Settings, keys: &[&SigningKey]) -> (&'static TestClock, Rule) {
    let (mut rule, problems) = found(settings);
    assert_eq!(problems, [""; 0]);
    let clock = TestClock::new();
    let issued = rule.issued.take().and_then(Arc::into_inner).unwrap();
    let issued = IssuedCallers {
        clock: clock.clock(),
        ..issued
    };
    for ring in issued.rings() {
        let set = Bytes::from(key_set(keys).to_string());
        ring.arrived(KeySet::read(set).unwrap(), clock.clock().steady());
    }
    rule.issued = Some(Arc::new(issued));
    (clock, rule)
}

fn claims(clock: &'static TestClock, change: impl FnOnce(&mut Value)) -> Value {
    let now = clock.clock().wall().as_second();
    let mut claims = json!({
        "iss": ISSUER, "aud": "tools", "exp": now + 300, "sub": "ada", "azp": "support-bot", "org": "t_1",
        "realm": { "roles": ["billing"] },
    });
    change(&mut claims);
    claims
}

fn key() -> SigningKey {
    SigningKey::new("1", SigningAlgorithm::Es256)
}

fn who(rule: &Rule, token: &str) -> Result<Arc<Caller>, Unauthorized> {
    rule.identify(Some(token), |_| None)
        .map(|found| found.caller)
}

/// A token makes a caller of what its claims say, and of nothing else.
#[test]
fn a_token_makes_one_caller() {
    let key = key();
    let (clock, rule) = ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    let caller = who(&rule, &key.token(&claims(clock, |_| {}))).unwrap();
    assert_eq!(caller.agent.as_str(), "support-bot");
    assert_eq!(caller.tenant.as_ref().map(TenantId::as_str), Some("t_1"));
    assert_eq!(caller.user.as_ref().map(UserId::as_str), Some("ada"));
    assert_eq!(
        (caller.roles.as_slice(), caller.owner),
        (&["billing".to_owned()][..], false)
    );
    assert_eq!(caller.group.as_deref(), Some("support"));
    let issued = caller.issued_by();
    assert_eq!(issued, (Some(ISSUER.to_owned()), Some("ada".to_owned())));
    assert!(caller.pace.is_some());
    let owner = claims(clock, |claims| {
        claims["owner"] = json!(true);
        claims["group"] = json!("admins");
        claims["tenant"] = json!("t_2");
    });
    let same = who(&rule, &key.token(&owner)).unwrap();
    assert!(!same.owner && same.group == caller.group && same.tenant == caller.tenant);
    assert!(matches!(
        rule.identify(None, |_| None),
        Err(Unauthorized::NoToken)
    ));
    let own = rule.identify(Some("0123456789abcdef-own"), |_| None);
    assert_eq!(own.err(), Some(Unauthorized::UnknownToken));
}

/// A claim that is configured has to be there, in its own form: nobody acts for a default tenant.
#[test]
fn a_missing_claim_makes_nobody() {
    let key = key();
    let (clock, rule) = ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    for (name, value) in [
        ("azp", Value::Null),
        ("azp", json!(["support-bot"])),
        ("org", Value::Null),
        ("org", json!("")),
        ("org", json!(7)),
        ("org", json!({ "id": "t_1" })),
        ("realm", json!({})),
        ("realm", json!({ "roles": { "billing": true } })),
        ("realm", json!({ "roles": ["billing", 7] })),
        ("sub", Value::Null),
        ("sub", json!(" ada")),
    ] {
        let token = key.token(&claims(clock, |claims| claims[name] = value.clone()));
        let refused = Unauthorized::Token(TokenRejected::Claim);
        assert_eq!(who(&rule, &token), Err(refused), "{name} {value}");
    }
    let plain = written(|written| written["claims"] = json!({ "agent": "azp" }));
    let (clock, rule) = ready(settings(vec![plain], Vec::new()), &[&key]);
    let caller = who(&rule, &key.token(&claims(clock, |_| {}))).unwrap();
    assert!(caller.tenant.is_none() && caller.user.is_none() && caller.roles.is_empty());
}

/// An agent of the configuration has its own token, and no issuer can name it unless that is written.
#[test]
fn an_issuer_names_no_agent_of_others() {
    let key = key();
    let callers = || vec![caller("support-bot")];
    let refused = Err(Unauthorized::Token(TokenRejected::Agent));
    let (clock, rule) = ready(settings(vec![written(|_| {})], callers()), &[&key]);
    let token = |agent: &str| key.token(&claims(clock, |claims| claims["azp"] = json!(agent)));
    assert_eq!(who(&rule, &token("support-bot")), refused);
    assert_eq!(who(&rule, &token("anonymous")), refused);
    assert!(who(&rule, &token("other-bot")).is_ok());
    let listed = written(|written| written["agents"] = json!(["support-bot"]));
    let (clock, rule) = ready(settings(vec![listed], callers()), &[&key]);
    let token = |agent: &str| key.token(&claims(clock, |claims| claims["azp"] = json!(agent)));
    assert!(who(&rule, &token("support-bot")).is_ok());
    assert_eq!(who(&rule, &token("other-bot")), refused);
}

/// A token without a scope that is asked for is good, and not enough.
#[test]
fn scopes_are_asked_for() {
    let key = key();
    let scoped = written(|written| written["scopes"] = json!(["mcp:call", "mcp:list"]));
    let (clock, rule) = ready(settings(vec![scoped], Vec::new()), &[&key]);
    let with = |name: &str, value: Value| {
        let token = key.token(&claims(clock, |claims| claims[name] = value));
        who(&rule, &token).map(drop)
    };
    let refused = Err(Unauthorized::Token(TokenRejected::Scope));
    assert_eq!(with("scope", json!("mcp:list mcp:call")), Ok(()));
    assert_eq!(with("scp", json!(["mcp:call", "mcp:list"])), Ok(()));
    assert_eq!(with("scope", json!("mcp:call")), refused);
    assert_eq!(with("scope", json!("mcp:callmcp:list")), refused);
    assert_eq!(with("scope", json!(7)), refused);
    assert_eq!(with("other", json!("mcp:call mcp:list")), refused);
}

/// What was checked once counts until the token is over, and no longer than the key it was checked by.
#[test]
fn a_checked_token_counts_no_longer_than_it_says() {
    let key = key();
    let (clock, rule) = ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    let token = key.token(&claims(clock, |_| {}));
    let first = who(&rule, &token).unwrap();
    assert!(
        Arc::ptr_eq(&first, &who(&rule, &token).unwrap()),
        "it is not checked again"
    );
    clock.pass(Duration::from_secs(329));
    assert!(who(&rule, &token).is_ok());
    clock.pass(Duration::from_secs(1));
    assert_eq!(
        who(&rule, &token),
        Err(Unauthorized::Token(TokenRejected::Expired))
    );
    let token = key.token(&claims(clock, |_| {}));
    assert!(who(&rule, &token).is_ok());
    let other = SigningKey::new("2", SigningAlgorithm::Es256);
    let ring = rule.issued().unwrap().rings().next().unwrap();
    let set = Bytes::from(key_set(&[&other]).to_string());
    ring.arrived(KeySet::read(set).unwrap(), clock.clock().steady());
    let taken_away = who(&rule, &token).unwrap_err();
    assert!(matches!(
        taken_away,
        Unauthorized::Token(TokenRejected::KeyPending { .. })
    ));
    clock.pass(Duration::from_hours(2));
    let late = key.token(&claims(clock, |_| {}));
    assert_eq!(
        who(&rule, &late),
        Err(Unauthorized::Token(TokenRejected::KeysUnavailable))
    );
}

/// Between its messages an agent is known as its tokens described it; one that has not come since a
/// start is known by its name. What it is bound to does not depend on who came.
#[test]
fn who_came_is_remembered() {
    let key = key();
    let (clock, rule) = ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    let class = rule.class_of("support-bot", Some("t_1"));
    let known = |agent: &str, tenant| rule.entries_of(agent, tenant).len();
    let supposed = rule.entries_with("support-bot", Some("t_1"), &["billing".to_owned()]);
    assert_eq!(supposed[0].roles, ["billing"]);
    assert_eq!(
        (known("support-bot", None), known("anonymous", Some("t_1"))),
        (0, 0)
    );
    assert!(rule.present().is_empty());
    let token = key.token(&claims(clock, |_| {}));
    let caller = who(&rule, &token).unwrap();
    let entries = rule.entries_of("support-bot", Some("t_1"));
    assert_eq!(entries.len(), 1);
    assert!(caller.is_of_entry(&entries[0]) && entries[0].user.is_none());
    assert_eq!(rule.present().len(), 1);
    assert_eq!(rule.class_of("support-bot", Some("t_1")), class);
    clock.pass(Duration::from_secs(400));
    assert!(rule.present().is_empty(), "its streams end with its token");
    assert_eq!(
        known("support-bot", Some("t_1")),
        1,
        "its held calls do not"
    );
    let other = written(|written| written["group"] = json!("others"));
    let (_, reloaded) = ready(settings(vec![other], Vec::new()), &[&key]);
    assert_ne!(reloaded.class_of("support-bot", Some("t_1")), class);
}

/// What an agent is does not depend on which of its issuers is written first.
#[test]
fn the_order_of_issuers_says_nothing() {
    let listed = |issuer: &str| {
        written(|written| {
            written["issuer"] = json!(issuer);
            written["agents"] = json!(["support-bot"]);
        })
    };
    let class = |issuers: [&str; 2]| {
        let (rule, problems) = found(settings(issuers.map(listed).to_vec(), Vec::new()));
        assert_eq!(problems, [""; 0]);
        rule.class_of("support-bot", Some("t_1"))
    };
    let (one, other) = ("https://a.example.com", "https://b.example.com");
    assert_eq!(class([one, other]), class([other, one]));
    assert_ne!(class([one, other]), class([one, "https://c.example.com"]));
}

/// 003-64: a call that is made later in the place of one whom a token named is made by what that token said, also
/// when others of its name have come; and after a start by its roles again, as long as nobody has.
#[test]
fn rights_of_a_token_are_nobody_elses() {
    let key = key();
    let started = || ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    let (clock, rule) = started();
    let of = |clock, role: &str| {
        key.token(&claims(clock, |claims| {
            claims["realm"]["roles"] = json!([role]);
        }))
    };
    let again = |rule: &Rule, kept| {
        let found = rule.entry_again("support-bot", Some("t_1"), kept);
        found.map(|entry| entry.roles.clone())
    };
    let junior = kept_of(&who(&rule, &of(clock, "junior")).unwrap());
    for role in ["senior", "lead", "other"] {
        who(&rule, &of(clock, role)).unwrap();
        assert_eq!(again(&rule, Some(&junior)), Ok(junior.roles.clone()));
    }
    let (clock, rule) = started();
    assert_eq!(again(&rule, Some(&junior)), Ok(junior.roles.clone()));
    who(&rule, &of(clock, "senior")).unwrap();
    for kept in [Some(&junior), None] {
        assert_eq!(again(&rule, kept), Err(EntryMiss::OtherRights), "{kept:?}");
    }
    who(&rule, &of(clock, "junior")).unwrap();
    assert_eq!(again(&rule, Some(&junior)), Ok(junior.roles.clone()));
}

/// A reload goes on with the keys and with those who came, and checks tokens by what is written now.
#[test]
fn a_reload_forgets_nobody() {
    let key = key();
    let (clock, before) = ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    let token = key.token(&claims(clock, |_| {}));
    who(&before, &token).unwrap();
    let (mut after, _) = found(settings(vec![written(|_| {})], vec![caller("own")]));
    let issued = after.issued.take().and_then(Arc::into_inner).unwrap();
    let clock = clock.clock();
    after.issued = Some(Arc::new(IssuedCallers { clock, ..issued }));
    after.succeed(&before);
    assert_eq!(
        after.entries_of("support-bot", Some("t_1"))[0].roles,
        ["billing"]
    );
    assert_eq!(after.issued().unwrap().present().len(), 1);
    assert!(who(&after, &token).is_ok());
    let elsewhere = written(|written| written["audience"] = json!("elsewhere"));
    let (mut strict, _) = found(settings(vec![elsewhere], Vec::new()));
    let issued = strict.issued.take().and_then(Arc::into_inner).unwrap();
    strict.issued = Some(Arc::new(IssuedCallers { clock, ..issued }));
    strict.succeed(&before);
    assert_eq!(
        who(&strict, &token),
        Err(Unauthorized::Token(TokenRejected::Audience))
    );
    assert!(strict.issued().unwrap().present().is_empty());
    // The same rule in the place of itself, as when a tool is taken away.
    after.succeed(&after.clone());
}

/// An agent whose entry is taken away, and that an issuer names from then on, is held to that entry's
/// rate no more; what it has used of it stays used.
#[test]
fn a_rate_that_is_configured_no_more_does_not_count() {
    let key = key();
    let slow = json!({
        "agent": "support-bot", "token": "0123456789abcdef-own", "rate": { "calls": 10, "per": "1m" },
    });
    let slow: CallerSettings = serde_json::from_value(slow).unwrap();
    let (clock, before) = ready(settings(vec![written(|_| {})], vec![slow]), &[&key]);
    let own = before.identify(Some("0123456789abcdef-own"), |_| None);
    let (own, now) = (own.unwrap().caller, clock.clock().steady());
    let pace = own.pace.as_ref().unwrap();
    assert_eq!((0..20).filter(|_| pace.take(now).is_ok()).count(), 10);
    let (mut after, _) = found(settings(vec![written(|_| {})], Vec::new()));
    let issued = after.issued.take().and_then(Arc::into_inner).unwrap();
    let at = clock.clock();
    after.issued = Some(Arc::new(IssuedCallers {
        clock: at,
        ..issued
    }));
    after.succeed(&before);
    let named = who(&after, &key.token(&claims(clock, |_| {}))).unwrap();
    let pace = named.pace.as_ref().unwrap();
    assert!(pace.rate() != own.pace.as_ref().unwrap().rate() && !pace.is_unused(now));
    assert!((0..20).all(|_| pace.take(now).is_ok()));
}

/// However many agents an issuer names, what is remembered of them has an end.
#[test]
fn what_is_remembered_is_bounded() {
    let key = SigningKey::new("1", SigningAlgorithm::EdDsa);
    let (clock, rule) = ready(settings(vec![written(|_| {})], Vec::new()), &[&key]);
    for number in 0..MAX_PACED_AGENTS + 20 {
        let agent = format!("agent-{number}");
        let token = key.token(&claims(clock, |claims| claims["azp"] = json!(agent)));
        assert!(who(&rule, &token).is_ok());
    }
    let issued = rule.issued().unwrap();
    assert_eq!(
        issued.paces.lock().len(),
        MAX_PACED_AGENTS + 1,
        "the rest share one"
    );
    assert_eq!(issued.present().len(), 4096);
}

/// What could not be meant is named, with its place.
#[test]
fn settings_that_cannot_be_meant_are_named() {
    let words = |jwt: Vec<CallerIssuerSettings>| found(settings(jwt, Vec::new())).1;
    let other = |written: &mut Value| written["issuer"] = json!("https://other.example.com");
    assert_eq!(
        words(vec![written(|_| {}), written(other)]),
        ["auth.jwt.1: another issuer may name any agent, too"]
    );
    let listed = |written: &mut Value| written["agents"] = json!(["a"]);
    assert_eq!(
        words(vec![written(|_| {}), written(listed)]),
        ["auth.jwt.1.issuer: another entry is of the same issuer"]
    );
    assert_eq!(
        words(vec![written(
            |written| written["claims"]["roles"] = json!("/a~2")
        )]),
        ["auth.jwt.0.claims.roles: names no claim"]
    );
    assert_eq!(
        words(vec![written(
            |written| written["agents"] = json!(["a", " "])
        )]),
        ["auth.jwt.0.agents.1: is blank or has blanks around it"]
    );
    assert_eq!(
        words(vec![written(|written| written["group"] = json!(""))]),
        ["auth.jwt.0.group: is blank or has blanks around it"]
    );
    let scopes = |scopes: Value| words(vec![written(|written| written["scopes"] = scopes)]);
    assert_eq!(
        scopes(json!(["", "a b", "a\"", "a\\", "\u{e4}", "a\t"])),
        (0..6)
            .map(|index| format!("auth.jwt.0.scopes.{index}: is no scope"))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        scopes(json!(["tools:call", "https://a/.default", "a!"])),
        [""; 0]
    );
    let forged = json!({ "issuer": ISSUER, "audience": "a", "claims": { "agent": "azp" }, "algs": ["HS256"] });
    assert!(serde_json::from_value::<CallerIssuerSettings>(forged).is_err());
}

//! Scenarios of who is let in as whom.

use super::*;

const TOKEN: &str = "0123456789abcdef-support";
const GATEWAY: &str = "0123456789abcdef-gateway";

fn caller(agent: &str, token: Option<&str>, front_end: Option<&str>) -> CallerSettings {
    CallerSettings {
        agent: agent.to_owned(),
        token: token.map(|token| Secret::new(token.to_owned())),
        front_end: front_end.map(ToOwned::to_owned),
        tenant: Some("t_001".to_owned()),
        roles: vec!["billing_admin".to_owned()],
        group: None,
        model: None,
        owner: false,
        schemas: SchemaSettings::default(),
    }
}

fn rule() -> Rule {
    let header = "X-Agent-Id".to_owned();
    let front_ends =
        vec![FrontEndSettings { name: "gateway".to_owned(), token: Secret::new(GATEWAY.to_owned()), header }];
    let callers = vec![caller("support-bot", Some(TOKEN), None), caller("web-bot", None, Some("gateway"))];
    let mut problems = Problems::default();
    let rule = Settings { callers, front_ends }.compile(&mut problems);
    assert_eq!(problems.into_found(), []);
    rule
}

/// 001-03, 001-60: who calls follows from the token alone; a header counts only beside its front end's token.
#[test]
fn only_a_known_token_makes_a_caller() {
    let rule = rule();
    let header = |value: Option<&'static str>| move |name: &str| value.filter(|_| name == "x-agent-id");
    let who = |bearer, named| rule.identify(bearer, header(named)).map(|caller| caller.agent.to_string());
    assert_eq!(who(Some(TOKEN), None), Ok("support-bot".to_owned()));
    assert_eq!(who(Some(TOKEN), Some("web-bot")), Ok("support-bot".to_owned()));
    assert_eq!(who(Some(GATEWAY), Some("web-bot")), Ok("web-bot".to_owned()));
    assert_eq!(who(Some(GATEWAY), Some("support-bot")), Err(Unauthorized::UnknownAgent));
    assert_eq!(who(Some(GATEWAY), None), Err(Unauthorized::UnknownAgent));
    assert_eq!(who(None, Some("web-bot")), Err(Unauthorized::NoToken));
    assert_eq!(who(Some(""), None), Err(Unauthorized::UnknownToken));
    assert_eq!(who(Some(&TOKEN[..TOKEN.len() - 1]), None), Err(Unauthorized::UnknownToken));
}

#[test]
fn no_token_is_kept_or_printed() {
    let shown = format!("{:?}", rule());
    assert!(!shown.contains(TOKEN) && !shown.contains(GATEWAY), "{shown}");
}

#[test]
fn without_callers_everybody_is_anonymous() {
    let rule = Settings::default().compile(&mut Problems::default());
    let caller = rule.identify(None, |_| None).unwrap();
    assert_eq!(caller.agent.as_str(), ANONYMOUS);
    assert!(!caller.owner && caller.roles.is_empty() && caller.tenant.is_none());
}

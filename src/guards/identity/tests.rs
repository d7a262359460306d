//! Scenarios of who is let in as whom.

use super::*;
use serde_json::{Value, json};

const AGENT_TOKEN: &str = "0123456789abcdef-support";
const GATEWAY_TOKEN: &str = "0123456789abcdef-gateway";

fn caller(agent: &str, token: Option<&str>, front_end: Option<&str>) -> CallerSettings {
    CallerSettings {
        rate: None,
        limits: None,
        user_limits: None,
        agent: agent.to_owned(),
        token: token.map(|token| Secret::new(token.to_owned())),
        previous: Vec::new(),
        certificate: None,
        front_end: front_end.map(ToOwned::to_owned),
        tenant: Some("t_001".to_owned()),
        roles: vec!["billing_admin".to_owned()],
        group: None,
        model: None,
        owner: false,
        profile: None,
        environment: None,
        users: None,
        needs_user: None,
        parent: None,
        schemas: SchemaSettings::default(),
    }
}

fn rule() -> Rule {
    let header = "X-Agent-Id".to_owned();
    let front_ends = vec![FrontEndSettings {
        name: "gateway".to_owned(),
        token: Secret::new(GATEWAY_TOKEN.to_owned()),
        previous: Vec::new(),
        header,
        user_header: None,
    }];
    let callers = vec![
        caller("support-bot", Some(AGENT_TOKEN), None),
        caller("web-bot", None, Some("gateway")),
    ];
    let mut problems = Problems::default();
    let rule = Settings {
        callers,
        front_ends,
        ..Settings::default()
    }
    .compile(&mut problems);
    assert_eq!(problems.into_found(), []);
    rule
}

/// 001-03, 001-60: who calls follows from the token alone; a header counts only beside its front
/// end's token.
#[test]
fn only_a_known_token_makes_a_caller() {
    let rule = rule();
    let header =
        |value: Option<&'static str>| move |name: &str| value.filter(|_| name == "x-agent-id");
    let who = |bearer, named| {
        rule.identify(bearer, header(named))
            .map(|found| found.caller.agent.to_string())
    };
    assert_eq!(who(Some(AGENT_TOKEN), None), Ok("support-bot".to_owned()));
    assert_eq!(
        who(Some(AGENT_TOKEN), Some("web-bot")),
        Ok("support-bot".to_owned())
    );
    assert_eq!(
        who(Some(GATEWAY_TOKEN), Some("web-bot")),
        Ok("web-bot".to_owned())
    );
    assert_eq!(
        who(Some(GATEWAY_TOKEN), Some("support-bot")),
        Err(Unauthorized::UnknownAgent)
    );
    assert_eq!(
        who(Some(GATEWAY_TOKEN), None),
        Err(Unauthorized::UnknownAgent)
    );
    assert_eq!(who(None, Some("web-bot")), Err(Unauthorized::NoToken));
    assert_eq!(who(Some(""), None), Err(Unauthorized::UnknownToken));
    assert_eq!(
        who(Some(&AGENT_TOKEN[..AGENT_TOKEN.len() - 1]), None),
        Err(Unauthorized::UnknownToken)
    );
}

/// A group that nobody is in is a mistyped name.
#[test]
fn a_group_without_callers_is_named() {
    let settings = Settings {
        groups: BTreeMap::from([("g".to_owned(), GroupSettings::default())]),
        callers: vec![caller("a", Some(AGENT_TOKEN), None)],
        ..Settings::default()
    };
    let mut problems = Problems::default();
    settings.compile(&mut problems);
    let found: Vec<String> = problems
        .into_found()
        .into_iter()
        .map(|problem| problem.message)
        .collect();
    assert_eq!(found, ["no caller is of the group `g`"]);
}

#[test]
fn no_token_is_kept_or_printed() {
    let shown = format!("{:?}", rule());
    assert!(
        !shown.contains(AGENT_TOKEN) && !shown.contains(GATEWAY_TOKEN),
        "{shown}"
    );
}

#[test]
fn without_callers_everybody_is_anonymous() {
    let rule = Settings::default().compile(&mut Problems::default());
    let caller = rule.identify(None, |_| None).unwrap().caller;
    assert_eq!(caller.agent.as_str(), ANONYMOUS_AGENT);
    assert!(!caller.owner && caller.roles.is_empty() && caller.tenant.is_none());
}

/// threat-model §3I: an agent has one rate, however many tokens it has, and a reload gives it
/// nothing; so has who is nobody.
#[test]
fn an_agent_has_one_rate_whatever_it_shows_and_whatever_is_reloaded() {
    let compiled = |calls: u64| {
        let rate = || {
            Some(RateSettings {
                calls,
                per: "1h".to_owned(),
            })
        };
        let first = CallerSettings {
            rate: rate(),
            ..caller("a", Some(AGENT_TOKEN), None)
        };
        let second = caller("a", Some(GATEWAY_TOKEN), None);
        let other = CallerSettings {
            rate: rate(),
            ..caller("b", Some("0123456789abcdef-other"), None)
        };
        Settings {
            callers: vec![first, second, other],
            ..Settings::default()
        }
        .compile(&mut Problems::default())
    };
    let take = |rule: &Rule, token: &str| {
        let caller = rule.identify(Some(token), |_| None).unwrap().caller;
        caller.pace.as_ref().unwrap().take(Clock.steady()).is_ok()
    };
    let rule = compiled(3);
    assert!(take(&rule, AGENT_TOKEN) && take(&rule, GATEWAY_TOKEN) && take(&rule, AGENT_TOKEN));
    assert!(
        !take(&rule, GATEWAY_TOKEN) && !take(&rule, AGENT_TOKEN),
        "two tokens are one agent"
    );
    assert!(
        take(&rule, "0123456789abcdef-other"),
        "and another is another"
    );
    let reloaded = compiled(3);
    reloaded.succeed(&rule);
    assert!(!take(&reloaded, AGENT_TOKEN) && take(&reloaded, "0123456789abcdef-other"));
    let changed = compiled(5);
    changed.succeed(&reloaded);
    assert!(take(&changed, AGENT_TOKEN) && take(&changed, AGENT_TOKEN));
    assert!(
        !take(&changed, AGENT_TOKEN),
        "three of the five were used of the old rate"
    );
    let nobody = Settings::default().compile(&mut Problems::default());
    let anonymous = nobody.identify(None, |_| None).unwrap().caller;
    assert!(anonymous.pace.is_some());
}

/// 001-03, 001-A5: an owner is who the configuration says is one, in so many letters; everything
/// else is none, or an error.
#[test]
fn only_true_makes_an_owner() {
    let written = |owner: Option<Value>| {
        let mut caller = json!({ "agent": "a", "token": AGENT_TOKEN });
        if let Some(owner) = owner {
            caller["owner"] = owner;
        }
        serde_json::from_value::<CallerSettings>(caller).map(|caller| caller.owner)
    };
    assert!(written(Some(json!(true))).unwrap());
    assert!(!written(None).unwrap() && !written(Some(json!(false))).unwrap());
    for forged in [
        json!("true"),
        json!(1),
        json!("yes"),
        json!(null),
        json!([true]),
        json!({ "owner": true }),
        json!("1"),
    ] {
        assert!(written(Some(forged.clone())).is_err(), "{forged}");
    }
}

fn child_of(parent: &str) -> CallerSettings {
    let mut child = caller("child", Some("0123456789abcdef-child"), None);
    child.parent = Some(parent.to_owned());
    child
}

fn main_agent() -> CallerSettings {
    caller("main", Some(AGENT_TOKEN), None)
}

fn compiled(callers: Vec<CallerSettings>) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let rule = Settings {
        callers,
        ..Settings::default()
    }
    .compile(&mut problems);
    let problems = problems.into_found().into_iter();
    (
        rule,
        problems
            .map(|one| format!("{}: {}", one.path.join("."), one.message))
            .collect(),
    )
}

/// 001-13: a child has the parents that the configuration names.
#[test]
fn a_child_has_its_parents() {
    let mut other = caller("main", Some(GATEWAY_TOKEN), None);
    other.group = Some("support".to_owned());
    let same = caller("main", Some("0123456789abcdef-again"), None);
    let (rule, problems) = compiled(vec![child_of("main"), main_agent(), other, same]);
    assert_eq!(problems, [""; 0]);
    let made = rule.of_agent("child").unwrap();
    let groups: Vec<Option<&str>> = made
        .parents
        .iter()
        .map(|parent| parent.group.as_deref())
        .collect();
    assert_eq!(
        groups,
        [None, Some("support")],
        "every entry of the parent counts, once"
    );
    assert_eq!(
        compiled(vec![child_of("mian"), main_agent()]).1,
        ["callers.0.parent: no caller is the agent `mian`"]
    );
    let circle = "its parents go round in a circle, or over more than 8 generations";
    assert_eq!(
        compiled(vec![child_of("child")]).1,
        [format!("callers.0.parent: {circle}")]
    );
}

/// 001-13: a child has nothing that one of its parents has not.
#[test]
fn a_child_has_no_more_than_its_parents() {
    type Change = fn(&mut CallerSettings);
    let exceeding: [(Change, &str); 4] = [
        (
            |child| child.owner = true,
            "callers.0.owner: the parent is no owner",
        ),
        (
            |child| child.tenant = Some("t_002".to_owned()),
            "callers.0.tenant: the parent acts for another tenant",
        ),
        (
            |child| child.tenant = None,
            "callers.0.tenant: the parent acts for another tenant",
        ),
        (
            |child| child.roles.push("finance".to_owned()),
            "callers.0.roles: the parent has no role `finance`",
        ),
    ];
    for (change, expected) in exceeding {
        let mut child = child_of("main");
        change(&mut child);
        assert_eq!(compiled(vec![child, main_agent()]).1, [expected]);
    }
}

/// 003-64: a call that is made later in its caller's place is made by the same rights, or, where it is not clear whose
/// they are now, by nobody's.
#[test]
fn an_entry_is_found_again_by_its_rights() {
    let with = |roles: &[&str]| {
        let callers = roles.iter().enumerate().map(|(nth, role)| CallerSettings {
            roles: vec![(*role).to_owned()],
            ..caller("bot", Some(&format!("0123456789abcdef-{nth}")), None)
        });
        let mut problems = Problems::default();
        let rule = Settings {
            callers: callers.collect(),
            ..Settings::default()
        }
        .compile(&mut problems);
        assert_eq!(problems.into_found(), []);
        rule
    };
    let tenant = Some("t_001");
    let kept = kept_of(&with(&["junior"]).entries_of("bot", tenant)[0]);
    for (roles, kept, expected) in [
        (&["senior", "junior"][..], Some(&kept), Ok("junior")),
        (&["junior", "senior"], Some(&kept), Ok("junior")),
        (&["senior"], Some(&kept), Ok("senior")),
        (
            &["senior", "lead"],
            Some(&kept),
            Err(EntryMiss::OtherRights),
        ),
        (&["senior", "junior"], None, Err(EntryMiss::OtherRights)),
        (&["senior", "senior"], None, Ok("senior")),
        (&[], Some(&kept), Err(EntryMiss::Gone)),
    ] {
        let rule = with(roles);
        let found = rule.entry_again("bot", tenant, kept);
        let found = found.map(|entry| entry.roles[0].clone());
        assert_eq!(found, expected.map(str::to_owned), "{roles:?}");
    }
}

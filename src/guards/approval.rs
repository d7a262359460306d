//! Refuses a call that a person has to allow until one has, for exactly this call.
//!
//! After budget, so that nobody is asked about a call that may not run; before the fence, so that
//! no session waits for a person. What is irreversible is asked for each time, and so is what
//! deletes, pays or grants unless its contract says otherwise (003-47, 003-97, 003-98). A time that
//! is over, and whatever is missing, means no (policy §1).

mod approved;
pub(crate) mod grant_miss;
pub(crate) mod grant_terms;
pub(crate) mod grants;
mod judge;
pub(crate) mod right;
mod terms;

pub(crate) use approved::Approved;
pub(crate) use judge::{GrantJudge, GrantRules, GrantedCall};

use super::Section;
use crate::mcp::canonical;
use crate::mcp::json::fold::is_same_name;
use crate::model::approvers::Approvers;
use crate::model::caller::Caller;
use crate::model::decision_terms::DecisionTerms;
use crate::model::diagnostic::Problems;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName, UserId};
use crate::model::pointer::is_pointer;
use crate::model::refusal::{PendingHold, Refusal, people::PENDING_RETRY_MS};
use crate::model::shown_argument::ShownArgument;
use crate::model::times::between;
use crate::store::state::grant::MAX_GRANT_CONSTRAINTS;
use crate::store::state::hold::{HoldStatus, MAX_HELD_ARGUMENTS_BYTES};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Actions after which a mistake is dear (003-97): an operator is asked, unless the contract says
/// otherwise.
pub(crate) const HIGH_RISK_ACTIONS: [&str; 3] = ["delete", "pay", "grant"];
/// The role of who may decide, unless the contract names others.
pub(crate) const DEFAULT_APPROVER_ROLE: &str = "approver";
/// How long operators have, if nothing is said (guarantees §7).
const DEFAULT_APPROVE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long the call may wait after that before it is sent.
const DEFAULT_EXECUTE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a call waits for its decision before its agent is told to come again.
const DEFAULT_HOLD_TIMEOUT: Duration = Duration::from_secs(45);
const APPROVE_TIMEOUT_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);
const EXECUTE_TIMEOUT_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(1);
const HOLD_TIMEOUT_BOUNDS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(4);
/// People who have to agree.
const APPROVALS_NEEDED_BOUNDS: RangeInclusive<u32> = 1..=5;
/// Roles of which one is needed.
const MAX_APPROVER_ROLES: usize = 16;

/// When a person has to allow a call, and who may.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Approval")]
pub(crate) struct Settings {
    /// `always`: each call; `on-miss`: each that no standing grant of an operator covers; `never`: none, which an irreversible effect does not allow [default: `always`].
    pub ask: Option<ApprovalMode>,
    /// Operators with one of these roles may decide [default: `[approver]`].
    #[schemars(length(min = 1, max = 16))]
    pub approvers: Option<Vec<String>>,
    /// How many of them have to allow it, 1 to 5; one who denies it is enough [default: 1].
    pub required: Option<u32>,
    /// May an operator decide who has the agent's name, or its user's? [default: false]
    pub self_approval: bool,
    /// How long they have: 1s to 24h [default: 10m].
    pub approve_by: Option<String>,
    /// How long after the decision the call may run: 1s to 1h [default: 60s].
    pub execute_by: Option<String>,
    /// How long a call waits for the decision before its agent is told to send it again: 0s to 4m
    /// [default: 45s]. One that hears of progress waits up to 30m, unless this is 0s.
    pub hold: Option<String>,
    /// Is an agent that can open pages asked to open the hold's page for its person, who decides there after a
    /// login? It needs `admin.public_url` [default: false].
    pub open_page: bool,
    /// JSON pointers to arguments that receivers of `notify` in toolgate.yaml are told, such as `/amount`; at
    /// most 8 [default: none].
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub notify: Vec<String>,
    /// The arguments that matter first to who decides, as JSON pointers, or `{ pointer: /amount_cents, unit:
    /// cents, currency: /currency }`; at most 8 [default: none].
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub show: Vec<ShownArgument>,
    /// JSON pointers to arguments that a grant may leave open, whatever they are; only with `ask: on-miss`.
    #[schemars(length(max = 32))]
    pub grant_any: Option<Vec<String>>,
    /// JSON pointers to arguments that an operator may change before the call is allowed, such as
    /// `/amount`; at most 8 [default: none].
    #[schemars(length(max = 8))]
    pub approver_may_edit: Vec<String>,
    /// Reasons for a denial to choose from, at most 3 [default: some that fit everywhere].
    #[schemars(length(max = 3))]
    pub deny_reasons: Vec<String>,
    /// `required`: an operator who allows the call has to say why [default: `optional`].
    pub why: Option<AllowReason>,
}

/// Whether an operator who allows a call says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum AllowReason {
    /// If there is something to say.
    Optional,
    /// Each time.
    Required,
}

/// Which calls are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum ApprovalMode {
    /// Each.
    Always,
    /// Each that no grant covers.
    OnMiss,
    /// None.
    Never,
}

/// As run: each call is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Operators with one of these roles may decide.
    pub roles: Vec<String>,
    /// How many of them have to allow it.
    pub needed: u32,
    /// May an operator decide who has the agent's name, or its user's?
    pub self_approval: bool,
    /// How long they have.
    pub approve_for: Duration,
    /// How long after the decision the call may run.
    pub execute_for: Duration,
    /// How long a call waits for the decision.
    pub hold: Duration,
    /// Is an agent that can open pages asked to open the hold's?
    pub open_page: bool,
    /// JSON pointers to arguments that people are told of elsewhere, too.
    pub notify: Vec<String>,
    /// The arguments that matter first to who decides.
    pub show: Vec<ShownArgument>,
    /// Is only what no standing grant covers asked for?
    pub on_miss: bool,
    /// JSON pointers to arguments that a grant may leave open.
    pub grant_any: Vec<String>,
    /// What operators may do with a held call, and have to say.
    pub terms: DecisionTerms,
}

/// What a decision is about, and about nothing else (guarantees §7, threat-model §3E E1, E3).
#[derive(Debug, Clone, Copy)]
pub struct ApprovalSubject<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// What is called: `server__tool`.
    pub tool: &'a ToolName,
    /// SHA-256 of its definition.
    pub definition: &'a str,
    /// The final arguments.
    pub arguments: &'a Value,
    /// What it answers a server that asked in an earlier round.
    pub round: Option<Digest>,
    /// What else of it travels: vendors' `_meta`, and `task`.
    pub beside: Option<&'a Value>,
    /// What of the policy it is bound to.
    pub policy: Digest,
    /// The limit that it goes over, if it does.
    pub over: Option<&'a str>,
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Option<Rule>;
    const NAME: &'static str = "approval";

    fn compile(self, problems: &mut Problems) -> Option<Rule> {
        let Self {
            ask,
            approvers,
            required,
            self_approval,
            approve_by,
            execute_by,
            hold,
            open_page,
            notify,
            show,
            grant_any,
            approver_may_edit,
            deny_reasons,
            why,
        } = self;
        let on_miss = ask == Some(ApprovalMode::OnMiss);
        let grant_any = grant_any.unwrap_or_default();
        check_open(&grant_any, on_miss, problems);
        let roles = approvers.unwrap_or_else(|| vec![DEFAULT_APPROVER_ROLE.to_owned()]);
        judge_roles(&roles, problems);
        let needed = required.unwrap_or(*APPROVALS_NEEDED_BOUNDS.start());
        judge_needed(needed, on_miss, problems);
        let approve_for = between(
            "approve_by",
            approve_by.as_deref(),
            APPROVE_TIMEOUT_BOUNDS,
            problems,
        )
        .unwrap_or(DEFAULT_APPROVE_TIMEOUT);
        let execute_for = between(
            "execute_by",
            execute_by.as_deref(),
            EXECUTE_TIMEOUT_BOUNDS,
            problems,
        )
        .unwrap_or(DEFAULT_EXECUTE_TIMEOUT);
        let hold = between("hold", hold.as_deref(), HOLD_TIMEOUT_BOUNDS, problems)
            .unwrap_or(DEFAULT_HOLD_TIMEOUT);
        judge_named("notify", notify.iter().map(String::as_str), problems);
        judge_named("show", show.iter().map(ShownArgument::pointer), problems);
        let beside = show.iter().filter_map(ShownArgument::beside);
        judge_named("show", beside, problems);
        let needs_why = why == Some(AllowReason::Required);
        let terms = terms::compile(approver_may_edit, deny_reasons, needs_why, problems);
        (ask != Some(ApprovalMode::Never)).then_some(Rule {
            roles,
            needed,
            self_approval,
            approve_for,
            execute_for,
            hold,
            open_page,
            notify,
            show,
            on_miss,
            grant_any,
            terms,
        })
    }
}

/// Judges whose operators may decide.
fn judge_roles(roles: &[String], problems: &mut Problems) {
    let is_blank = roles.iter().any(|role| role.trim().is_empty());
    if roles.is_empty() || roles.len() > MAX_APPROVER_ROLES || is_blank {
        let hint = format!("name 1 to {MAX_APPROVER_ROLES} roles of `admin.tokens`");
        problems.under("approvers", |problems| {
            problems.error("nobody could decide", hint);
        });
    }
}

/// Judges how many operators have to allow a call; a grant is the word of one.
fn judge_needed(needed: u32, on_miss: bool, problems: &mut Problems) {
    if !APPROVALS_NEEDED_BOUNDS.contains(&needed) {
        let hint = format!(
            "between {} and {}",
            APPROVALS_NEEDED_BOUNDS.start(),
            APPROVALS_NEEDED_BOUNDS.end()
        );
        problems.under("required", |problems| {
            problems.error("is out of bounds", hint);
        });
    }
    if on_miss && needed > 1 {
        problems.under("ask", |problems| {
            let hint = "write `ask: always`, or `required: 1`";
            let why = "no grant can cover a call that needs several people, so each is asked for";
            problems.warning(why, hint);
        });
    }
}

/// Judges the arguments that stand under `key`.
fn judge_named<'a>(key: &str, pointers: impl Iterator<Item = &'a str>, problems: &mut Problems) {
    problems.under(key, |problems| {
        let unfit = pointers
            .enumerate()
            .filter(|(_, pointer)| !is_pointer(pointer));
        for (index, _) in unfit {
            let hint = "write `/` and the argument's name, such as `/amount`";
            problems.under(index.to_string(), |problems| {
                problems.error("not a JSON pointer to an argument", hint);
            });
        }
    });
}

/// What grants may leave open is named by pointers, where there can be grants.
fn check_open(pointers: &[String], on_miss: bool, problems: &mut Problems) {
    problems.under("grant_any", |problems| {
        let is_fit = pointers.iter().all(|pointer| is_pointer(pointer));
        if !is_fit || pointers.len() > MAX_GRANT_CONSTRAINTS {
            let hint = format!("name at most {MAX_GRANT_CONSTRAINTS} arguments such as `/note`");
            problems.error("names no arguments", hint);
        } else if !pointers.is_empty() && !on_miss {
            problems.error("says nothing where no grant counts", "write `ask: on-miss`");
        }
    });
}

/// The rule of a contract with these `actions`: as `written`, and what is dear is asked for where
/// nothing is written.
pub(crate) fn compile(
    written: Option<Settings>,
    actions: &[String],
    irreversible: bool,
    problems: &mut Problems,
) -> Option<Rule> {
    let changes = actions.iter().any(|action| action != "read");
    let is_dear = changes && irreversible
        || actions
            .iter()
            .any(|action| HIGH_RISK_ACTIONS.contains(&action.as_str()));
    let ask = written.as_ref().and_then(|written| written.ask);
    if irreversible && matches!(ask, Some(ApprovalMode::Never | ApprovalMode::OnMiss)) {
        let hint =
            "write `ask: always`, or name in `side_effect` the `rollback` that takes it back";
        problems.under("ask", |problems| {
            problems.error(
                "the effect is irreversible, so a person has to allow each call",
                hint,
            );
        });
    }
    match written {
        // Whatever becomes of the error, it is asked for.
        Some(written) if irreversible => Settings {
            ask: None,
            ..written
        }
        .compile(problems),
        Some(written) => written.compile(problems),
        None if is_dear => Settings::default().compile(problems),
        None => None,
    }
}

// === impl Rule ===

impl Rule {
    /// The rule of a call whose contract has `written`: where that asks nobody and the call goes
    /// `over` a limit at which a person decides, the usual one.
    pub fn of(written: Option<&Self>, is_over: bool) -> Option<Cow<'_, Self>> {
        let usual = || Self {
            roles: vec![DEFAULT_APPROVER_ROLE.to_owned()],
            needed: *APPROVALS_NEEDED_BOUNDS.start(),
            self_approval: false,
            approve_for: DEFAULT_APPROVE_TIMEOUT,
            execute_for: DEFAULT_EXECUTE_TIMEOUT,
            hold: DEFAULT_HOLD_TIMEOUT,
            open_page: false,
            notify: Vec::new(),
            show: Vec::new(),
            on_miss: false,
            grant_any: Vec::new(),
            terms: DecisionTerms::default(),
        };
        let written = written.map(Cow::Borrowed);
        written.or_else(|| is_over.then(|| Cow::Owned(usual())))
    }

    /// A call of which nobody is asked needs no decision.
    pub fn unneeded(rule: Option<&Self>) -> Option<Approved> {
        rule.is_none().then_some(Approved::by(None))
    }

    /// What the decision is kept under.
    pub fn key(bound: &ApprovalSubject<'_>) -> Digest {
        let ApprovalSubject {
            caller,
            tool,
            definition,
            arguments,
            round,
            beside,
            policy,
            over,
        } = *bound;
        let tenant = caller.tenant.as_ref().map(ToString::to_string);
        let is_there = |one: bool| [u8::from(one)];
        let has_tenant = is_there(tenant.is_some());
        let parts: [&[u8]; 8] = [
            &has_tenant,
            tenant.as_deref().unwrap_or_default().as_bytes(),
            caller.agent.as_str().as_bytes(),
            tool.as_str().as_bytes(),
            definition.as_bytes(),
            &canonical::exact(arguments),
            round.as_ref().map_or(&[][..], |round| round.as_bytes()),
            policy.as_bytes(),
        ];
        // Under names of their own, so that holds of calls without any keep the key that records
        // have.
        let key = match beside {
            Some(beside) => caller.digest(
                "hold beside",
                &[&parts[..], &[&canonical::exact(beside)]].concat(),
            ),
            None => caller.digest("hold", &parts),
        };
        match over {
            Some(over) => Digest::of_parts("hold over", &[key.as_bytes(), over.as_bytes()]),
            None => key,
        }
    }

    /// Whether a person can be asked at all about a call of `caller` with these arguments, and what
    /// else travels with it.
    pub fn reach(
        &self,
        approvers: &Approvers,
        caller: &Caller,
        arguments: &Value,
        more: &[Option<Value>],
    ) -> Result<(), Refusal> {
        let named = caller.user.as_ref().map(UserId::as_str);
        let asking = || std::iter::once(caller.agent.as_str()).chain(named);
        let most = approvers.reach(&self.roles, |name| {
            self.self_approval || !asking().any(|known| is_same_name(name, known))
        });
        if most < usize::try_from(self.needed).unwrap_or(usize::MAX) {
            return Err(Refusal::ApproverUnreachable {
                why: "not enough operators are configured who may",
            });
        }
        let more: usize = more
            .iter()
            .flatten()
            .map(|part| part.to_string().len())
            .sum();
        if arguments.to_string().len().saturating_add(more) > MAX_HELD_ARGUMENTS_BYTES {
            return Err(Refusal::ApproverUnreachable {
                why: "its arguments are longer than a person can be shown",
            });
        }
        Ok(())
    }

    /// Lets a call pass whose hold `key` has been allowed; none: nobody has been asked yet. `id`
    /// and `until` are the hold's: until when it can be decided, or could run.
    pub fn judge(
        &self,
        key: Digest,
        stand: &HoldStatus,
        id: ActionId,
        until: &str,
    ) -> Result<Option<Approved>, Refusal> {
        match stand {
            HoldStatus::Absent => Ok(None),
            HoldStatus::Allowed => Ok(Some(Approved::by(Some(key)))),
            HoldStatus::Pending => Err(self.pending(Some(PendingHold {
                id,
                until: until.to_owned(),
                page: None,
                after_ms: PENDING_RETRY_MS,
            }))),
            HoldStatus::Denied { why, .. } => Err(Refusal::ApprovalDenied {
                id,
                why: why.clone(),
            }),
            HoldStatus::TimedOut => Err(Refusal::ApprovalTimeout {
                id,
                why: "nobody has decided in time",
            }),
            HoldStatus::Lapsed { by, .. } => Err(Refusal::ApprovalLapsed {
                id,
                by: by.clone(),
                until: until.to_owned(),
            }),
        }
    }

    /// The refusal of a call that is asked for, with its hold, if it is held.
    pub fn pending(&self, hold: Option<PendingHold>) -> Refusal {
        Refusal::ApprovalPending {
            roles: self.roles.clone(),
            hold,
        }
    }

    /// In words, for `explain`.
    pub fn describe(&self) -> String {
        let people = if self.needed == 1 {
            "one person".to_owned()
        } else {
            format!("{} people", self.needed)
        };
        format!(
            "{people} with the role {} within {} s, then run within {} s",
            self.roles.join(" or "),
            self.approve_for.as_secs(),
            self.execute_for.as_secs()
        )
    }
}

#[cfg(test)]
mod tests;

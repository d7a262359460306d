//! Who is told elsewhere, as written.

use crate::model::secret::Secret;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Who is told elsewhere that a call waits for a person, and what came of it. A message lets nobody decide:
/// its link leads to a page that asks for a login.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Notify")]
pub(crate) struct NotifySettings {
    /// Programs and channels that are told.
    pub receivers: Vec<ReceiverSettings>,
    /// Names of receivers that may be at an address of this machine or of a private network. Others
    /// are told at public addresses only.
    pub egress: Vec<String>,
}

/// A program or a channel that is told over HTTP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NotifyReceiver")]
pub(crate) struct ReceiverSettings {
    /// what metrics and `escalate` call it: letters, digits, `_` and `-`, at most 32
    pub name: String,
    /// the address that is told, by POST; whole or in part a variable, such as `${SLACK_URL}`. With `template:
    /// email` the mail server: `smtps://host`, or `smtp://host` for STARTTLS
    pub url: Secret,
    /// In which form: `generic` (JSON) if absent.
    #[serde(default)]
    pub template: TemplateName,
    /// What it is told of: `[requested, decided]` if absent.
    #[serde(default = "usual_events")]
    pub events: Vec<NoticeEventName>,
    /// The key that signs what it is told (Standard Webhooks): `whsec_` and 24 to 64 bytes in base64;
    /// for `generic`.
    pub secret: Option<Secret>,
    /// Who writes to whom, with `template: email`.
    pub email: Option<EmailSettings>,
    /// Whose it is alone, by a name of `admin.tokens`: while that operator is away, the receivers of the delegate
    /// are told in its place.
    pub operator: Option<String>,
    /// Headers of each request, such as `Authorization`.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Only of held calls that operators with one of these roles may decide; if absent, of all.
    #[serde(default)]
    pub roles: Vec<String>,
    /// When it is not told. What happens then is not told later either.
    pub quiet: Option<QuietSettings>,
    /// Effects of which it is told in `quiet` hours, too: actions of contracts, and `irreversible`.
    #[serde(default)]
    pub pierce: Vec<String>,
    /// Who else is told of a call while nobody has decided.
    #[serde(default)]
    pub escalate: Vec<EscalationSettings>,
    /// How long it may take: `5s` if absent, `30s` at most.
    pub timeout: Option<String>,
    /// The address may be one of another machine without TLS; of a mail server: nothing is encrypted.
    #[serde(default)]
    pub unencrypted: bool,
}

/// The form in which a receiver is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum TemplateName {
    /// JSON.
    #[default]
    Generic,
    /// An incoming webhook of Slack or Mattermost.
    Slack,
    /// A webhook of a Teams workflow.
    Teams,
    /// A webhook of Discord.
    Discord,
    /// A topic of ntfy.
    Ntfy,
    /// Mail, over SMTP.
    Email,
}

/// What a receiver can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum NoticeEventName {
    /// A call is held.
    Requested,
    /// It is allowed or denied.
    Decided,
    /// Nobody decided in time, or it was allowed and did not run in time.
    Expired,
    /// What became of one that was allowed.
    Executed,
    /// Nobody knows whether a call ran, held or not.
    Unknown,
}

/// A part of each day.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "QuietHours")]
pub(crate) struct QuietSettings {
    /// when it begins, such as `"22:00"`
    pub from: String,
    /// when it ends, on the next day if that is earlier
    pub to: String,
    /// How far the clock there is ahead of UTC, such as `"+02:00"`; `UTC` if absent.
    pub offset: Option<String>,
    /// Instead of `offset`: the time zone there by its IANA name, such as `Europe/Berlin`, with its summer
    /// time.
    pub zone: Option<String>,
}

/// Mail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NotifyEmail")]
pub(crate) struct EmailSettings {
    /// who writes, such as `toolgate@example.com`
    pub from: String,
    /// who reads, 1 to 16
    #[schemars(length(min = 1, max = 16))]
    pub to: Vec<String>,
    /// The name at the mail server, where it wants one.
    pub user: Option<String>,
    /// Its password, such as `${SMTP_PASSWORD}`.
    pub password: Option<Secret>,
}

/// Who else is told while a call waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Escalation")]
pub(crate) struct EscalationSettings {
    /// when it has waited for so long: 1s to 24h
    pub after: String,
    /// the receivers that are told
    pub to: Vec<String>,
}

fn usual_events() -> Vec<NoticeEventName> {
    vec![NoticeEventName::Requested, NoticeEventName::Decided]
}

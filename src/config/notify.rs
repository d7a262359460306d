//! Who is told elsewhere that a call waits for a person.

use super::Admin;
use super::written_notify::{
    NoticeEventName, NotifySettings, QuietSettings, ReceiverSettings, TemplateName,
};
use crate::model::address::Address;
use crate::model::diagnostic::Problems;
use crate::model::secret::Secret;
use crate::model::times::between;
use crate::notify::{
    NoticeKind, NoticeReceiver, NoticeTemplate, QuietHours, ReceiverAbsence, is_effect,
};
use crate::policy::shape::suggest;
use crate::upstream::hook::key_of;
use crate::upstream::mail::MailRoute;
use email::WrittenMail;
use http::Uri;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

mod email;
mod hours;
pub(super) mod people;
mod steps;

/// Receivers at most, letters of a name, and headers of one.
const MAX_RECEIVERS: usize = 16;
const RECEIVER_NAME_BYTES_MAX: usize = 32;
const MAX_RECEIVER_HEADERS: usize = 16;
/// The time of one request: usual, least, most.
const RECEIVER_TIMEOUT: Duration = Duration::from_secs(5);
const RECEIVER_TIMEOUT_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(30);
/// What stands in each request already.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// The receivers. Names in `egress` may be at private addresses.
pub(super) fn compile(written: NotifySettings, problems: &mut Problems) -> Vec<NoticeReceiver> {
    let NotifySettings { receivers, egress } = written;
    if receivers.len() > MAX_RECEIVERS {
        problems.under("receivers", |problems| {
            problems.error(
                format!("more than {MAX_RECEIVERS} receivers"),
                "let one channel do for several",
            );
        });
    }
    let names: Vec<String> = receivers.iter().map(|one| one.name.clone()).collect();
    problems.under("egress", |problems| judge_named(&egress, &names, problems));
    problems.under("receivers", |problems| {
        let mut found = Vec::new();
        for (index, written) in receivers.into_iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                judge_name(&written.name, &names[..index], problems);
                let is_near = egress.contains(&written.name);
                found.push(receiver(written, &names, is_near, problems));
            });
        }
        steps::judge_heard(&found, problems);
        found.into_iter().flatten().collect()
    })
}

/// Who is told in the place of receivers whose operators are away.
pub(super) fn place(receivers: &mut [NoticeReceiver], admin: &Admin) {
    let owners: Vec<(String, Option<String>)> = receivers
        .iter()
        .map(|one| (one.name.clone(), one.operator.clone()))
        .collect();
    for receiver in receivers {
        let Some(operator) = &receiver.operator else {
            continue;
        };
        let away = admin.absences.iter().find(|away| away.name == *operator);
        receiver.away = away.map(|away| ReceiverAbsence {
            until: away.until,
            instead: owners
                .iter()
                .filter(|(_, owner)| owner.as_ref() == Some(&away.delegate))
                .map(|(name, _)| name.clone())
                .collect(),
        });
    }
}

/// Notes the names that no receiver has.
pub(super) fn judge_named(written: &[String], names: &[String], problems: &mut Problems) {
    for (index, name) in written.iter().enumerate() {
        if !names.contains(name) {
            let message = format!("`{}` is no receiver", name.escape_debug());
            problems.under(index.to_string(), |problems| {
                problems.error(message, suggest(name, names));
            });
        }
    }
}

fn judge_name(name: &str, before: &[String], problems: &mut Problems) {
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    problems.under("name", |problems| {
        if name.is_empty() || name.len() > RECEIVER_NAME_BYTES_MAX || !is_plain {
            let hint = format!("use 1 to {RECEIVER_NAME_BYTES_MAX} letters, digits, `_` and `-`");
            problems.error("is no name for a receiver", hint);
        } else if before.iter().any(|other| other == name) {
            problems.error(
                format!("`{name}` is the name of two receivers"),
                "rename one",
            );
        }
    });
}

fn receiver(
    written: ReceiverSettings,
    names: &[String],
    is_near: bool,
    problems: &mut Problems,
) -> Option<NoticeReceiver> {
    let ReceiverSettings {
        name,
        url,
        template,
        events,
        secret,
        email,
        operator,
        headers,
        roles,
        quiet,
        pierce,
        escalate,
        timeout,
        unencrypted,
    } = written;
    let timeout = between(
        "timeout",
        timeout.as_deref(),
        RECEIVER_TIMEOUT_RANGE,
        problems,
    );
    let chosen = template;
    let template = template_of(chosen);
    judge_key(secret.as_ref(), template, problems);
    let quiet = quiet_of(quiet, &pierce, problems);
    let escalate = problems.under("escalate", |problems| {
        steps::compile(escalate, &name, names, problems)
    });
    let headers = problems.under("headers", |problems| headers_of(&headers, problems));
    let written = WrittenMail {
        template: chosen,
        email,
        url: url.expose(),
        has_headers: !headers.is_empty(),
        unencrypted,
        is_near,
    };
    let (uri, mail) = way(written, problems)?;
    Some(NoticeReceiver {
        name,
        uri,
        template,
        events: events.into_iter().map(kind_of).collect(),
        key: secret,
        headers,
        roles,
        quiet,
        pierce,
        escalate,
        operator,
        away: None,
        mail,
        is_near,
        timeout: timeout.unwrap_or(RECEIVER_TIMEOUT),
    })
}

/// Where it is told, over HTTP or by mail.
fn way(written: WrittenMail<'_>, problems: &mut Problems) -> Option<(Uri, Option<MailRoute>)> {
    let (url, unencrypted) = (written.url, written.unencrypted);
    let is_mail = written.template == TemplateName::Email;
    let mail = email::compile(written, problems);
    if is_mail {
        // What is told by mail has no other way.
        return mail.map(|mail| (Uri::default(), Some(mail)));
    }
    let uri = problems.under("url", |problems| address(url, unencrypted, problems))?;
    Some((uri, None))
}

fn quiet_of(
    quiet: Option<QuietSettings>,
    pierce: &[String],
    problems: &mut Problems,
) -> Option<QuietHours> {
    judge_effects(pierce, problems);
    if !pierce.is_empty() && quiet.is_none() {
        problems.under("pierce", |problems| {
            problems.error("goes with `quiet`", "add `quiet`, or take it away");
        });
    }
    let quiet = quiet?;
    problems.under("quiet", |problems| hours::quiet(&quiet, problems))
}

fn template_of(written: TemplateName) -> NoticeTemplate {
    match written {
        TemplateName::Generic => NoticeTemplate::Generic,
        TemplateName::Slack => NoticeTemplate::Slack,
        TemplateName::Teams => NoticeTemplate::Teams,
        TemplateName::Discord => NoticeTemplate::Discord,
        TemplateName::Ntfy => NoticeTemplate::Ntfy,
        TemplateName::Email => NoticeTemplate::Email,
    }
}

fn kind_of(written: NoticeEventName) -> NoticeKind {
    match written {
        NoticeEventName::Requested => NoticeKind::Requested,
        NoticeEventName::Decided => NoticeKind::Decided,
        NoticeEventName::Expired => NoticeKind::Expired,
        NoticeEventName::Executed => NoticeKind::Executed,
        NoticeEventName::Unknown => NoticeKind::Unknown,
    }
}

fn judge_key(secret: Option<&Secret>, template: NoticeTemplate, problems: &mut Problems) {
    problems.under("secret", |problems| match (secret, template) {
        (Some(secret), _) if key_of(secret).is_none() => {
            problems.error(
                "is no key",
                "make one: `echo whsec_$(openssl rand -base64 32)`",
            );
        }
        (Some(_), NoticeTemplate::Generic) | (None, _) => {}
        (Some(_), _) => {
            problems.warning(
                "no chat checks a signature",
                "take it away, or write `template: generic`",
            );
        }
    });
}

fn judge_effects(pierce: &[String], problems: &mut Problems) {
    problems.under("pierce", |problems| {
        for (index, word) in pierce
            .iter()
            .enumerate()
            .filter(|(_, word)| !is_effect(word))
        {
            let message = format!("`{}` is no effect", word.escape_debug());
            problems.under(index.to_string(), |problems| {
                problems.error(
                    message,
                    "name actions of contracts, such as pay, or irreversible",
                );
            });
        }
    });
}

fn address(text: &str, unencrypted: bool, problems: &mut Problems) -> Option<Uri> {
    let Address { url, is_exposed } = Address::read(text, "name it in `headers`", problems)?;
    if is_exposed && !unencrypted {
        let hint = "use https, or say `unencrypted: true`";
        problems.error("what waits would leave this machine unencrypted", hint);
    }
    url.as_str().parse().ok()
}

fn headers_of(written: &BTreeMap<String, Secret>, problems: &mut Problems) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if written.len() > MAX_RECEIVER_HEADERS {
        problems.error(
            format!("more than {MAX_RECEIVER_HEADERS} headers"),
            "name fewer",
        );
    }
    for (name, value) in written {
        problems.under(name.clone(), |problems| {
            let read = HeaderName::try_from(name.as_str()).ok();
            let value = HeaderValue::from_str(value.expose()).ok();
            match (read, value) {
                (Some(name), _) if OWN_HEADERS.contains(&name.as_str()) => {
                    problems.error("stands in each request already", "take it away");
                }
                (Some(name), Some(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                (None, _) => {
                    problems.error("is no name of a header", "use letters, digits and `-`");
                }
                (Some(_), None) => {
                    problems.error("its value cannot stand in a header", "write it on one line");
                }
            }
        });
    }
    headers
}

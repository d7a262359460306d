//! How each kind of receiver is told: plain functions from a notice to a request.

use super::notice::{Notice, NoticeKind};
use super::receiver::NoticeTemplate;
use crate::store::operator::time;

mod discord;
mod email;
mod generic;
mod ntfy;
mod slack;
mod teams;
#[cfg(test)]
mod tests;

/// Bytes of a message at most.
pub(super) const MAX_NOTICE_BYTES: usize = 2 << 10;
/// Bytes that each text may have, where the whole was too long with longer ones.
const SHORTER: [usize; 4] = [96, 48, 24, 8];

/// A request to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendered {
    /// Headers of the form, `content-type` first.
    pub(super) headers: Vec<(&'static str, String)>,
    /// What it says.
    pub(super) body: String,
}

/// The notice in the form of `template`, in at most [`MAX_NOTICE_BYTES`] bytes; `public` is where
/// operators reach their pages.
pub(super) fn render(template: NoticeTemplate, notice: &Notice, public: Option<&str>) -> Rendered {
    let form = match template {
        NoticeTemplate::Generic => generic::render,
        NoticeTemplate::Slack => slack::render,
        NoticeTemplate::Teams => teams::render,
        NoticeTemplate::Discord => discord::render,
        NoticeTemplate::Ntfy => ntfy::render,
        NoticeTemplate::Email => email::render,
    };
    let link = public.map(|public| link(public, notice));
    let link = link.as_deref();
    let whole = form(notice, link);
    if whole.body.len() <= MAX_NOTICE_BYTES {
        return whole;
    }
    let mut rendered = whole;
    for most in SHORTER {
        rendered = form(&notice.shortened(most), link);
        if rendered.body.len() <= MAX_NOTICE_BYTES {
            break;
        }
    }
    rendered
}

/// The page of what it is about. It says which approval is meant, and lets nobody in.
fn link(public: &str, notice: &Notice) -> String {
    if notice.about.is_held {
        format!("{public}/approvals/{}", notice.about.id)
    } else {
        format!("{public}/calls")
    }
}

/// What happened, in words that nobody else chose.
fn headline(notice: &Notice) -> &'static str {
    match (notice.kind, notice.state.as_str()) {
        (NoticeKind::Requested, _) => "A call waits for a person",
        (NoticeKind::Escalated, _) => "A call still waits for a person",
        (NoticeKind::Decided, "allowed") => "A held call was allowed",
        (NoticeKind::Decided, "withdrawn") => "A held call was cancelled by its agent",
        (NoticeKind::Decided, _) => "A held call was denied",
        (NoticeKind::Expired, "lapsed") => "An allowed call did not run in time",
        (NoticeKind::Expired, _) => "Nobody decided in time; the call did not run",
        (NoticeKind::Executed, "failed") => "An allowed call did not run",
        (NoticeKind::Executed, _) => "An allowed call was carried out",
        (NoticeKind::Unknown, _) => "Nobody knows whether a call ran",
    }
}

/// What people read of it, line by line. The first words are ours, the others are to be escaped.
fn lines(notice: &Notice) -> Vec<(String, String)> {
    let about = &notice.about;
    let mut lines = vec![
        ("Tool".to_owned(), about.tool.clone()),
        ("Agent".to_owned(), about.agent.clone()),
    ];
    let listed = |words: &[String]| (!words.is_empty()).then(|| words.join(", "));
    let until = about
        .approve_by
        .filter(|_| notice.kind.is_urgent())
        .map(time);
    for (label, value) in [
        ("Tenant", about.tenant.clone()),
        ("User", about.user.clone()),
        ("Effect", listed(&about.effects)),
        ("Needs role", listed(&about.roles)),
        ("Decide by", until),
        ("By", listed(&notice.who)),
    ] {
        lines.extend(value.map(|value| (label.to_owned(), value)));
    }
    let marked = about.marked.iter().cloned();
    lines.extend(marked.map(|[pointer, value]| (format!("Argument {pointer}"), value)));
    lines
}

fn json(body: &serde_json::Value) -> Rendered {
    Rendered {
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string(),
    }
}

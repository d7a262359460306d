//! A receiver that is told by mail.

use super::super::written_notify::{EmailSettings, TemplateName};
use crate::model::diagnostic::Problems;
use crate::upstream::mail::{MailRoute, MailSecurity};
use lettre::message::Mailbox;
use url::{Host, Url};

/// Where mail servers listen for programs that send: with STARTTLS, and with TLS from the first byte.
const SUBMISSION_PORT: u16 = 587;
const SUBMISSION_TLS_PORT: u16 = 465;

/// What is said of the receiver beside its address.
pub(super) struct WrittenMail<'a> {
    pub(super) template: TemplateName,
    pub(super) email: Option<EmailSettings>,
    pub(super) url: &'a str,
    /// Whether headers are named, of which none is sent.
    pub(super) has_headers: bool,
    pub(super) unencrypted: bool,
    pub(super) is_near: bool,
}

/// The way to it; none for a receiver that is told otherwise, and where something is wrong.
pub(super) fn compile(written: WrittenMail<'_>, problems: &mut Problems) -> Option<MailRoute> {
    let is_mail = written.template == TemplateName::Email;
    let email = letters(written.email, is_mail, problems)?;
    if written.has_headers {
        problems.under("headers", |problems| {
            let hint = "take them away; a login is `email: { user: …, password: … }`";
            problems.error("stand in no mail", hint);
        });
    }
    let server = problems.under("url", |problems| {
        server(written.url, written.unencrypted, problems)
    });
    if written.unencrypted && matches!(&server, Some((_, _, MailSecurity::Tls))) {
        problems.under("unencrypted", |problems| {
            let hint = "take it away, or write smtp:// in `url`";
            problems.error("contradicts smtps://, which encrypts everything", hint);
        });
    }
    problems.under("email", |problems| {
        let from = problems.under("from", |problems| mailbox(&email.from, problems));
        let to = problems.under("to", |problems| readers(&email.to, problems));
        let security = server.as_ref().map(|(_, _, security)| *security);
        let login = match (email.user, email.password) {
            (Some(user), Some(password)) => {
                if security == Some(MailSecurity::Plain) {
                    let hint = "use smtps://, or smtp:// without `unencrypted`";
                    problems.error("a password would travel unencrypted", hint);
                }
                Some((user, password))
            }
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                problems.error("has half of a login", "write both `user` and `password`");
                None
            }
        };
        let (host, port, security) = server?;
        Some(MailRoute {
            host,
            port,
            security,
            login,
            from: from?,
            to,
            is_near: written.is_near,
        })
    })
}

/// Who writes to whom; none for a receiver that is told otherwise, and where it is not said.
fn letters(
    email: Option<EmailSettings>,
    is_mail: bool,
    problems: &mut Problems,
) -> Option<EmailSettings> {
    let (message, hint) = match (email, is_mail) {
        (Some(email), true) => return Some(email),
        (None, false) => return None,
        (None, true) => (
            "says nothing of who writes to whom",
            "add `email: { from: …, to: […] }`",
        ),
        (Some(_), false) => (
            "goes with `template: email`",
            "take it away, or change `template`",
        ),
    };
    problems.under("email", |problems| problems.error(message, hint));
    None
}

fn server(
    text: &str,
    unencrypted: bool,
    problems: &mut Problems,
) -> Option<(String, u16, MailSecurity)> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "smtp" | "smtps") && url.has_host());
    let Some(url) = url else {
        problems.error(
            "is no mail server",
            "write smtps://host, or smtp://host for STARTTLS",
        );
        return None;
    };
    let is_bare =
        matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !url.username().is_empty() || url.password().is_some() || !is_bare {
        problems.error(
            "says more than a host and a port",
            "name `user` and `password` in `email`",
        );
    }
    if url.port() == Some(0) {
        let hint = format!(
            "write the mail server's port, or none: {SUBMISSION_PORT} with smtp://, {SUBMISSION_TLS_PORT} with smtps://"
        );
        problems.error("has port 0, at which nothing listens", hint);
    }
    let security = match (url.scheme(), unencrypted) {
        ("smtps", _) => MailSecurity::Tls,
        (_, true) => MailSecurity::Plain,
        (_, false) => MailSecurity::StartTls,
    };
    let usual = if security == MailSecurity::Tls {
        SUBMISSION_TLS_PORT
    } else {
        SUBMISSION_PORT
    };
    let host = match url.host()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
    };
    Some((host, url.port().unwrap_or(usual), security))
}

fn readers(written: &[String], problems: &mut Problems) -> Vec<Mailbox> {
    let mut found = Vec::new();
    for (index, text) in written.iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            found.extend(mailbox(text, problems));
        });
    }
    found
}

fn mailbox(text: &str, problems: &mut Problems) -> Option<Mailbox> {
    let read: Option<Mailbox> = text.parse().ok();
    if read.is_none() {
        problems.error(
            "is no address of mail",
            "write name@example.com, or Name <name@example.com>",
        );
    }
    read
}

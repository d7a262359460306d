//! What a tool server is shown of who asks: configured headers, and tokens.

use super::settings::ToolServerSettings;
use super::written_credentials::{HeadersForSettings, OauthSettings};
use crate::model::address::is_trustworthy;
use crate::model::diagnostic::Problems;
use crate::model::secret::Secret;
use crate::upstream::credentials::terms::{ExchangeTerms, OauthTerms};
use std::collections::BTreeMap;
use url::Url;

/// Scopes of one token at most.
const SCOPES_MAX: usize = 64;

/// What a server is shown besides its `headers`.
#[derive(Debug, Clone, Default)]
pub struct ServerCredentials {
    /// Where its tokens come from, if it wants some.
    pub(crate) oauth: Option<OauthTerms>,
    /// Headers for some callers.
    pub(crate) classes: Vec<ClassHeaders>,
}

/// Some callers, and the headers that go with their requests.
#[derive(Debug, Clone)]
pub struct ClassHeaders {
    /// By name; none: all.
    pub(crate) agents: Vec<String>,
    /// By group; none: all.
    pub(crate) groups: Vec<String>,
    /// By tenant; none: all.
    pub(crate) tenants: Vec<String>,
    /// What is sent.
    pub(crate) headers: BTreeMap<String, Secret>,
}

/// What the server at `url` is shown.
pub(super) fn compile(
    settings: &ToolServerSettings,
    url: Option<&Url>,
    problems: &mut Problems,
) -> ServerCredentials {
    let oauth = settings.oauth.as_ref();
    let oauth =
        oauth.map(|written| problems.under("oauth", |problems| terms(written, url, problems)));
    let classes = problems.under("headers_for", |problems| {
        let each = settings.headers_for.iter().enumerate();
        let classes = each.map(|(index, one)| {
            problems.under(index.to_string(), |problems| {
                class(one, settings.oauth.is_some(), problems)
            })
        });
        classes.collect()
    });
    ServerCredentials { oauth, classes }
}

/// A program is shown what its environment says.
pub(super) fn judge_none(settings: &ToolServerSettings, problems: &mut Problems) {
    if settings.oauth.is_some() {
        problems.under("oauth", |problems| {
            problems.error("tokens go with `url`", "use `env`");
        });
    }
    if !settings.headers_for.is_empty() {
        problems.under("headers_for", |problems| {
            problems.error("headers go with `url`", "use `env`");
        });
    }
}

fn class(written: &HeadersForSettings, has_tokens: bool, problems: &mut Problems) -> ClassHeaders {
    let HeadersForSettings {
        agents,
        groups,
        tenants,
        headers,
    } = written;
    if agents.is_empty() && groups.is_empty() && tenants.is_empty() {
        let hint =
            "name `agents`, `groups` or `tenants`; what all callers are shown goes into `headers`";
        problems.error("names no callers", hint);
    }
    problems.under("headers", |problems| {
        if headers.is_empty() {
            problems.error("names no header", "name one, or take the entry away");
        }
        judge_each(headers, problems);
        if has_tokens {
            judge_no_authorization(headers, problems);
        }
    });
    ClassHeaders {
        agents: agents.clone(),
        groups: groups.clone(),
        tenants: tenants.clone(),
        headers: headers.clone(),
    }
}

/// The headers of a server with an address.
pub(super) fn judge_headers(settings: &ToolServerSettings, problems: &mut Problems) {
    problems.under("headers", |problems| {
        judge_each(&settings.headers, problems);
        if settings.oauth.is_some() {
            judge_no_authorization(&settings.headers, problems);
        }
    });
}

fn judge_each(headers: &BTreeMap<String, Secret>, problems: &mut Problems) {
    for (name, value) in headers {
        problems.under(name.clone(), |problems| {
            let letters =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(letters) {
                problems.error("is no name of a header", "use letters, digits and `-`");
            }
            if value
                .expose()
                .bytes()
                .any(|byte| byte < b' ' || byte == 0x7f)
            {
                problems.error("holds a control character", "write the value on one line");
            }
        });
    }
}

/// One `Authorization` is sent, and `oauth` makes it.
fn judge_no_authorization(headers: &BTreeMap<String, Secret>, problems: &mut Problems) {
    let is_it = |name: &&String| name.eq_ignore_ascii_case("authorization");
    for name in headers.keys().filter(is_it) {
        problems.under(name.clone(), |problems| {
            let hint = "take it away: `oauth` says it; or take `oauth` away";
            problems.error("stands beside `oauth`", hint);
        });
    }
}

fn terms(written: &OauthSettings, url: Option<&Url>, problems: &mut Problems) -> OauthTerms {
    problems.under("token_url", |problems| {
        if !is_trustworthy(&written.token_url) {
            let hint = "write an https:// address without a user, such as https://login.example.com/token; http:// only to this machine";
            problems.error("is no address to send a secret to", hint);
        }
    });
    for (key, text) in [
        ("client_id", written.client_id.as_str()),
        ("client_secret", written.client_secret.expose()),
    ] {
        judge_text(
            key,
            text,
            "write what the authorization server has given",
            problems,
        );
    }
    if let Some(audience) = &written.audience {
        judge_text(
            "audience",
            audience,
            "name the tool server, or take it away",
            problems,
        );
    }
    problems.under("scopes", |problems| judge_scopes(&written.scopes, problems));
    let resource = match written.resource.as_deref() {
        None => url.map(|url| url.as_str().to_owned()),
        Some("") => None,
        Some(said) => {
            problems.under("resource", |problems| judge_resource(said, problems));
            Some(said.to_owned())
        }
    };
    OauthTerms {
        token_url: written.token_url.clone(),
        client_id: written.client_id.clone(),
        client_secret: written.client_secret.clone(),
        auth: written.auth,
        scopes: written.scopes.clone(),
        resource,
        audience: written.audience.clone(),
        exchange: written.exchange.as_ref().map(|exchange| ExchangeTerms {
            subject_token_type: exchange.subject_token_type,
            otherwise: exchange.otherwise,
        }),
    }
}

fn judge_text(key: &str, text: &str, hint: &str, problems: &mut Problems) {
    if text.trim() != text || text.is_empty() || text.chars().any(char::is_control) {
        problems.under(key, |problems| {
            problems.error("is empty, or has blanks around it", hint);
        });
    }
}

/// Each is one word of RFC 6749 §3.3.
fn judge_scopes(scopes: &[String], problems: &mut Problems) {
    if scopes.len() > SCOPES_MAX {
        problems.error(
            format!("more than {SCOPES_MAX} scopes"),
            "ask for those that its tools need",
        );
    }
    let is_letter = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    for (index, scope) in scopes.iter().enumerate() {
        if scope.is_empty() || !scope.bytes().all(is_letter) {
            problems.under(index.to_string(), |problems| {
                problems.error("is no scope", "write one word, without quotes and blanks");
            });
        }
    }
}

fn judge_resource(said: &str, problems: &mut Problems) {
    let is_good = Url::parse(said).is_ok_and(|url| url.fragment().is_none());
    if !is_good {
        let hint = "write an absolute address without `#`, or an empty text for none";
        problems.error("names no resource", hint);
    }
}

#[cfg(test)]
mod tests;

//! One question to a token endpoint (RFC 6749 §4.4, RFC 8693), and its answer. What the endpoint says in words of
//! its own is never shown: it may repeat what it was asked with.

use super::terms::{ACCESS_TOKEN_TYPE, ClientAuth, OauthTerms, SubjectTokenType};
use crate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, Text};
use crate::model::secret::Secret;
use crate::upstream::fetching::{FETCH_TIMEOUT, FetchError, Poster, fetched};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{StatusCode, Uri};
use serde_json::Value;
use std::time::Duration;
use url::form_urlencoded::{Serializer, byte_serialize};

/// Bytes of an answer, and of a token in it.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const TOKEN_BYTES_MAX: usize = 16 << 10;
const ANSWER_JSON_LIMITS: JsonLimits = JsonLimits {
    bytes: ANSWER_BYTES_MAX,
    ..AGENT_JSON_LIMITS
};
/// Statuses whose answer may say why there is no token.
const READ_STATUSES: [StatusCode; 4] = [
    StatusCode::OK,
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
];
/// For how long a token counts of which nothing is said.
const UNSAID_LIFE: Duration = Duration::from_mins(5);
/// The longest that one is believed to.
const LIFE_MAX: Duration = Duration::from_hours(24);
/// What `Authorization` begins with.
pub(super) const BEARER_PREFIX: &str = "Bearer ";
const FORM_TYPE: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");
/// The errors that are told by their names (RFC 6749 §5.2, RFC 8707, RFC 8693, and what is common).
const NAMED_ERRORS: [&str; 11] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
    "access_denied",
    "interaction_required",
    "server_error",
    "temporarily_unavailable",
];

/// What a token is asked for by.
pub(super) enum TokenGrant {
    /// toolgate's own word.
    ClientCredentials,
    /// A caller's token, for one that stands for the caller (RFC 8693).
    Exchange(SubjectTokenType, Secret),
}

const EXCHANGE_GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// A token, as it is sent.
#[derive(Debug, Clone)]
pub(super) struct IssuedToken {
    /// The value of `Authorization`.
    pub(super) value: HeaderValue,
    /// For how long it counts.
    pub(super) lasts: Duration,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    /// No connection, or one that broke.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// Nothing within the time.
    #[error("no answer within {FETCH_TIMEOUT:?}")]
    Late,
    /// A status that says no more; a redirect, too.
    #[error("the status is {0}")]
    Status(u16),
    /// More than a token endpoint says.
    #[error("the answer was cut off, or is longer than {0} bytes")]
    TooLong(usize),
    /// It says why not (RFC 6749 §5.2).
    #[error("the status is {0}, the error `{1}`")]
    Refused(u16, &'static str),
    /// It answers something else than a token.
    #[error("the answer {0}")]
    Unfit(&'static str),
}

impl From<FetchError> for TokenError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Unreachable(why) => Self::Unreachable(why),
            FetchError::Late => Self::Late,
            FetchError::Status(status) => Self::Status(status),
            FetchError::TooLong(most) => Self::TooLong(most),
        }
    }
}

/// Asks for a token, once.
pub(super) async fn fetch(
    poster: &Poster,
    terms: &OauthTerms,
    grant: &TokenGrant,
) -> Result<IssuedToken, TokenError> {
    let unfit = |_| TokenError::Unreachable("it is no address".to_owned());
    let uri: Uri = terms.token_url.parse().map_err(unfit)?;
    let asking = poster(uri, headers(terms), form(terms, grant));
    let (status, answer) = fetched(asking, ANSWER_BYTES_MAX, &READ_STATUSES).await?;
    if status == StatusCode::OK {
        read(answer)
    } else {
        Err(refused(status, answer))
    }
}

fn headers(terms: &OauthTerms) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, FORM_TYPE);
    headers.insert(ACCEPT, JSON_TYPE);
    if terms.auth == ClientAuth::Basic {
        // Each is encoded as in a form before both are put together (RFC 6749 §2.3.1).
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let (name, secret) = (&terms.client_id, terms.client_secret.expose());
        let pair = STANDARD.encode(format!("{}:{}", encoded(name), encoded(secret)));
        if let Ok(mut value) = HeaderValue::from_str(&format!("Basic {pair}")) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
    }
    headers
}

fn form(terms: &OauthTerms, grant: &TokenGrant) -> Bytes {
    let mut form = Serializer::new(String::new());
    match grant {
        TokenGrant::ClientCredentials => form.append_pair("grant_type", "client_credentials"),
        TokenGrant::Exchange(kind, token) => form
            .append_pair("grant_type", EXCHANGE_GRANT)
            .append_pair("subject_token", token.expose())
            .append_pair("subject_token_type", kind.name())
            .append_pair("requested_token_type", ACCESS_TOKEN_TYPE),
    };
    if terms.auth == ClientAuth::Post {
        form.append_pair("client_id", &terms.client_id);
        form.append_pair("client_secret", terms.client_secret.expose());
    }
    if !terms.scopes.is_empty() {
        form.append_pair("scope", &terms.scopes.join(" "));
    }
    for (name, value) in [("resource", &terms.resource), ("audience", &terms.audience)] {
        if let Some(value) = value {
            form.append_pair(name, value);
        }
    }
    Bytes::from(form.finish())
}

/// The error by its name. One that nobody knows may hold what was sent.
fn refused(status: StatusCode, answer: Bytes) -> TokenError {
    let said = Text::read(answer, &ANSWER_JSON_LIMITS).ok();
    let said = said.and_then(|said| said.get("error"));
    let said = said.as_ref().and_then(Text::as_str);
    let named = said.and_then(|said| NAMED_ERRORS.into_iter().find(|name| *name == said));
    named.map_or(TokenError::Status(status.as_u16()), |name| {
        TokenError::Refused(status.as_u16(), name)
    })
}

fn read(answer: Bytes) -> Result<IssuedToken, TokenError> {
    let said = Text::read(answer, &ANSWER_JSON_LIMITS);
    let said = said.map_err(|_| TokenError::Unfit("is no JSON that can be read"))?;
    let kind = said.get("token_type");
    let kind = kind.as_ref().and_then(Text::as_str);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(TokenError::Unfit("is of another `token_type` than Bearer"));
    }
    let token = said.get("access_token");
    let token = token.as_ref().and_then(Text::as_str);
    let token = token.ok_or(TokenError::Unfit("has no `access_token`"))?;
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !is_plain {
        return Err(TokenError::Unfit("has a token that no header can carry"));
    }
    let value = HeaderValue::from_str(&format!("{BEARER_PREFIX}{token}"));
    let mut value = value.map_err(|_| TokenError::Unfit("has a token that no header can carry"))?;
    value.set_sensitive(true);
    let lasts = lasts(said.get("expires_in").map(|said| said.value()).as_ref())?;
    Ok(IssuedToken { value, lasts })
}

/// How long a token counts; some say the number as a text.
fn lasts(said: Option<&Value>) -> Result<Duration, TokenError> {
    let seconds = match said {
        None | Some(Value::Null) => return Ok(UNSAID_LIFE),
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_f64(),
    };
    let seconds = seconds.filter(|seconds: &f64| *seconds > 0.0);
    let seconds = seconds.ok_or(TokenError::Unfit("has a token that is over already"))?;
    let lasts = Duration::try_from_secs_f64(seconds).unwrap_or(LIFE_MAX);
    Ok(lasts.min(LIFE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(auth: ClientAuth) -> OauthTerms {
        OauthTerms {
            token_url: "https://login.example.com/token?tenant=1".to_owned(),
            client_id: "tool gate".to_owned(),
            client_secret: Secret::new("p:ss&w=rd%".to_owned()),
            auth,
            scopes: vec!["mcp:call".to_owned(), "read".to_owned()],
            resource: Some("https://tools.example.com/mcp".to_owned()),
            audience: None,
            exchange: None,
        }
    }

    fn read_text(text: &str) -> Result<IssuedToken, TokenError> {
        read(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// The name and the secret are encoded before they are put together, and stand in one place.
    #[test]
    fn the_proof_stands_where_it_is_configured() {
        let basic = terms(ClientAuth::Basic);
        let said = headers(&basic)[AUTHORIZATION].clone();
        assert!(said.is_sensitive());
        let said = said.to_str().unwrap().strip_prefix("Basic ").unwrap();
        let said = String::from_utf8(STANDARD.decode(said).unwrap()).unwrap();
        assert_eq!(said, "tool+gate:p%3Ass%26w%3Drd%25");
        let asked = form(&basic, &TokenGrant::ClientCredentials);
        let asked = String::from_utf8(asked.to_vec()).unwrap();
        assert_eq!(
            asked,
            "grant_type=client_credentials&scope=mcp%3Acall+read&resource=https%3A%2F%2Ftools.example.com%2Fmcp"
        );
        let post = terms(ClientAuth::Post);
        assert!(!headers(&post).contains_key(AUTHORIZATION));
        let asked = form(&post, &TokenGrant::ClientCredentials);
        let asked = String::from_utf8(asked.to_vec()).unwrap();
        assert!(
            asked.contains("client_id=tool+gate&client_secret=p%3Ass%26w%3Drd%25"),
            "{asked}"
        );
        assert_eq!(post.place(), "https://login.example.com/token");
        let subject = TokenGrant::Exchange(SubjectTokenType::Jwt, Secret::new("a.b.c".to_owned()));
        let asked = String::from_utf8(form(&basic, &subject).to_vec()).unwrap();
        let (of, kind) = ("urn%3Aietf%3Aparams%3Aoauth", "token-type%3A");
        assert!(
            asked.starts_with(&format!(
                "grant_type={of}%3Agrant-type%3Atoken-exchange&subject_token=a.b.c&subject_token_type={of}%3A{kind}jwt&\
                 requested_token_type={of}%3A{kind}access_token&scope="
            )),
            "{asked}"
        );
    }

    #[test]
    fn a_token_is_taken_that_a_header_can_carry() {
        let good = read_text(r#"{"access_token":"a.b-c","token_type":"bEARER","expires_in":60}"#);
        let good = good.unwrap();
        assert_eq!(good.value, "Bearer a.b-c");
        assert!(good.value.is_sensitive());
        assert_eq!(good.lasts, Duration::from_mins(1));
        for (said, lasts) in [
            ("", UNSAID_LIFE),
            (r#","expires_in":null"#, UNSAID_LIFE),
            (r#","expires_in":"90""#, Duration::from_secs(90)),
            (r#","expires_in":9007199254740991"#, LIFE_MAX),
        ] {
            let text = format!(r#"{{"access_token":"a","token_type":"Bearer"{said}}}"#);
            assert_eq!(read_text(&text).unwrap().lasts, lasts, "{said}");
        }
        for (text, why) in [
            ("", "is no JSON that can be read"),
            (
                r#"{"access_token":"a"}"#,
                "is of another `token_type` than Bearer",
            ),
            (
                r#"{"access_token":"a","token_type":"N_A"}"#,
                "is of another `token_type` than Bearer",
            ),
            (r#"{"token_type":"Bearer"}"#, "has no `access_token`"),
            (
                r#"{"access_token":"a\r\nX: b","token_type":"Bearer"}"#,
                "has a token that no header can carry",
            ),
            (
                r#"{"access_token":"a b","token_type":"Bearer"}"#,
                "has a token that no header can carry",
            ),
            (
                r#"{"access_token":"","token_type":"Bearer"}"#,
                "has a token that no header can carry",
            ),
            (
                r#"{"access_token":"a","token_type":"Bearer","expires_in":0}"#,
                "has a token that is over already",
            ),
            (
                r#"{"access_token":"a","token_type":"Bearer","expires_in":-5}"#,
                "has a token that is over already",
            ),
        ] {
            assert_eq!(
                read_text(text).unwrap_err(),
                TokenError::Unfit(why),
                "{text}"
            );
        }
    }

    /// What an endpoint says of its own accord may be the secret it was asked with.
    #[test]
    fn only_names_of_errors_are_told() {
        let told = |text: &str| {
            refused(
                StatusCode::BAD_REQUEST,
                Bytes::copy_from_slice(text.as_bytes()),
            )
        };
        let known = r#"{"error":"invalid_client","error_description":"secret hunter2 is wrong"}"#;
        assert_eq!(told(known), TokenError::Refused(400, "invalid_client"));
        assert!(!told(known).to_string().contains("hunter2"));
        for text in [r#"{"error":"hunter2"}"#, r#"{"error":1}"#, "hunter2", ""] {
            assert_eq!(told(text), TokenError::Status(400), "{text}");
        }
    }
}

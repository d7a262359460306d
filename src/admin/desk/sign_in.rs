//! Operators who have signed in on the pages: a token is shown once, and a cookie stands for it, for
//! eight hours at most. Kept in memory only, and ended when the configuration does not name its token
//! any more, or says another thing of its operator; one of an issuer ends with its time, or once its issuer has
//! withdrawn the key that signed it, or the configuration says another thing of issuers.

use crate::admin::identity::OperatorIdentity;
use crate::admin::issued::IssuedProof;
use crate::model::clock::Clock;
use crate::model::hex::hex;
use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a cookie stands for a token.
const SIGN_IN_DURATION: Duration = Duration::from_hours(8);
/// What the cookie's name begins with.
const COOKIE_NAME: &str = "toolgate_operator";
/// What stands before it over TLS: browsers keep such a cookie to this very host, and send it over TLS only.
const TLS_COOKIE_PREFIX: &str = "__Host-";
/// Sign-ins at once of one operator; the oldest gives way.
const MAX_SIGN_INS_OF_ONE: usize = 32;
/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// All who have signed in, by SHA-256 of what their cookie says.
#[derive(Debug, Default)]
pub(in crate::admin) struct SignIns {
    known: Mutex<HashMap<[u8; 32], KeptSignIn>>,
    clock: Clock,
    /// By which name the pages are reached over TLS, as `Host` has it in small letters.
    tls_host: OnceLock<String>,
    /// The door itself speaks TLS, by whatever name it is reached.
    is_door_tls: AtomicBool,
}

/// The name of the cookie for a browser that asks by one `Host`. Browsers send cookies of a host to every port of it, so
/// that of each port has a name of its own: two toolgates of one machine do not overwrite each other's.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::admin) struct CookieName {
    name: String,
    is_by_tls: bool,
}

/// One of them, for as long as it is kept.
#[derive(Debug)]
struct KeptSignIn {
    one: SignIn,
    /// Whatever takes it away ends what stands open for it.
    _ends: DropGuard,
}

/// The token that an operator has shown to sign in.
#[derive(Debug, Clone)]
pub(in crate::admin) struct ShownToken {
    /// Its digest, where it is one of the configuration.
    digest: Option<[u8; 32]>,
    /// By which key it was signed, where it is one of an issuer.
    proof: Option<IssuedProof>,
    /// For how long a cookie stands for it.
    pub lasts: Duration,
}

/// One who has.
#[derive(Debug, Clone)]
pub(in crate::admin) struct SignIn {
    /// Who.
    pub operator: OperatorIdentity,
    /// The digest of the token that was shown, where it is one of the configuration.
    pub token: Option<[u8; 32]>,
    /// By which key it was signed, where it is one of an issuer.
    pub proof: Option<IssuedProof>,
    /// Each form has to bring it, so that no other page can send one.
    pub form_secret: String,
    /// Until when, on the steady clock.
    pub until: Duration,
    /// Done once the operator has signed out, or another sign-in took its place.
    pub ended: CancellationToken,
}

impl ShownToken {
    /// One of the configuration, by its digest: it counts for as long as it stands there, and for as long as it
    /// `lasts` where it has an end.
    pub(in crate::admin) fn configured(digest: [u8; 32], lasts: Option<Duration>) -> Self {
        Self {
            digest: Some(digest),
            proof: None,
            lasts: lasts.map_or(SIGN_IN_DURATION, |lasts| lasts.min(SIGN_IN_DURATION)),
        }
    }

    /// One of an issuer, which counts for as long as it `lasts`.
    pub(in crate::admin) fn issued(lasts: Duration) -> Self {
        Self {
            digest: None,
            proof: None,
            lasts: lasts.min(SIGN_IN_DURATION),
        }
    }

    /// The same, for no longer than its issuer has the key that signed it.
    pub(in crate::admin) fn signed_by(self, proof: IssuedProof) -> Self {
        let proof = Some(proof);
        Self { proof, ..self }
    }
}

impl CookieName {
    /// The header that sets it to `value`, with `more` of its attributes.
    pub(in crate::admin) fn set_to(&self, value: &str, more: &str) -> String {
        let secure = if self.is_by_tls { "; Secure" } else { "" };
        let name = &self.name;
        format!("{name}={value}{more}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }
}

impl SignIns {
    /// Says where the pages are reached from elsewhere.
    pub(in crate::admin) fn are_reached_at(&self, public_url: Option<&str>) {
        if let Some(host) = public_url.and_then(|url| url.strip_prefix("https://")) {
            let _ = self.tls_host.set(host.to_ascii_lowercase());
        }
    }

    /// Says that the door itself speaks TLS.
    pub(in crate::admin) fn are_behind_tls(&self) {
        self.is_door_tls.store(true, Ordering::Relaxed);
    }

    /// The cookie's name, by the `Host` of a request.
    pub(in crate::admin) fn cookie_name(&self, headers: &HeaderMap) -> CookieName {
        let host = headers.get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default().to_ascii_lowercase();
        // What lies between says with `admin.public_url` that it speaks TLS.
        let is_door_tls = self.is_door_tls.load(Ordering::Relaxed);
        let is_by_tls = is_door_tls || self.tls_host.get() == Some(&host);
        let port = host.rsplit_once(':').map(|(_, port)| port);
        let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = port.map(|port| format!("_{port}")).unwrap_or_default();
        let before = if is_by_tls { TLS_COOKIE_PREFIX } else { "" };
        CookieName {
            name: format!("{before}{COOKIE_NAME}{port}"),
            is_by_tls,
        }
    }

    /// Signs `operator` in, for as long as the `token` counts that was shown; the value of the cookie, or none
    /// when the system has no random bytes.
    pub(in crate::admin) fn begin(
        &self,
        operator: OperatorIdentity,
        token: ShownToken,
    ) -> Option<String> {
        let (cookie, form_secret) = (secret()?, secret()?);
        let until = self.clock.steady() + token.lasts;
        let mut known = self.known.lock();
        known.retain(|_, kept| self.is_in_force(&kept.one));
        let theirs = known
            .iter()
            .filter(|(_, kept)| kept.one.operator.name == operator.name);
        if theirs.clone().count() >= MAX_SIGN_INS_OF_ONE {
            let oldest = theirs.min_by_key(|(_, kept)| kept.one.until);
            let oldest = oldest.map(|(key, _)| *key);
            oldest.and_then(|key| known.remove(&key));
        }
        let ended = CancellationToken::new();
        let kept = KeptSignIn {
            _ends: ended.clone().drop_guard(),
            one: SignIn {
                operator,
                token: token.digest,
                proof: token.proof,
                form_secret,
                until,
                ended,
            },
        };
        known.insert(hash(&cookie), kept);
        Some(cookie)
    }

    /// The operator who asks, if a cookie stands for one.
    pub(in crate::admin) fn of(&self, headers: &HeaderMap) -> Option<SignIn> {
        let known = self.known.lock();
        cookies(headers, &self.cookie_name(headers))
            .filter_map(|cookie| known.get(&hash(cookie)))
            .map(|kept| &kept.one)
            .find(|one| self.is_in_force(one))
            .cloned()
    }

    /// Ends those of which `stands` does not hold.
    pub(in crate::admin) fn end_unless(&self, stands: impl Fn(&SignIn) -> bool) {
        let mut known = self.known.lock();
        known.retain(|_, kept| stands(&kept.one));
    }

    fn is_in_force(&self, one: &SignIn) -> bool {
        self.clock.steady() < one.until
    }

    /// Ends the sign-in of who asks.
    pub(in crate::admin) fn end(&self, headers: &HeaderMap) {
        let mut known = self.known.lock();
        for cookie in cookies(headers, &self.cookie_name(headers)) {
            known.remove(&hash(cookie));
        }
    }
}

impl SignIn {
    /// Whether `given` is what the forms of this sign-in bring.
    pub(in crate::admin) fn owns(&self, given: &str) -> bool {
        self.form_secret.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// What cookies of the name say.
fn cookies<'a>(
    headers: &'a HeaderMap,
    CookieName { name, .. }: &'a CookieName,
) -> impl Iterator<Item = &'a str> {
    let sent = headers.get_all(header::COOKIE).into_iter();
    let pairs = sent.filter_map(|value| value.to_str().ok());
    let pairs = pairs.flat_map(|value| value.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

fn secret() -> Option<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

fn hash(cookie: &str) -> [u8; 32] {
    Sha256::digest(cookie.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::clock::hands::TestClock;

    const TOKEN: ShownToken = ShownToken {
        digest: Some([7; 32]),
        proof: None,
        lasts: SIGN_IN_DURATION,
    };

    fn clocked() -> (&'static TestClock, SignIns) {
        let clock = TestClock::new();
        let known = SignIns {
            clock: clock.clock(),
            ..SignIns::default()
        };
        (clock, known)
    }

    fn sent(cookie: &str) -> HeaderMap {
        let value = format!("other=1; {COOKIE_NAME}={cookie}; more=2");
        HeaderMap::from_iter([(header::COOKIE, value.parse().unwrap())])
    }

    fn ann() -> OperatorIdentity {
        OperatorIdentity {
            name: "ann".to_owned(),
            roles: vec!["approver".to_owned()],
            stands_in: Vec::new(),
        }
    }

    /// Issue 20: where the door itself speaks TLS, its cookie is sent over TLS only.
    #[test]
    fn a_door_with_tls_has_secure_cookies() {
        let known = SignIns::default();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost:7778".parse().unwrap());
        let plain = known.cookie_name(&headers).set_to("x", "");
        assert!(!plain.contains("Secure"), "{plain}");
        known.are_behind_tls();
        let secure = known.cookie_name(&headers).set_to("x", "");
        assert!(
            secure.starts_with(TLS_COOKIE_PREFIX) && secure.ends_with("; Secure"),
            "{secure}"
        );
    }

    /// threat-model §3E: two toolgates of one machine have cookies of two names, whichever of a machine's names
    /// is used; where TLS stands before it, no page of another host or without TLS can set it.
    #[test]
    fn each_door_has_a_cookie_of_its_own() {
        let known = SignIns::default();
        known.are_reached_at(Some("https://Gate.example:8443"));
        let set = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            known.cookie_name(&headers).set_to("x", "; Max-Age=9")
        };
        let more = "=x; Max-Age=9; Path=/; HttpOnly; SameSite=Strict";
        for (host, name) in [
            ("127.0.0.1:7778", "toolgate_operator_7778"),
            ("localhost:7779", "toolgate_operator_7779"),
            ("[::1]:7778", "toolgate_operator_7778"),
            ("[::1]", "toolgate_operator"),
            ("gate.example", "toolgate_operator"),
        ] {
            assert_eq!(set(host), format!("{name}{more}"), "{host}");
        }
        assert_eq!(
            set("gate.example:8443"),
            format!("__Host-toolgate_operator_8443{more}; Secure")
        );
        let cookie = known.begin(ann(), TOKEN).unwrap();
        let headers = |host: &str, name: &str| {
            let pairs = format!("toolgate_operator_1=0; {name}={cookie}");
            HeaderMap::from_iter([
                (header::HOST, host.parse().unwrap()),
                (header::COOKIE, pairs.parse().unwrap()),
            ])
        };
        let is_known = |host, name| known.of(&headers(host, name)).is_some();
        assert!(is_known("127.0.0.1:7778", "toolgate_operator_7778"));
        assert!(!is_known("127.0.0.1:7779", "toolgate_operator_7778"));
        assert!(is_known(
            "gate.example:8443",
            "__Host-toolgate_operator_8443"
        ));
        assert!(!is_known("gate.example:8443", "toolgate_operator_8443"));
    }

    /// threat-model §3E: a cookie stands for a token no longer than that counts.
    #[test]
    fn a_cookie_ends_with_its_token() {
        let five = Duration::from_mins(5);
        for token in [
            ShownToken::issued(five),
            ShownToken::configured([3; 32], Some(five)),
        ] {
            let (clock, known) = clocked();
            assert_eq!(token.lasts, five, "the browser's time for it, too");
            let until = clock.clock().steady() + five;
            let cookie = known.begin(ann(), token).unwrap();
            let one = known.of(&sent(&cookie)).unwrap();
            assert_eq!(one.until, until, "streams end then");
            clock.pass(Duration::from_secs(299));
            assert!(known.of(&sent(&cookie)).is_some());
            clock.pass(Duration::from_secs(1));
            assert!(known.of(&sent(&cookie)).is_none());
        }
    }

    /// A token of the configuration that is taken away ends what it opened; one of an issuer never stood there.
    #[test]
    fn a_cookie_ends_when_its_token_is_taken_away() {
        let known = SignIns::default();
        let issued = ShownToken::issued(Duration::from_hours(1));
        let cookies = [
            ShownToken::configured([1; 32], None),
            ShownToken::configured([2; 32], None),
            issued,
        ]
        .map(|token| known.begin(ann(), token).unwrap());
        let first = known.of(&sent(&cookies[0])).unwrap();
        known.end_unless(|one| one.token.is_none_or(|digest| digest == [2; 32]));
        assert!(first.ended.is_cancelled(), "what stands open for it ends");
        let there = cookies.map(|cookie| known.of(&sent(&cookie)).is_some());
        assert_eq!(there, [false, true, true]);
    }

    /// threat-model §3E: a cookie stands for who signed in with it, until they sign out.
    #[test]
    fn a_cookie_stands_for_a_token_for_a_while() {
        let (clock, known) = clocked();
        let cookie = known.begin(ann(), TOKEN).unwrap();
        let one = known.of(&sent(&cookie)).unwrap();
        assert_eq!(one.operator, ann());
        assert!(one.owns(&one.form_secret) && !one.owns(&cookie) && !one.owns(""));
        assert!(known.of(&sent("")).is_none() && known.of(&HeaderMap::new()).is_none());
        assert!(!one.ended.is_cancelled());
        known.end(&sent(&cookie));
        assert!(one.ended.is_cancelled(), "what stands open for it ends");
        assert!(known.of(&sent(&cookie)).is_none(), "signed out");
        let cookie = known.begin(ann(), TOKEN).unwrap();
        clock.pass(SIGN_IN_DURATION);
        assert!(known.of(&sent(&cookie)).is_none(), "its time is over");
    }

    #[test]
    fn the_oldest_sign_in_of_one_gives_way() {
        let (clock, known) = clocked();
        let mut cookies = vec![known.begin(ann(), TOKEN).unwrap()];
        let oldest = known.of(&sent(&cookies[0])).unwrap();
        for _ in 0..MAX_SIGN_INS_OF_ONE {
            clock.pass(Duration::from_secs(1));
            cookies.push(known.begin(ann(), TOKEN).unwrap());
        }
        assert!(known.of(&sent(&cookies[0])).is_none());
        assert!(oldest.ended.is_cancelled());
        assert!(
            cookies[1..]
                .iter()
                .all(|cookie| known.of(&sent(cookie)).is_some())
        );
    }
}

//! Certificates and keys that change while the door is open.

use super::super::{PairReload, TlsDoor};
use super::*;
use crate::model::clock::Clock;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// A certificate until `year`, and its key.
fn pair(year: i32) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(year, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

struct Place(tempfile::TempDir);

impl Place {
    fn with(certificate: &str, key: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.put(certificate, key);
        place
    }

    fn put(&self, certificate: &str, key: &str) {
        for (name, text) in [("cert.pem", certificate), ("key.pem", key)] {
            fs::write(self.0.path().join(name), text).unwrap();
            self.mode(name, 0o600);
        }
    }

    fn mode(&self, name: &str, mode: u32) {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.0.path().join(name), mode).unwrap();
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            cert: self.0.path().join("cert.pem"),
            key: self.0.path().join("key.pem"),
            authorities: None,
            needs_certificate: false,
        }
    }
}

#[test]
fn files_that_do_not_fit_say_which_and_why() {
    let ((certificate, key), (_, other)) = (pair(2100), pair(2100));
    for (certificate, key, member, why) in [
        ("", &*key, "cert", "has no certificate in it"),
        (&*key, &*key, "cert", "has no certificate in it"),
        (&*certificate, "", "key", "has no private key in it"),
        (
            &*certificate,
            &*certificate,
            "key",
            "has no private key in it",
        ),
        (
            &*certificate,
            &*other,
            "key",
            "cannot be used with the certificate",
        ),
    ] {
        let fault = Place::with(certificate, key).files().load().err().unwrap();
        assert_eq!(fault.member, member, "{fault}");
        assert!(fault.message.contains(why), "{fault}");
    }
    let place = Place::with(&certificate, &key);
    let fault = |files: TlsFiles| files.load().err().unwrap();
    let missing = fault(TlsFiles {
        authorities: Some(place.0.path().join("none.pem")),
        ..place.files()
    });
    assert!(
        missing.member == "client_ca" && missing.message.contains("cannot be read"),
        "{missing}"
    );
    let long = "-".repeat(usize::try_from(TLS_FILE_BYTES_MAX).unwrap() + 1);
    assert!(
        fault(Place::with(&long, &key).files())
            .message
            .contains("longer than")
    );
    // A pipe to which nobody writes keeps no start, and no end, waiting.
    let pipe = place.0.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let odd = fault(TlsFiles {
        key: pipe,
        ..place.files()
    });
    assert!(
        odd.member == "key" && odd.message.contains("it is no regular file"),
        "{odd}"
    );
}

/// What goes wrong at one door is told of that door, and silences no other.
#[test]
fn each_door_tells_of_its_own_handshakes() {
    let (certificate, key) = pair(2100);
    let place = Place::with(&certificate, &key);
    let [agents, operators] =
        ["agents", "operators"].map(|whose| TlsDoor::open(whose, place.files()).unwrap());
    agents.failed("it has no certificate");
    let now = Clock.steady();
    assert_eq!(agents.failed_handshakes.count(now), None);
    assert_eq!(operators.failed_handshakes.count(now), Some(1));
    agents.plain_http.count(now);
    assert_eq!(operators.plain_http.count(now), Some(1));
}

/// Issue 20 "a broken new pair leaves the old in force": so does one whose time is over.
#[test]
fn only_a_pair_that_can_be_used_takes_the_place_of_another() {
    let (certificate, key) = pair(2100);
    let place = Place::with(&certificate, &key);
    let door = TlsDoor::open("agents", place.files()).unwrap();
    let until = door.validity().until;
    assert_eq!(door.reload(), PairReload::Unchanged);
    let (next, next_key) = pair(2101);
    place.put(&next, &key);
    assert_eq!(
        door.reload(),
        PairReload::Kept,
        "the key comes a moment later"
    );
    assert_eq!(door.validity().until, until);
    place.put(&next, &next_key);
    assert_eq!(door.reload(), PairReload::Swapped);
    assert!(door.validity().until > until);
    let (over, over_key) = pair(2021);
    place.put(&over, &over_key);
    assert_eq!(door.reload(), PairReload::Kept, "it has expired");
    fs::remove_file(place.0.path().join("cert.pem")).unwrap();
    assert_eq!(door.reload(), PairReload::Kept);
    place.put(&next, &next_key);
    assert_eq!(door.reload(), PairReload::Unchanged, "as before");
}

/// threat-model §10: an account that may write the authorities vouches for any agent, so what other accounts may
/// write is not taken while the door is open, whichever of the files it is.
#[test]
fn files_that_others_may_write_take_no_place() {
    let (certificate, key) = pair(2100);
    let place = Place::with(&certificate, &key);
    place.mode("", 0o700);
    fs::copy(
        place.0.path().join("cert.pem"),
        place.0.path().join("ca.pem"),
    )
    .unwrap();
    place.mode("ca.pem", 0o600);
    let files = TlsFiles {
        authorities: Some(place.0.path().join("ca.pem")),
        ..place.files()
    };
    let door = TlsDoor::open("agents", files).unwrap();
    for (name, member) in [
        ("cert.pem", "tls.cert"),
        ("key.pem", "tls.key"),
        ("ca.pem", "tls.client_ca"),
        ("", "tls.cert"),
    ] {
        let (next, next_key) = pair(2100);
        place.put(&next, &next_key);
        let before = door.validity();
        place.mode(name, if name.is_empty() { 0o777 } else { 0o666 });
        assert_eq!(door.reload(), PairReload::Kept, "{name}");
        assert_eq!(door.validity(), before);
        let said = door.refused.lock().clone().unwrap();
        assert!(
            said.contains(member) && said.contains("chmod go-w"),
            "{said}"
        );
        place.mode(name, if name.is_empty() { 0o700 } else { 0o600 });
        assert_eq!(door.reload(), PairReload::Swapped, "{name}, mended");
    }
}

/// A session that is taken up again has no certificate to be judged anew.
#[test]
fn sessions_are_not_taken_up_where_certificates_are_asked_for() {
    let (certificate, key) = pair(2100);
    let place = Place::with(&certificate, &key);
    let plain = place.files().load().unwrap();
    assert!(plain.config.session_storage.can_cache());
    assert_eq!(plain.config.alpn_protocols, [b"http/1.1"]);
    let asking = TlsFiles {
        authorities: Some(place.0.path().join("cert.pem")),
        ..place.files()
    };
    let asking = asking.load().unwrap().config;
    assert!(!asking.session_storage.can_cache());
    assert_eq!(asking.send_tls13_tickets, 0);
}

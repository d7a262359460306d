//! What is read of certificates: their names and their time.

use super::*;
use rcgen::{CertificateParams, KeyPair, SanType, date_time_ymd};

fn certificate(params: &CertificateParams) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().clone()
}

/// Both ways in which certificates write years.
#[test]
fn a_certificate_says_when_it_holds() {
    let mut params = CertificateParams::default();
    for (from, until) in [
        ((1999, 12, 31), (2049, 12, 31)),
        ((2020, 2, 29), (2120, 1, 1)),
    ] {
        let moment = |(year, month, day): (i32, u8, u8)| {
            let text = format!("{year:04}-{month:02}-{day:02}T00:00:00Z");
            (
                date_time_ymd(year, month, day),
                text.parse::<Timestamp>().unwrap(),
            )
        };
        let ((not_before, from), (not_after, until)) = (moment(from), moment(until));
        (params.not_before, params.not_after) = (not_before, not_after);
        let validity = Validity::of(&certificate(&params)).unwrap();
        assert_eq!(validity, Validity { from, until });
        assert!(validity.holds(until) && validity.holds(from));
        assert_eq!(validity.left(until), 0);
    }
}

#[test]
fn an_expiry_is_told_two_weeks_before_it_comes() {
    let moment = |text: &str| text.parse::<Timestamp>().unwrap();
    let validity = Validity {
        from: moment("2026-01-01T00:00:00Z"),
        until: moment("2026-02-01T00:00:00Z"),
    };
    for (now, told) in [
        ("2025-12-31T23:59:59Z", Some("holds from")),
        ("2026-01-18T00:00:00Z", None),
        ("2026-01-18T00:00:01Z", Some("expires soon")),
        ("2026-02-01T00:00:01Z", Some("has expired")),
    ] {
        let notice = validity.notice(moment(now));
        let is_told = notice.as_deref().zip(told);
        assert!(
            is_told.map_or(notice.is_none() && told.is_none(), |(notice, told)| notice
                .contains(told)),
            "{now}: {notice:?}"
        );
    }
}

#[test]
fn uris_are_read_and_other_names_are_not() {
    let mut params = CertificateParams::new(vec!["agent.example.org".to_owned()]).unwrap();
    assert_eq!(uris(&certificate(&params)), [""; 0]);
    let named = [
        "spiffe://example.org/ns/a/sa/b",
        "https://example.org/agent",
    ];
    let each = named.map(|uri| SanType::URI(uri.try_into().unwrap()));
    params.subject_alt_names.extend(each);
    assert_eq!(uris(&certificate(&params)), named);
    assert_eq!(
        uris(&CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])),
        [""; 0]
    );
}

/// No text makes the reader of times panic: the authors of certificates are strangers.
#[test]
fn broken_certificates_say_nothing() {
    let whole = certificate(&CertificateParams::default());
    for cut in 0..whole.len() {
        let _ = Validity::of(&CertificateDer::from(whole[..cut].to_vec()));
        let mut odd = whole.to_vec();
        odd[cut] ^= 0x80;
        let _ = Validity::of(&CertificateDer::from(odd));
    }
    assert_eq!(
        Validity::of(&CertificateDer::from(whole[..40].to_vec())),
        None
    );
    for endless in [
        vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        vec![0x30, 0x80],
        vec![0x30],
    ] {
        assert_eq!(Validity::of(&CertificateDer::from(endless)), None);
    }
}

//! What is read of a certificate: from when to when it holds, and the URIs that it names. Who
//! vouches for it is judged by the library.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version of a certificate, which one of version 1 has not.
const EXPLICIT_VERSION: u8 = 0xa0;
/// Years of two digits from this on are of the last century (RFC 5280 §4.1.2.5.1).
const FIRST_SHORT_YEAR: i16 = 50;

/// From when to when a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    /// The first moment.
    pub(crate) from: Timestamp,
    /// The last moment.
    pub(crate) until: Timestamp,
}

impl Validity {
    /// Of a certificate; none if it says it in no way that can be read.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let mut outer = Der(certificate.as_ref());
        let mut inner = Der(Der(outer.next(SEQUENCE)?).next(SEQUENCE)?);
        if inner.0.first() == Some(&EXPLICIT_VERSION) {
            inner.any()?;
        }
        // Serial number, algorithm, issuer.
        for _ in 0..3 {
            inner.any()?;
        }
        let mut times = Der(inner.next(SEQUENCE)?);
        Some(Self {
            from: times.time()?,
            until: times.time()?,
        })
    }

    /// When all of them hold.
    pub(super) fn of_all(certificates: &[CertificateDer<'_>]) -> Option<Self> {
        let all: Option<Vec<Self>> = certificates.iter().map(Self::of).collect();
        all?.into_iter().reduce(|one, other| Self {
            from: one.from.max(other.from),
            until: one.until.min(other.until),
        })
    }

    /// Whether `now` is within.
    pub(super) fn holds(self, now: Timestamp) -> bool {
        self.from <= now && now <= self.until
    }

    /// Seconds from `now` until it is over; less than 0 afterwards.
    pub(crate) fn left(self, now: Timestamp) -> i64 {
        self.until.as_second() - now.as_second()
    }
}

/// The URIs that a certificate names as its subject's other names. None where it cannot be read.
pub(in crate::downstream) fn uris(certificate: &CertificateDer<'_>) -> Vec<String> {
    let read = EndEntityCert::try_from(certificate);
    read.map_or_else(
        |_| Vec::new(),
        |read| read.valid_uri_names().map(str::to_owned).collect(),
    )
}

/// The rest of a DER text.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value, and its tag.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (length, rest) = if length & 0x80 == 0 {
            (usize::from(*length), rest)
        } else {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            // What is longer than 4 GiB is no certificate.
            let bytes = (1..=4).contains(&bytes.len()).then_some(bytes)?;
            let length = bytes
                .iter()
                .fold(0, |length, byte| (length << 8) | usize::from(*byte));
            (length, rest)
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, value))
    }

    /// The next value, which has this tag.
    fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, value) = self.any()?;
        (found == tag).then_some(value)
    }

    /// The next value, which is a time in UTC, to the second.
    fn time(&mut self) -> Option<Timestamp> {
        let (tag, value) = self.any()?;
        let digits = std::str::from_utf8(value).ok()?.strip_suffix('Z')?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let (year, rest) = match (tag, digits.len()) {
            (UTC_TIME, 12) if is_plain => {
                let short: i16 = digits[..2].parse().ok()?;
                let century = if short < FIRST_SHORT_YEAR { 2000 } else { 1900 };
                (century + short, &digits[2..])
            }
            (GENERALIZED_TIME, 14) if is_plain => (digits[..4].parse().ok()?, &digits[4..]),
            _ => return None,
        };
        let two = |at: usize| rest[at..at + 2].parse::<i8>().ok();
        let time = DateTime::new(year, two(0)?, two(2)?, two(4)?, two(6)?, two(8)?, 0).ok()?;
        let zoned = time.to_zoned(TimeZone::UTC).ok()?;
        Some(zoned.timestamp())
    }
}

#[cfg(test)]
mod tests;

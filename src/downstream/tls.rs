//! TLS at a door: which certificate it shows, whom it asks for one, and how a connection becomes
//! one. The pair in force is whole; one that cannot be used, or that other accounts may write, never
//! takes its place.

pub(crate) mod certificate;
pub(crate) mod files;
mod first_byte;
pub(super) mod records;

use super::guest_stream::{GuestStream, TLS_BUFFER_BYTES_MAX};
use crate::model::clock::Clock;
use crate::telemetry::paced_log::PacedLog;
use arc_swap::ArcSwap;
use certificate::Validity;
use files::{LoadedPair, TlsFault, TlsFiles};
use first_byte::FirstByte;
use jiff::Timestamp;
use parking_lot::Mutex;
use records::Records;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// How long a handshake may take. Those who are in one are strangers, and share the strangers'
/// places: when these are full, the oldest gives way.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long before its end a certificate is warned of.
pub(crate) const EXPIRY_NOTICE: Duration = Duration::from_hours(14 * 24);

/// TLS at one door.
pub(crate) struct TlsDoor {
    /// Whose door it is: `agents` or `operators`.
    whose: &'static str,
    files: TlsFiles,
    in_force: ArcSwap<LoadedPair>,
    /// Why the files as they are now cannot be used.
    refused: Mutex<Option<String>>,
    failed_handshakes: PacedLog,
    plain_http: PacedLog,
}

/// What became of a look at the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairReload {
    /// What they say is in force since now.
    Swapped,
    /// They say what is in force.
    Unchanged,
    /// They cannot be used; the pair before stays in force.
    Kept,
}

impl TlsDoor {
    /// Shows what `files` hold at the door of `whose`.
    ///
    /// # Errors
    /// They cannot be used.
    pub(crate) fn open(whose: &'static str, files: TlsFiles) -> Result<Arc<Self>, TlsFault> {
        let pair = files.load()?;
        let door = Self {
            whose,
            files,
            in_force: ArcSwap::from_pointee(pair),
            refused: Mutex::default(),
            failed_handshakes: PacedLog::new(),
            plain_http: PacedLog::new(),
        };
        door.warn_of_expiry();
        Ok(Arc::new(door))
    }

    /// Whose door it is.
    pub(crate) fn whose(&self) -> &'static str {
        self.whose
    }

    /// When the certificate in force holds, with those that vouch for it.
    pub(crate) fn validity(&self) -> Validity {
        self.in_force.load().validity
    }

    /// Reads the files again, and puts what they hold in force for the connections to come, if it
    /// can be used. Reads from disk: not for an async task.
    pub(crate) fn reload(&self) -> PairReload {
        let now = Clock.wall();
        let before = self.in_force.load_full();
        let read = self.files.judge_owners();
        let read = read.and_then(|()| self.files.load()).and_then(|pair| {
            let is_worse = before.validity.holds(now) && !pair.validity.holds(now);
            if is_worse {
                Err(TlsFault::out_of_time(pair.validity))
            } else {
                Ok(pair)
            }
        });
        let mut refused = self.refused.lock();
        let pair = match read {
            Ok(pair) => pair,
            Err(fault) => {
                let words = fault.to_string();
                if refused.as_ref() != Some(&words) {
                    tracing::error!(
                        door = self.whose,
                        "the changed files of `tls` cannot be used, and the certificate before stays in force: {words}"
                    );
                }
                *refused = Some(words);
                return PairReload::Kept;
            }
        };
        let was_refused = refused.take().is_some();
        drop(refused);
        if pair.fingerprint == before.fingerprint {
            if was_refused {
                tracing::info!(door = self.whose, "the files of `tls` say what is in force");
            }
            return PairReload::Unchanged;
        }
        self.in_force.store(Arc::new(pair));
        tracing::info!(
            door = self.whose,
            until = %self.validity().until,
            "the files of `tls` have changed; new connections are shown the new certificate"
        );
        self.warn_of_expiry();
        PairReload::Swapped
    }

    /// Says if the certificate in force ends soon, or has.
    pub(crate) fn warn_of_expiry(&self) {
        if let Some(words) = self.validity().notice(Clock.wall()) {
            tracing::warn!(door = self.whose, "{words}");
        }
    }

    /// The connection with TLS; none where it ends here: peers that do not get through hear why as
    /// far as the protocol says it.
    pub(super) async fn enter(&self, stream: TcpStream) -> Option<GuestStream> {
        let entered = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.handshake(stream)).await;
        entered.unwrap_or_else(|_| {
            self.failed("it took too long");
            None
        })
    }

    async fn handshake(&self, stream: TcpStream) -> Option<GuestStream> {
        match first_byte::look(&stream).await {
            FirstByte::Tls => {}
            FirstByte::Http => {
                if let Some(times) = self.plain_http.count(Clock.steady()) {
                    tracing::warn!(
                        door = self.whose,
                        times,
                        "plain HTTP came to a door that speaks TLS, and was answered 400; use https:// in its address"
                    );
                }
                first_byte::refuse(stream).await;
                return None;
            }
            FirstByte::Gone => return None,
        }
        let acceptor = TlsAcceptor::from(self.in_force.load().config.clone());
        match acceptor.accept(Records::of(stream)).await {
            Ok(mut stream) => {
                let session = stream.get_mut().1;
                session.set_buffer_limit(Some(TLS_BUFFER_BYTES_MAX));
                Some(GuestStream::Tls(Box::new(stream)))
            }
            Err(error) => {
                self.failed(&error.to_string());
                None
            }
        }
    }

    fn failed(&self, why: &str) {
        if let Some(times) = self.failed_handshakes.count(Clock.steady()) {
            tracing::warn!(
                door = self.whose,
                times,
                why,
                "a TLS handshake failed; nothing was read"
            );
        }
    }
}

impl Validity {
    /// What to say of a certificate that ends soon, or does not hold.
    pub(crate) fn notice(self, now: Timestamp) -> Option<String> {
        let (left, notice) = (self.left(now), EXPIRY_NOTICE.as_secs());
        if now < self.from {
            Some(format!("the certificate holds from {} on only", self.from))
        } else if left < 0 {
            Some(format!("the certificate has expired at {}", self.until))
        } else if u64::try_from(left).is_ok_and(|left| left < notice) {
            Some(format!("the certificate expires soon, at {}", self.until))
        } else {
            None
        }
    }
}

//! The two doors: opened before anything is served, and followed while it is.

use crate::admin::operators::Operators;
use crate::config::{Config, Entrance};
use crate::downstream::listening::DoorListener;
use crate::downstream::tls::TlsDoor;
use crate::model::clock::Clock;
use crate::model::listen::ListenAddress;
use crate::telemetry::metrics::Metrics;
use anyhow::Context as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// How often it is looked at whether a certificate ends soon, and whether tokens have ended.
const END_CHECK_INTERVAL: Duration = Duration::from_hours(1);
/// How often it is looked at whether an issuer has withdrawn the key by which an operator has signed in.
const SIGN_IN_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// One look in so many warns of a certificate.
const LOOKS_PER_WARNING: u32 = 24;

/// Both doors, open, and not served yet.
pub(crate) struct OpenDoors {
    /// Where agents come in.
    pub(crate) agents: DoorListener,
    /// Where operators come in.
    pub(crate) operators: DoorListener,
}

impl OpenDoors {
    /// Opens them where `config` says.
    ///
    /// # Errors
    /// One cannot be listened at, or the files of its `tls` cannot be used.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        let open = |listen, entrance: &Entrance, whose| {
            let door = bind(listen, entrance, whose)?;
            let tls = entrance.tls.clone();
            let tls = tls.map(|files| TlsDoor::open(whose, files)).transpose()?;
            anyhow::Ok(door.with_tls(tls))
        };
        Ok(Self {
            agents: open(config.listen, &config.entrance, "agents")?,
            operators: open(config.admin.listen, &config.admin.entrance, "operators")?,
        })
    }

    /// The doors at which TLS is spoken.
    pub(super) fn tls(&self) -> Vec<Arc<TlsDoor>> {
        let both = [&self.agents, &self.operators];
        both.into_iter()
            .filter_map(|door| door.tls().cloned())
            .collect()
    }

    /// Where they are, as people read it: a line each.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn announced(&self) -> anyhow::Result<String> {
        let url = |door: &DoorListener, path: &str| {
            let is_tls = door.tls().is_some();
            anyhow::Ok(door.address()?.url(is_tls, path))
        };
        let (agents, operators) = (url(&self.agents, "/mcp")?, url(&self.operators, "")?);
        Ok(format!("agents:    {agents}\noperators: {operators}\n"))
    }
}

/// The listener at `listen`, entered as `entrance` says.
pub(crate) fn bind(
    listen: ListenAddress,
    entrance: &Entrance,
    whose: &str,
) -> anyhow::Result<DoorListener> {
    let door = DoorListener::bind(listen, &entrance.socket);
    door.with_context(|| match listen {
        ListenAddress::Tcp(address) => format!(
            "{address} cannot be listened on for {whose}; is another toolgate running? change `listen` or stop it"
        ),
        ListenAddress::Unix(socket) => {
            let directory = socket.directory();
            let missing = if directory.is_dir() {
                String::new()
            } else {
                format!(" (there is no directory {})", directory.display())
            };
            format!("{listen} cannot be listened on for {whose}{missing}; change `listen`, or stop what has it")
        }
    })
}

/// What is followed while toolgate runs, and changes nothing for connections that are open.
pub(super) struct FollowedDoors {
    pub(super) tls: Vec<Arc<TlsDoor>>,
    pub(super) operators: Operators,
    /// How often the files of the configuration were read again.
    pub(super) readings: watch::Receiver<u64>,
}

impl FollowedDoors {
    /// Reads the files of `tls` anew, once and whenever the files of the configuration are read, and
    /// looks now and then at what ends by itself.
    pub(super) async fn follow(mut self) {
        // The ledger may have taken minutes to open since the doors were.
        self.reload().await;
        let (mut ticks, mut looks) = (interval(END_CHECK_INTERVAL), 0_u32);
        let mut checks = interval(SIGN_IN_CHECK_INTERVAL);
        for ticks in [&mut ticks, &mut checks] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                read = self.readings.changed() => {
                    if read.is_err() {
                        return;
                    }
                    self.reload().await;
                }
                _ = ticks.tick() => {
                    if looks % LOOKS_PER_WARNING == LOOKS_PER_WARNING - 1 {
                        self.tls.iter().for_each(|door| door.warn_of_expiry());
                    }
                    looks = looks.wrapping_add(1);
                }
                _ = checks.tick() => {}
            }
            self.operators.end_stale_sign_ins();
        }
    }

    async fn reload(&self) {
        let doors = self.tls.clone();
        let reloaded = tokio::task::spawn_blocking(move || {
            for door in doors {
                door.reload();
            }
        });
        if reloaded.await.is_err() {
            tracing::error!(
                "reading the files of `tls` panicked; the certificates before stay in force"
            );
        }
    }
}

/// Shows how long the certificates of `tls` hold.
pub(super) fn show_certificates(tls: &[Arc<TlsDoor>], metrics: &Metrics) {
    let now = Clock.wall();
    for door in tls {
        metrics.certificate(door.whose(), door.validity().left(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::downstream::tls::files::TlsFiles;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::fs;
    use std::path::Path;

    fn put(directory: &Path, year: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(directory.join("cert.pem"), certificate.pem()).unwrap();
        fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    }

    /// A certificate that is renewed while a toolgate starts is shown, though no file is read after that.
    #[tokio::test]
    async fn what_changes_before_doors_are_followed_is_read() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), 2100);
        let files = TlsFiles {
            cert: directory.path().join("cert.pem"),
            key: directory.path().join("key.pem"),
            authorities: None,
            needs_certificate: false,
        };
        let door = TlsDoor::open("agents", files).unwrap();
        let before = door.validity().until;
        put(directory.path(), 2101);
        let (files_end, readings) = watch::channel(0);
        drop(files_end);
        let followed = FollowedDoors {
            tls: vec![door.clone()],
            operators: Operators::default(),
            readings,
        };
        followed.follow().await;
        assert!(door.validity().until > before);
    }
}

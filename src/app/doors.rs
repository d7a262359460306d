//! The two doors: opened before anything is served, and followed while it is.

use crate::admin::operators::Operators;
use crate::config::{Config, Entrance};
use crate::downstream::listening::DoorListener;
use crate::downstream::tls::TlsDoor;
use crate::model::clock::Clock;
use crate::model::listen::ListenAddress;
use crate::policy::live::LivePolicy;
use crate::telemetry::metrics::Metrics;
use anyhow::Context as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How often it is looked at whether a certificate ends soon, and whether tokens have ended.
const END_CHECK_INTERVAL: Duration = Duration::from_hours(1);
/// One look in so many warns of a certificate.
const LOOKS_PER_WARNING: u32 = 24;

/// Both doors, at which nobody is served yet.
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
            let address = door.address()?;
            anyhow::Ok(match (address, door.tls()) {
                (ListenAddress::Unix(_), _) => address.to_string(),
                (ListenAddress::Tcp(_), Some(_)) => format!("https://{address}{path}"),
                (ListenAddress::Tcp(_), None) => format!("http://{address}{path}"),
            })
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
    pub(super) policy: Arc<LivePolicy>,
}

impl FollowedDoors {
    /// Reads the files of `tls` anew whenever the files of the configuration are read, and looks now
    /// and then at what ends by itself.
    pub(super) async fn follow(self) {
        let mut readings = self.policy.readings();
        let (mut ticks, mut looks) = (interval(END_CHECK_INTERVAL), 0_u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                read = readings.changed() => {
                    if read.is_err() {
                        return;
                    }
                    let doors = self.tls.clone();
                    let reloaded = tokio::task::spawn_blocking(move || {
                        for door in doors {
                            door.reload();
                        }
                    });
                    if reloaded.await.is_err() {
                        tracing::error!("reading the files of `tls` panicked; the certificates before stay in force");
                    }
                }
                _ = ticks.tick() => {
                    if looks % LOOKS_PER_WARNING == LOOKS_PER_WARNING - 1 {
                        self.tls.iter().for_each(|door| door.warn_of_expiry());
                    }
                    looks = looks.wrapping_add(1);
                }
            }
            self.operators.end_stale_sign_ins();
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

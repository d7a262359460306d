//! How the doors are entered: with TLS, or by a socket that only some accounts may use.

use super::settings::ConfigSettings;
use super::written_entrance::{ClientCertificates, PeerSettings, SocketSettings, TlsSettings};
use super::{Config, Entrance, doors, exposed};
use crate::downstream::listening::SocketAccess;
use crate::downstream::tls::files::{TlsFault, TlsFiles};
use crate::model::clock::Clock;
use crate::model::diagnostic::{Diagnostic, Problem, Problems};
use crate::model::listen::ListenAddress;
use crate::policy::locate::YamlDocument;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The mode of a socket's file, if nothing is said: toolgate's own account.
const DEFAULT_SOCKET_MODE: u32 = 0o600;
/// The bits of a mode that say who may come in.
const MODE_BITS: u32 = 0o777;
/// The bit that lets every account read.
const OTHERS_READ_BIT: u32 = 0o004;

/// How a door is entered, as it is written.
pub(super) struct WrittenEntrance {
    /// Where it is, if that can be read.
    pub(super) listen: Option<ListenAddress>,
    /// TLS, where it is to speak it: at an address of TCP only.
    pub(super) tls: Option<TlsSettings>,
    /// Who may use it, where that is said: of a socket only.
    pub(super) unix: Option<SocketSettings>,
    /// Whether certificates can say who comes in.
    pub(super) is_for_agents: bool,
}

/// Where agents are served, and how that door is entered. `is_open`: no caller is configured, so every agent
/// is let in.
pub(super) fn of_agents(
    settings: &mut ConfigSettings,
    is_open: bool,
    directory: &Path,
    problems: &mut Problems,
) -> (Option<ListenAddress>, Entrance) {
    let (tls, unix) = (settings.tls.take(), settings.unix.take());
    let is_exempt = settings.unencrypted || tls.is_some();
    let listen = problems.under("listen", |problems| {
        let listen = doors::address(&settings.listen, directory, problems)?;
        doors::judge_reach(listen, is_exempt, "", problems);
        doors::judge_agents(listen, is_open, settings.mode, problems);
        Some(listen)
    });
    let written = WrittenEntrance {
        listen,
        tls,
        unix,
        is_for_agents: true,
    };
    let entrance = written.compile(directory, problems);
    let certified = settings.callers.iter().enumerate();
    let certified = certified.filter(|(_, caller)| caller.certificate.is_some());
    let certified: Vec<usize> = certified.map(|(index, _)| index).collect();
    judge_callers(&entrance, &certified, problems);
    (listen, entrance)
}

impl WrittenEntrance {
    /// The same, judged; paths start at `directory`.
    pub(super) fn compile(self, directory: &Path, problems: &mut Problems) -> Entrance {
        let Self {
            listen,
            tls,
            unix,
            is_for_agents,
        } = self;
        let is_socket = matches!(listen, Some(ListenAddress::Unix(_)));
        if let Some(ListenAddress::Unix(socket)) = &listen {
            problems.under("listen", |problems| {
                exposed::socket(&socket.directory(), problems);
            });
        }
        if is_socket && tls.is_some() {
            problems.under("tls", |problems| {
                let hint = "take `tls` away: what is said on a socket does not leave this machine";
                problems.error("a Unix socket speaks no TLS", hint);
            });
        }
        if listen.is_some() && !is_socket && unix.is_some() {
            problems.under("unix", |problems| {
                let hint = "write `listen: unix:/run/toolgate/agents.sock`, or take `unix` away";
                problems.error("this door is no Unix socket", hint);
            });
        }
        Entrance {
            tls: tls.and_then(|tls| {
                problems.under("tls", |problems| {
                    tls.compile(directory, is_for_agents, problems)
                })
            }),
            socket: problems.under("unix", |problems| {
                unix.unwrap_or_default().compile(problems)
            }),
        }
    }
}

impl TlsSettings {
    fn compile(
        self,
        directory: &Path,
        is_for_agents: bool,
        problems: &mut Problems,
    ) -> Option<TlsFiles> {
        let Self {
            cert,
            key,
            client_ca,
            client_certificates,
        } = self;
        let named = [
            ("cert", Some(&cert)),
            ("key", Some(&key)),
            ("client_ca", client_ca.as_ref()),
        ];
        let mut is_blank = false;
        for (member, path) in named {
            if path.is_some_and(|path| path.trim().is_empty()) {
                is_blank = true;
                problems.under(member, |problems| {
                    problems.error("is blank", "name a file");
                });
            }
        }
        if !is_for_agents && (client_ca.is_some() || client_certificates.is_some()) {
            let member = if client_ca.is_some() {
                "client_ca"
            } else {
                "client_certificates"
            };
            problems.under(member, |problems| {
                let hint = "take it away; `admin.tokens` says who operators are";
                problems.error(
                    "operators are known by tokens, and not by certificates",
                    hint,
                );
            });
        } else if client_certificates.is_some() && client_ca.is_none() {
            problems.under("client_certificates", |problems| {
                let hint = "name the authorities in `client_ca`";
                problems.error("no authority says which certificates are good", hint);
            });
        }
        (!is_blank).then(|| TlsFiles {
            cert: directory.join(cert),
            key: directory.join(key),
            authorities: client_ca.map(|path| directory.join(path)),
            needs_certificate: client_certificates == Some(ClientCertificates::Required),
        })
    }
}

impl SocketSettings {
    fn compile(self, problems: &mut Problems) -> SocketAccess {
        let Self { mode, peers } = self;
        let named = |peers: &PeerSettings| !peers.uids.is_empty() || !peers.gids.is_empty();
        if peers.as_ref().is_some_and(|peers| !named(peers)) {
            problems.under("peers", |problems| {
                let hint = "name `uids` or `gids`, or take `peers` away: then all come in whom `mode` lets";
                problems.error("names nobody", hint);
            });
        }
        let PeerSettings { uids, gids } = peers.unwrap_or_default();
        let mode = mode.map_or(Some(DEFAULT_SOCKET_MODE), |written| {
            let mode = u32::from_str_radix(&written, 8).ok();
            mode.filter(|mode| *mode <= MODE_BITS && *mode != 0)
        });
        if mode.is_none() {
            problems.under("mode", |problems| {
                let hint = "write three or four digits from 0 to 7 in quotes, such as \"0660\"";
                problems.error("is no mode of a file", hint);
            });
        }
        SocketAccess {
            mode: mode.unwrap_or(DEFAULT_SOCKET_MODE),
            uids,
            gids,
        }
    }
}

/// What is wrong with the files of `tls` of both doors, or will be soon.
pub(super) fn files(config: &Config, document: &YamlDocument) -> Vec<Diagnostic> {
    let doors = [
        (&config.entrance, &["tls"][..]),
        (&config.admin.entrance, &["admin", "tls"][..]),
    ];
    let mut found = Vec::new();
    for (entrance, path) in doors {
        let Some(tls) = &entrance.tls else { continue };
        let mut problems = Problems::default();
        judge(tls, &mut problems);
        let judged = problems.into_found().into_iter();
        found.extend(judged.map(|problem| {
            let steps = path.iter().map(|step| (*step).to_owned());
            let path = steps.chain(problem.path).collect();
            document.locate(Problem { path, ..problem })
        }));
    }
    found
}

fn judge(tls: &TlsFiles, problems: &mut Problems) {
    for (member, path) in tls.named() {
        problems.under(member, |problems| exposed::secret(path, problems));
    }
    let mode = std::fs::metadata(&tls.key).map(|found| found.permissions().mode());
    if mode.is_ok_and(|mode| mode & OTHERS_READ_BIT != 0) {
        problems.under("key", |problems| {
            let hint = format!("run `chmod o-r {}`", tls.key.display());
            problems.warning("every account of this machine may read this key", hint);
        });
    }
    match tls.load() {
        Err(TlsFault {
            member,
            message,
            hint,
        }) => problems.under(member, |problems| problems.error(message, hint)),
        Ok(pair) => {
            if let Some(words) = pair.validity.notice(Clock.wall()) {
                problems.under("cert", |problems| {
                    problems.warning(words, "put the next one in its place");
                });
            }
        }
    }
}

/// An error for each caller that is known by a certificate, where the door asks for none.
fn judge_callers(entrance: &Entrance, known: &[usize], problems: &mut Problems) {
    let tls = entrance.tls.as_ref();
    if tls.is_some_and(|tls| tls.authorities.is_some()) {
        return;
    }
    for index in known {
        problems.under("callers", |problems| {
            problems.under(index.to_string(), |problems| {
                problems.under("certificate", |problems| {
                    let hint = "name the authorities that vouch for agents in `tls.client_ca`";
                    problems.error("this door asks agents for no certificate", hint);
                });
            });
        });
    }
}

impl Default for Entrance {
    fn default() -> Self {
        Self {
            socket: SocketAccess {
                mode: DEFAULT_SOCKET_MODE,
                uids: Vec::new(),
                gids: Vec::new(),
            },
            tls: None,
        }
    }
}

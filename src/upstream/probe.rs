//! Finds out which eras a server speaks (protocol §4.1): `server/discover` first, then
//! `initialize`. An outage is never remembered as a verdict.

use super::UnsolicitedReceiver;
use super::child::{self, ChildProcess};
use super::credentials::classes::CredentialName;
use super::http::may_be_old;
use super::link::Link;
use super::server_eras::ServerEras;
use super::server_settings::{
    EraChoice, ServerReach, ServerTransport, Surroundings, UpstreamServerSettings,
};
use super::stdio::Conversation;
use crate::mcp::bridge::own_params;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, introduction};
use crate::mcp::revision::Revision;
use crate::model::reply::{Fault, Sent};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a process that answered one request may take over the next.
const SAME_PROCESS_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected server.
pub(super) struct Probed {
    pub(super) verdict: Arc<ServerEras>,
    /// Whether the server itself has said so: what a gateway says while the server is away, or
    /// nothing at all, is asked anew the next time.
    pub(super) is_sure: bool,
    pub(super) base: Arc<Link>,
    pub(super) unsolicited: UnsolicitedReceiver,
}

/// Connects and finds out, or believes what is `known`. Whatever a server answers to
/// `server/discover`, it is asked by `initialize` too before it counts as down. A modern one on stdio is not
/// asked here: the process that has answered is gone on with ([`ServerEras::is_legacy_unasked`]).
pub(super) async fn probe(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
    known: Option<Arc<ServerEras>>,
) -> Result<Probed, Fault> {
    let is_known_legacy = known
        .as_ref()
        .is_some_and(|verdict| verdict.discovered.is_none());
    let (modern, old, unsure) = if settings.era == EraChoice::Legacy || is_known_legacy {
        (None, None, None)
    } else {
        first_asked(settings, around).await?
    };
    let is_legacy_unasked = modern.is_some()
        && settings.is_child()
        && settings.era != EraChoice::Modern
        && known.as_ref().is_none_or(|known| known.is_legacy_unasked);
    let legacy = match &known {
        _ if settings.era == EraChoice::Modern || is_legacy_unasked => Legacy::Known(None),
        Some(verdict) if modern.is_some() => Legacy::Known(verdict.initialized.clone()),
        _ if old.is_some() => old.map_or(Legacy::Known(None), Legacy::Opened),
        _ => match open_legacy_in_time(settings, around).await {
            Ok(opened) => Legacy::Opened(Box::new(opened)),
            Err(fault) if modern.is_none() => return Err(both(unsure, fault)),
            Err(_) => Legacy::Known(None),
        },
    };
    let (base, unsolicited, discovered, initialized) = match (modern, legacy) {
        (Some((base, unsolicited, discovered)), Legacy::Known(initialized)) => {
            (base, unsolicited, Some(discovered), initialized)
        }
        (Some((base, unsolicited, discovered)), Legacy::Opened(opened)) => {
            opened.0.close().await;
            (base, unsolicited, Some(discovered), opened.1.body)
        }
        (None, Legacy::Opened(opened)) => {
            let (base, answer, unsolicited) = *opened;
            base.notify(Message::notification("notifications/initialized", None))
                .await?;
            (base, unsolicited, None, answer.body)
        }
        (None, Legacy::Known(_)) => {
            let words = "the tool server speaks no revision that toolgate serves";
            return Err(unsure.unwrap_or_else(|| Fault::unsent(words)));
        }
    };
    let verdict = Arc::new(ServerEras {
        discovered,
        initialized,
        over_events: base.is_over_events(),
        is_legacy_unasked,
    });
    Ok(Probed {
        verdict,
        is_sure: unsure.is_none(),
        base,
        unsolicited,
    })
}

/// What `server/discover` brings: a modern link; else a session in the same process, if that takes one;
/// else why it is not certain that the server is an old one.
type FirstAnswer = (Option<Discovered>, Option<Box<OpenedLink>>, Option<Fault>);

async fn first_asked(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
) -> Result<FirstAnswer, Fault> {
    let old = match discover(settings, around).await {
        Ok(DiscoveredServer::Modern(modern)) => return Ok((Some(modern), None, None)),
        Ok(DiscoveredServer::Old(old)) => old,
        // Nothing listens there, or it does not start: `initialize` would meet the same.
        Err(fault) if fault.sent == Sent::Nothing => return Err(fault),
        Err(fault) => return Ok((None, None, Some(fault))),
    };
    let old = match old {
        Some((link, _)) if settings.era == EraChoice::Modern => closed(link).await,
        Some(old) => in_the_same(old).await,
        None => None,
    };
    Ok((None, old, None))
}

/// Why neither way worked, in the order in which they were tried.
fn both(discover: Option<Fault>, initialize: Fault) -> Fault {
    match discover {
        None => initialize,
        Some(discover) if discover.what == initialize.what => initialize,
        Some(discover) => Fault {
            what: format!(
                "to `server/discover`: {}; to `initialize`: {}",
                discover.what, initialize.what
            ),
            ..initialize
        },
    }
}

type OpenedLink = (Arc<Link>, Message, UnsolicitedReceiver);

enum Legacy {
    Known(Option<Text>),
    Opened(Box<OpenedLink>),
}

/// A session in the process that has just answered that it knows no `server/discover`: there is no
/// need to start another. None where it does not take that well.
async fn in_the_same(child: OldChild) -> Option<Box<OpenedLink>> {
    let (link, unsolicited) = child;
    let params = own_introduction();
    let opened = tokio::time::timeout(SAME_PROCESS_TIMEOUT, link.initialize(&params)).await;
    let (link, answer) = opened.ok()?.ok()?;
    if answer.is_error {
        link.close().await;
        return None;
    }
    Some(Box::new((Arc::new(link), answer, unsolicited)))
}

/// What a legacy server reads of toolgate in `initialize`.
fn own_introduction() -> Text {
    Text::of(&json!({
        "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
        "capabilities": {},
        "clientInfo": introduction(),
    }))
}

async fn open_legacy_in_time(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
) -> Result<OpenedLink, Fault> {
    let (params, name) = (own_introduction(), CredentialName::default());
    let introduced = LegacyOpening {
        params: &params,
        over_events: false,
        name,
    };
    let opening = open_legacy(settings, around, introduced);
    let opened = tokio::time::timeout(settings.start_timeout, opening).await;
    let opened = opened.map_err(|_| {
        Fault::after_sending("the tool server did not answer `initialize` in time")
    })??;
    if opened.1.is_error {
        opened.0.close().await;
        return Err(Fault::unsent("the tool server refused `initialize`"));
    }
    Ok(opened)
}

/// A session in a process of its own, where a server that is modern speaks `initialize`, too; none where it refuses
/// that, ends on it or is silent, as servers of one era are.
///
/// # Errors
///
/// When no process could be started: nothing is known then.
pub(super) async fn legacy_too(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
) -> Result<Option<OpenedLink>, Fault> {
    let (params, name) = (own_introduction(), CredentialName::default());
    let introduced = LegacyOpening {
        params: &params,
        over_events: false,
        name,
    };
    let opening = open_legacy(settings, around, introduced);
    match tokio::time::timeout(settings.start_timeout, opening).await {
        Ok(Ok(opened)) if opened.1.is_error => Ok(closed_link(&opened.0).await),
        Ok(Ok(opened)) => {
            let note = Message::notification("notifications/initialized", None);
            let told = opened.0.notify(note).await;
            Ok(told.is_ok().then_some(opened))
        }
        Ok(Err(fault)) if fault.sent == Sent::Nothing => Err(fault),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// How a legacy session is opened.
pub(super) struct LegacyOpening<'p> {
    /// What `initialize` says.
    pub(super) params: &'p Text,
    /// Whether the server is known to have its sessions over HTTP+SSE.
    pub(super) over_events: bool,
    /// In whose name.
    pub(super) name: CredentialName,
}

/// Opens a legacy session: by POST, unless the server is known to have its sessions `over_events` or
/// says that it takes none there.
pub(super) async fn open_legacy(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
    LegacyOpening {
        params,
        over_events,
        name,
    }: LegacyOpening<'_>,
) -> Result<OpenedLink, Fault> {
    match settings.reach(around, name.clone()) {
        ServerReach::At(endpoint) => {
            let refused = if over_events {
                Fault::unsent("the tool server opens no event stream any more")
            } else {
                match Box::pin(Link::initialize_http(endpoint.clone(), params)).await {
                    Ok((link, answer)) => return Ok(listened_to(link, answer)),
                    Err(fault) if fault.status.is_some_and(may_be_old) => fault,
                    Err(fault) => return Err(fault),
                }
            };
            let opened = Conversation::over_events(&settings.name, &endpoint).await;
            let opened = opened.map_err(|fault| or_events(&refused, &fault))?;
            let (conversation, unsolicited) = opened.ok_or(refused)?;
            let opening = Link::initialize_child(Arc::new(conversation), None, params);
            let (link, answer) = opening.await?;
            Ok((Arc::new(link.begun_by(name)), answer, unsolicited))
        }
        ServerReach::By(command) => {
            let (conversation, process, unsolicited) = start(command, around)?;
            let (link, answer) =
                Link::initialize_child(conversation, Some(process), params).await?;
            Ok((Arc::new(link), answer, unsolicited))
        }
    }
}

fn listened_to(link: Link, answer: Message) -> OpenedLink {
    let (link, (inbox, unsolicited)) = (Arc::new(link), mpsc::channel(super::INBOX_MESSAGES_MAX));
    link.listen(inbox);
    (link, answer, unsolicited)
}

/// Why neither transport worked.
fn or_events(refused: &Fault, events: &Fault) -> Fault {
    let what = format!(
        "{}; as HTTP+SSE of 2024-11-05: {}",
        refused.what, events.what
    );
    Fault {
        what,
        ..events.clone()
    }
}

type Started = (Arc<Conversation>, ChildProcess, UnsolicitedReceiver);

fn start(command: &child::ChildCommand, around: &Surroundings) -> Result<Started, Fault> {
    let mut process = ChildProcess::spawn(command, &around.guard, &around.leftovers)?;
    let Some((stdin, stdout)) = process.take_pipes() else {
        return Err(Fault::unsent(format!(
            "server `{}` has no standard input and output",
            command.name
        )));
    };
    let (conversation, unsolicited) =
        Conversation::start(&command.name, stdout, stdin, process.ending());
    Ok((Arc::new(conversation), process, unsolicited))
}

/// A link to the server on the modern wire, and what it said of itself there.
pub(super) async fn open_modern(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
) -> Result<(Arc<Link>, Text, UnsolicitedReceiver), Fault> {
    match discover(settings, around).await? {
        DiscoveredServer::Modern((link, unsolicited, said)) => Ok((link, said, unsolicited)),
        DiscoveredServer::Old(old) => {
            if let Some((link, _)) = old {
                link.close().await;
            }
            let words = "the tool server does not speak 2026-07-28 any more";
            Err(Fault::unsent(words))
        }
    }
}

/// Whether the server speaks the modern wire; an error when nobody can tell.
pub(super) async fn is_modern(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
) -> Result<bool, Fault> {
    match discover(settings, around).await? {
        DiscoveredServer::Modern((link, ..)) => {
            link.close().await;
            Ok(true)
        }
        DiscoveredServer::Old(old) => {
            if let Some((link, _)) = old {
                link.close().await;
            }
            Ok(false)
        }
    }
}

type Discovered = (Arc<Link>, UnsolicitedReceiver, Text);

/// A process that answered, and is in no session yet.
type OldChild = (Link, UnsolicitedReceiver);

/// What a server made of `server/discover`.
enum DiscoveredServer {
    Modern(Discovered),
    /// It said, by what it answered or did, that it does not speak it.
    Old(Option<OldChild>),
}

async fn discover(
    settings: &UpstreamServerSettings,
    around: &Surroundings,
) -> Result<DiscoveredServer, Fault> {
    let (link, unsolicited) = match settings.reach(around, CredentialName::default()) {
        ServerReach::At(endpoint) => (
            Link::http(endpoint, Revision::NEWEST_MODERN),
            mpsc::channel(1).1,
        ),
        ServerReach::By(command) => {
            let (conversation, process, unsolicited) = start(command, around)?;
            (
                Link::child(conversation, Some(process), Revision::NEWEST_MODERN),
                unsolicited,
            )
        }
    };
    let asked = tokio::time::timeout(
        settings.start_timeout,
        link.ask(
            "server/discover",
            Some(own_params(link.revision.era(), None)),
        ),
    );
    let is_child = matches!(settings.transport, ServerTransport::Child(_));
    let answer = match asked.await {
        Ok(Ok(answer)) => answer,
        // A child that says nothing, or ends on a request it does not know, is an old one
        // (protocol §2).
        Err(_) if is_child => return Ok(DiscoveredServer::Old(closed(link).await)),
        Ok(Err(fault)) if is_child && fault.sent == Sent::Maybe => {
            return Ok(DiscoveredServer::Old(closed(link).await));
        }
        Ok(Err(fault)) if fault.status.is_some_and(is_verdict) => {
            return Ok(DiscoveredServer::Old(None));
        }
        Ok(Err(fault)) => return Err(fault),
        Err(_) => {
            return Err(Fault::after_sending(
                "the tool server did not answer in time",
            ));
        }
    };
    let modern = answer.body.filter(|_| !answer.is_error).filter(|result| {
        let versions = result
            .get("supportedVersions")
            .and_then(|versions| versions.elements())
            .unwrap_or_default();
        versions
            .iter()
            .any(|version| version.as_str().as_deref() == Some(Revision::NEWEST_MODERN.as_str()))
    });
    match modern {
        Some(result) => {
            let modern = (Arc::new(link), unsolicited, result);
            Ok(DiscoveredServer::Modern(modern))
        }
        None if is_child && !link.is_over() => Ok(DiscoveredServer::Old(Some((link, unsolicited)))),
        None => Ok(DiscoveredServer::Old(closed(link).await)),
    }
}

async fn closed<T>(link: Link) -> Option<T> {
    closed_link(&link).await
}

async fn closed_link<T>(link: &Link) -> Option<T> {
    link.close().await;
    None
}

/// A 4xx without a modern error is an old server's; 401 and 403 are about authorization, 5xx is an
/// outage (protocol §4.1).
fn is_verdict(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 401 | 403)
}

//! Which toolgate runs on a data directory, as its lock and its operators' door tell.

use super::operator::DoorArgs;
use super::operator::door::DoorRequest;
use super::operator::whose::{DoorNaming, DoorOwner, DoorWord};
use crate::admin::overview::StatusReport;
use crate::admin::status::Readiness;
use crate::config::DoorAddress;
use crate::store::journal::DataHolder;
use std::path::Path;

/// Where a whole report is.
const STATUS_PATH: &str = "/api/status";

/// What was found.
pub(super) enum Running {
    /// The toolgate whose operators' door is there, and all of it.
    Seen(DoorAddress, Box<StatusReport>),
    /// A toolgate that tells less to one who shows no token.
    Dim(DimView),
    /// None that tells anything of this directory.
    Unseen(UnseenView),
}

/// What a toolgate tells everyone.
pub(super) struct DimView {
    /// Where its operators' door is.
    pub address: DoorAddress,
    /// Whether it is ready.
    pub ready: bool,
    /// All about that; where no operator has a token, it is everyone's to read.
    pub readiness: Option<Readiness>,
    /// The policy files have errors.
    pub is_stale: bool,
    /// Why it does not tell more, and what to do.
    pub why: String,
}

impl DimView {
    /// What the toolgate at `address` tells everyone, and why not more.
    fn of(address: DoorAddress, DoorWord { told, ready, .. }: &DoorWord, why: String) -> Self {
        let readiness = told.parse::<Readiness>().ok();
        let is_stale = readiness.as_ref().map(|readiness| readiness.policy.stale);
        let flag = || told.get("policy_stale")?.parse::<bool>().ok();
        Self {
            address,
            ready: *ready,
            is_stale: is_stale.or_else(flag).unwrap_or_default(),
            readiness,
            why,
        }
    }
}

/// A directory of which no toolgate tells.
pub(super) struct UnseenView {
    /// Who has it.
    pub holder: DataHolder,
    /// Why nobody tells.
    pub door: UnseenDoor,
}

/// An operators' door that tells nothing of a directory.
pub(super) enum UnseenDoor {
    /// No configuration says where it is.
    Nowhere,
    /// Nothing answers at its address.
    Closed(DoorAddress),
    /// The toolgate of another data directory answers there.
    Another(DoorAddress),
    /// What is open at its address cannot be trusted; why.
    Untrusted(DoorAddress, String),
}

impl UnseenView {
    /// In words: what there is, and what it means.
    pub(super) fn words(&self) -> String {
        const NAMED: &str = "its door has another address (--admin)";
        let pid = match &self.holder {
            DataHolder::Process(note) => note.pid,
            DataHolder::Free | DataHolder::Hidden => None,
        };
        let holder = pid.map_or("a process".to_owned(), |pid| format!("process {pid}"));
        match (&self.holder, &self.door) {
            (DataHolder::Process(_), UnseenDoor::Nowhere) => format!(
                "{holder} has the data directory, and no configuration says where its operators' door is: name that with \
                 --admin, unless it is `toolgate stdio`, which has none"
            ),
            (DataHolder::Process(_), UnseenDoor::Closed(address)) => format!(
                "{holder} has the data directory, and no operators' door answers at {address}: it is `toolgate stdio`, or {NAMED}, \
                 or it hangs"
            ),
            (DataHolder::Process(_), UnseenDoor::Another(address)) => format!(
                "{holder} has the data directory, and what answers at {address} is the toolgate of another one: it is \
                 `toolgate stdio`, or {NAMED}"
            ),
            (DataHolder::Process(_), UnseenDoor::Untrusted(address, why)) => format!(
                "{holder} has the data directory, and what answers at {address} cannot be trusted: {why}"
            ),
            (DataHolder::Free, UnseenDoor::Nowhere) => {
                "does not run: no process has the data directory".to_owned()
            }
            (DataHolder::Free, UnseenDoor::Closed(address)) => format!(
                "does not run: nothing answers at {address}, and no process has the data directory"
            ),
            (DataHolder::Free, UnseenDoor::Another(address)) => format!(
                "does not run: what answers at {address} is the toolgate of another data directory (--admin {address} shows it), \
                 and no process has this one"
            ),
            (DataHolder::Free, UnseenDoor::Untrusted(address, why)) => format!(
                "does not run: no process has the data directory; what answers at {address} cannot be trusted: {why}"
            ),
            (DataHolder::Hidden, UnseenDoor::Untrusted(address, why)) => format!(
                "is not seen: the data directory's lock is another user's, and what answers at {address} cannot be trusted: {why}"
            ),
            (DataHolder::Hidden, UnseenDoor::Nowhere) => {
                "is not seen: the data directory's lock is another user's, and no configuration says where its operators' door \
                 is; name that with --admin"
                    .to_owned()
            }
            (DataHolder::Hidden, UnseenDoor::Closed(address) | UnseenDoor::Another(address)) => {
                format!(
                    "is not seen: nothing answers at {address}, and the data directory's lock is another user's"
                )
            }
        }
    }
}

/// Looks for the toolgate on the directory `data`, whose operators' door is at `address`, if that is known.
pub(super) async fn find(
    data: &Path,
    address: Option<DoorAddress>,
    args: &DoorArgs,
    naming: DoorNaming,
) -> anyhow::Result<Running> {
    let unseen = |door| {
        let holder = DataHolder::of(data);
        Ok(Running::Unseen(UnseenView { holder, door }))
    };
    let Some(address) = address else {
        return unseen(UnseenDoor::Nowhere);
    };
    // The token is read first: what is wrong with it is said in any case.
    let door = args.at_unasked(address)?;
    let word = match DoorWord::of(address, args.look_bound()).await {
        Ok(Some(word)) => word,
        Ok(None) => return unseen(UnseenDoor::Closed(address)),
        Err(why) => return unseen(UnseenDoor::Untrusted(address, format!("{why:#}"))),
    };
    // The lock is read last: who answers has had it since before.
    let holder = DataHolder::of(data);
    if word.owner(&holder, naming) == DoorOwner::Other {
        let door = UnseenDoor::Another(address);
        return Ok(Running::Unseen(UnseenView { holder, door }));
    }
    let asked = door.asks(DoorRequest::get(STATUS_PATH), "no operators' door answers");
    let why = match asked.await {
        Ok(Ok(text)) => match text.parse() {
            Ok(report) => return Ok(Running::Seen(address, Box::new(report))),
            Err(error) => {
                format!("its answer cannot be read, it may be of another version: {error}")
            }
        },
        Ok(Err(refused)) => refused.to_string(),
        Err(error) => format!("{error:#}"),
    };
    Ok(Running::Dim(DimView::of(address, &word, why)))
}

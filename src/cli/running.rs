//! Which toolgate runs on a configuration, as its lock and its operators' door tell.

use super::operator::DoorArgs;
use super::operator::door::{self, DoorRequest};
use crate::admin::overview::StatusReport;
use crate::admin::status::Readiness;
use crate::mcp::json::Text;
use crate::store::journal::DataHolder;
use std::net::SocketAddr;
use std::path::Path;

/// Where a whole report is.
const STATUS_PATH: &str = "/api/status";

/// What was found.
pub(super) enum Running {
    /// A toolgate, and all of it.
    Seen(Box<StatusReport>),
    /// A toolgate that tells less to one who shows no token.
    Dim(DimView),
    /// A process holds the data directory, and no operators' door answers.
    Silent(Option<u32>),
    /// None.
    Nothing,
}

/// What a toolgate tells everyone.
pub(super) struct DimView {
    /// Whether it is ready.
    pub ready: bool,
    /// All about that; where no operator has a token, it is everyone's to read.
    pub readiness: Option<Readiness>,
    /// The policy files have errors.
    pub is_stale: bool,
    /// Why it does not tell more, and what to do.
    pub why: String,
}

/// Looks for the toolgate on the directory `data`, whose operators' door is at `address`.
pub(super) async fn find(
    data: &Path,
    address: SocketAddr,
    args: &DoorArgs,
) -> anyhow::Result<Running> {
    let door = args.at_unasked(address)?;
    let holder = DataHolder::of(data);
    let told = match door::look(address, "/readyz").await {
        Ok(told) => dim(&told),
        Err(_) => None,
    };
    let Some(dim) = told else {
        return Ok(match holder {
            DataHolder::Process(pid) => Running::Silent(pid),
            DataHolder::Free | DataHolder::Hidden => Running::Nothing,
        });
    };
    let asked = door.asks(DoorRequest::get(STATUS_PATH), "no operators' door answers");
    let why = match asked.await {
        Ok(Ok(text)) => match text.parse() {
            Ok(report) => return Ok(Running::Seen(Box::new(report))),
            Err(error) => {
                format!("its answer cannot be read, it may be of another version: {error}")
            }
        },
        Ok(Err(refused)) => refused.to_string(),
        Err(error) => format!("{error:#}"),
    };
    Ok(Running::Dim(DimView { why, ..dim }))
}

/// What `/readyz` says; none where that is no toolgate's answer.
fn dim(told: &Text) -> Option<DimView> {
    let flag = |key: &str| told.get(key).and_then(|flag| flag.parse::<bool>().ok());
    let readiness = told.parse::<Readiness>().ok();
    let is_stale = readiness.as_ref().map(|readiness| readiness.policy.stale);
    Some(DimView {
        ready: flag("ready")?,
        is_stale: is_stale
            .or_else(|| flag("policy_stale"))
            .unwrap_or_default(),
        readiness,
        why: String::new(),
    })
}

//! Without a running toolgate: the data directory itself, under its lock.

use super::{CallsQuery, CallsReply};
use crate::app::ledger::keys;
use crate::cli::serve::runtime;
use crate::config::Config;
use crate::model::clock::Clock;
use crate::owners::keep_private;
use crate::store::embedded::EmbeddedStore;
use crate::store::journal::{Journal, JournalError, JournalOptions};
use crate::store::operator::{Resolution, Unresolved, open_calls, resolve};
use anyhow::{Context as _, bail};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The journal of `config`, locked; none when a toolgate has it. What another user writes here,
/// toolgate could not open afterwards: such a one is taken to the door too.
pub(in crate::cli) fn open(config: &Config) -> anyhow::Result<Option<Journal>> {
    let data = &config.data;
    let owner = match std::fs::metadata(data) {
        Ok(found) => found.uid(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "there is no data directory {}: no toolgate of this configuration has run yet",
                data.display()
            )
        }
        Err(error) => {
            return Err(error).with_context(|| format!("{} cannot be looked at", data.display()));
        }
    };
    if owner != rustix::process::geteuid().as_raw() {
        return Ok(None);
    }
    keep_private();
    let keys = runtime()?.block_on(keys(&config.ledger))?;
    match Journal::open_sealed(data, JournalOptions::default(), keys) {
        Ok(journal) => Ok(Some(journal)),
        Err(JournalError::Locked { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Asks the store in `data`. Calls that were in flight when the last toolgate ended come to rest,
/// as at every start.
pub(super) async fn ask(
    data: &Path,
    journal: Journal,
    asked: CallsQuery,
) -> anyhow::Result<CallsReply> {
    let store =
        EmbeddedStore::open(data, journal.clone(), Clock).context("the store cannot be opened")?;
    let found = match asked {
        CallsQuery::List { state } => {
            CallsReply::Calls(open_calls(&store, state.as_deref()).await?)
        }
        CallsQuery::Resolve { action, resolution } => {
            let who = system_user();
            match resolve(
                &store,
                action,
                Resolution {
                    who: who.clone(),
                    ..resolution
                },
            )
            .await
            {
                Ok(state) => CallsReply::Resolved {
                    state: state.to_owned(),
                    who,
                },
                Err(Unresolved::Store(error)) => return Err(error.into()),
                Err(unresolved) => CallsReply::Refused(unresolved.to_string()),
            }
        }
    };
    drop(store);
    journal
        .close()
        .await
        .context("the ledger could not be closed in good order")?;
    Ok(found)
}

/// Who runs this, as the system knows it.
pub(in crate::cli) fn system_user() -> String {
    let uid = rustix::process::getuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let own = uid.to_string();
    let name = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == own).then_some(name)
    });
    match name {
        Some(name) => format!("{name} (uid {uid})"),
        None => format!("uid {uid}"),
    }
}

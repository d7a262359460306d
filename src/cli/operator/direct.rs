//! Without a running toolgate: the data directory itself, under its lock.

use crate::app::ledger::{content_keys, keys};
use crate::cli::configured::{self, KeyUnknown};
use crate::cli::runtime::runtime;
use crate::config::{DataPlace, Ledger, SealConfig};
use crate::guards::secrets::SecretSource;
use crate::model::clock::Clock;
use crate::owners::keep_private;
use crate::store::embedded::EmbeddedStore;
use crate::store::journal::{Journal, JournalError, JournalOptions};
use anyhow::{Context as _, bail};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

/// The journal of `place`, locked; none when a toolgate has it. What another user writes here,
/// toolgate could not open afterwards: such a one is taken to the door too.
pub(in crate::cli) fn open(place: &DataPlace) -> anyhow::Result<Option<Journal>> {
    let data = &place.data;
    let owner = match std::fs::metadata(data) {
        Ok(found) => found.uid(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "there is no data directory {}: no toolgate has run on it yet",
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
    // Who asks at the door needs no key.
    if place.ledger.is_err() && Journal::is_held(data)? {
        return Ok(None);
    }
    let kept = configured::kept(place)?;
    let keys = match runtime()?.block_on(keys(kept)) {
        Ok(keys) => keys,
        Err(_) if Journal::is_held(data)? => return Ok(None),
        Err(error) => return Err(unkeyed(place, kept, &format!("{error:#}"))),
    };
    match Journal::open_sealed(data, JournalOptions::default(), keys) {
        Ok(journal) => Ok(Some(journal)),
        Err(JournalError::Locked { .. }) => Ok(None),
        Err(error @ JournalError::KeyMissing { .. }) => {
            Err(unkeyed(place, kept, &error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Why nothing is done without the key that seals the record, and where that was looked for.
fn unkeyed(place: &DataPlace, kept: &Ledger, why: &str) -> anyhow::Error {
    let SealConfig { key, previous, .. } = &kept.seal;
    let named = key.iter().map(|key| ("key".to_owned(), key));
    let before = previous.iter().enumerate();
    let before = before.map(|(index, key)| (format!("previous[{index}]"), key));
    let places: Vec<String> = named
        .chain(before)
        .map(|(name, source)| format!("`ledger.seal.{name}` ({})", shown(source)))
        .collect();
    let places = if places.is_empty() {
        "no configuration that was read names a key under `ledger.seal`; name the one that does with --config".to_owned()
    } else {
        format!("looked for in {}", places.join(", "))
    };
    let data = place.data.display();
    let words = format!(
        "the ledger in {data} takes the key that seals it: while no toolgate runs, what was in flight is recorded there first; \
         {places}: {why}. `toolgate ledger` reads without a key"
    );
    KeyUnknown(words).into()
}

/// Where a key comes from.
fn shown(source: &SecretSource) -> String {
    match source {
        SecretSource::Variable(name) => format!("the variable {name}"),
        SecretSource::File(path) => format!("the file {}", path.display()),
        SecretSource::Command { run, .. } => {
            let program = run.first().map_or("", String::as_str);
            format!("what the program {program} prints")
        }
    }
}

/// What `work` makes of the store of `place`, whose journal is closed afterwards. Calls that were
/// in flight when the last toolgate ended come to rest, as at every start.
pub(in crate::cli) async fn with_store<T>(
    place: &DataPlace,
    journal: Journal,
    work: impl AsyncFnOnce(&EmbeddedStore) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let keys = Arc::new(content_keys(configured::kept(place)?).await?);
    let store = EmbeddedStore::open(&place.data, journal.clone(), Clock)
        .context("the store cannot be opened")?
        .with_content_keys(keys);
    let made = work(&store).await;
    drop(store);
    journal
        .close()
        .await
        .context("the ledger could not be closed in good order")?;
    made
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

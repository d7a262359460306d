//! Opens the ledger with the keys that seal it, wherever those come from, and the store on it.

use crate::config::{Config, ContentConfig, Ledger, SealConfig};
use crate::gate::vault;
use crate::guards::secrets::SecretSource;
use crate::model::clock::Clock;
use crate::store::claims::Store;
use crate::store::content_key::{ContentKey, ContentKeys};
use crate::store::embedded::{EmbeddedStore, SegmentRetention};
use crate::store::journal::{Journal, JournalOptions, SealingKey, SealingKeys};
use anyhow::Context as _;
use std::path::Path;
use std::sync::Arc;

/// A ledger that is open for writing, and the keys for what it keeps of calls.
pub(crate) struct OpenLedger {
    pub(crate) journal: Journal,
    pub(crate) content_keys: Arc<ContentKeys>,
}

impl OpenLedger {
    /// One without keys for contents.
    pub(crate) fn in_the_open(journal: Journal) -> Self {
        Self {
            journal,
            content_keys: Arc::default(),
        }
    }
}

/// The ledger of `config`, open for writing, sealed and encrypted as it says.
pub(crate) async fn open(config: &Config) -> anyhow::Result<OpenLedger> {
    let content_keys = content_keys(&config.ledger).await?;
    let keys = keys(&config.ledger).await?;
    let options = JournalOptions {
        sizes: config.ledger.sizes(),
        compress: config.ledger.compress,
        ..JournalOptions::default()
    };
    Ok(OpenLedger {
        journal: Journal::open_sealed(&config.data, options, keys)?,
        content_keys: Arc::new(content_keys),
    })
}

/// The store of the data directory `data`, on `journal`, which is kept as `keeping` says; what it keeps
/// of answers is encrypted with `content_keys`.
pub(super) fn store(
    data: &Path,
    journal: &Journal,
    keeping: Option<SegmentRetention>,
    content_keys: Arc<ContentKeys>,
) -> anyhow::Result<Arc<dyn Store>> {
    let (journal, clock) = (journal.clone(), Clock::default());
    let store = match keeping {
        Some(keeping) => EmbeddedStore::keeping(data, journal, clock, keeping),
        None => EmbeddedStore::open(data, journal, clock),
    };
    let store = store.context("the store cannot be opened")?;
    Ok(Arc::new(store.with_content_keys(content_keys)))
}

/// The keys that the configuration names. One that cannot be had is an error: without it, nothing
/// could be sealed or checked.
pub(crate) async fn keys(ledger: &Ledger) -> anyhow::Result<SealingKeys> {
    let SealConfig {
        key,
        previous,
        lost,
    } = &ledger.seal;
    let mut keys = SealingKeys {
        lost: lost.clone(),
        ..SealingKeys::default()
    };
    if let Some(source) = key {
        keys.current = Some(
            read(source)
                .await
                .context("the ledger cannot be sealed: `ledger.seal.key`")?,
        );
    }
    for (index, source) in previous.iter().enumerate() {
        let key = read(source).await;
        keys.previous.push(key.with_context(|| {
            format!("old seals cannot be checked: `ledger.seal.previous[{index}]`")
        })?);
    }
    Ok(keys)
}

/// The keys for contents that the configuration names. One that cannot be had is an error: nothing is
/// written in the open that was to be encrypted.
pub(crate) async fn content_keys(ledger: &Ledger) -> anyhow::Result<ContentKeys> {
    let ContentConfig { key, previous, .. } = &ledger.content;
    let mut keys = ContentKeys::default();
    if let Some(source) = key {
        let key = read_content_key(source).await;
        keys.current = Some(key.context("contents cannot be encrypted: `ledger.content.key`")?);
    }
    for (index, source) in previous.iter().enumerate() {
        let key = read_content_key(source).await;
        keys.previous.push(key.with_context(|| {
            format!("old contents cannot be read: `ledger.content.previous[{index}]`")
        })?);
    }
    Ok(keys)
}

/// The key for contents that is there.
pub(crate) async fn read_content_key(source: &SecretSource) -> anyhow::Result<ContentKey> {
    Ok(ContentKey::new(&*vault::get(source).await?)?)
}

/// The key that is there.
pub(crate) async fn read(source: &SecretSource) -> anyhow::Result<SealingKey> {
    Ok(SealingKey::new(&*vault::get(source).await?)?)
}

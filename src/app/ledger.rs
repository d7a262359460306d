//! Opens the ledger with the keys that seal it, wherever those come from.

use crate::config::{Config, Ledger, Seal};
use crate::gate::vault;
use crate::guards::secrets::Source;
use crate::store::journal::{Journal, Key, Keys, Options};
use anyhow::Context as _;

/// The ledger of `config`, open for writing and sealed as it says.
pub async fn open(config: &Config) -> anyhow::Result<Journal> {
    let keys = keys(&config.ledger).await?;
    Ok(Journal::open_sealed(&config.data, Options::default(), keys)?)
}

/// The keys that the configuration names. One that cannot be had is an error: without it, nothing could be sealed or checked.
pub async fn keys(ledger: &Ledger) -> anyhow::Result<Keys> {
    let Seal { key, previous, lost } = &ledger.seal;
    let mut keys = Keys { lost: lost.clone(), ..Keys::default() };
    if let Some(source) = key {
        keys.current = Some(read(source).await.context("the ledger cannot be sealed: `ledger.seal.key`")?);
    }
    for (index, source) in previous.iter().enumerate() {
        let key = read(source).await;
        keys.previous
            .push(key.with_context(|| format!("old seals cannot be checked: `ledger.seal.previous[{index}]`"))?);
    }
    Ok(keys)
}

/// The key that is there.
pub async fn read(source: &Source) -> anyhow::Result<Key> {
    Ok(Key::new(&*vault::get(source).await?)?)
}

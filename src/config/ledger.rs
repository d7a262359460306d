//! How the record of calls is kept, sealed and witnessed.

use super::secrets;
use super::settings::{
    ContentKeySettings, ContentSettings, HeadsSettings, LedgerSettings, SealKeySettings,
    SealSettings, SecretSettings, WebhookSettings,
};
use crate::guards::secrets::SecretSource;
use crate::model::address::Address;
use crate::model::content::ContentForm;
use crate::model::diagnostic::Problems;
use crate::model::times::between;
use crate::store::journal::{KeyId, MIN_KEY_BYTES, Sizes};
use crate::upstream::hook::{Hook, key_of};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long closed segments are kept: usual, least, most.
const SEGMENT_RETENTION: Duration = Duration::from_hours(24 * 90);
const SEGMENT_RETENTION_RANGE: RangeInclusive<Duration> =
    Duration::from_hours(1)..=Duration::from_hours(24 * 36_500);
/// How often heads leave: usual, least, most.
const HEAD_INTERVAL: Duration = Duration::from_mins(10);
const HEAD_INTERVAL_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);
/// How long a program that is told of heads may take: usual, least, most.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(5);
const WEBHOOK_TIMEOUT_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(30);
/// Keys that sealed before, at most.
const MAX_PREVIOUS_KEYS: usize = 64;
/// What a key's program prints is read once.
const KEY_TTL: &str = "24h";

/// Bytes of the record from which on it is lean, where it may have any number.
const LEAN_LEDGER_BYTES: u64 = 8 << 30;
/// Bytes that it may have at least.
const LEDGER_BYTES_MIN: u64 = 16 << 20;

/// How the record of calls is kept.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// How long closed segments are kept after their last entry.
    pub keep: Duration,
    /// Bytes that it may have; none: as many as there are.
    pub max_bytes: Option<u64>,
    /// Where they go then; none: they are dropped.
    pub archive: Option<PathBuf>,
    /// Whether they are compressed.
    pub compress: bool,
    /// What it is sealed with.
    pub seal: SealConfig,
    /// What the contents are encrypted with that it keeps.
    pub content: ContentConfig,
    /// Where its heads go; none: nowhere.
    pub heads: Option<HeadsConfig>,
}

/// What the record is sealed with. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct SealConfig {
    /// Where the key that seals comes from.
    pub key: Option<SecretSource>,
    /// Where those come from that sealed before.
    pub previous: Vec<SecretSource>,
    /// Those that sealed before and that nobody has any more.
    pub lost: Vec<KeyId>,
}

/// What contents are encrypted with, and which are kept without a contract's word. The default is
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct ContentConfig {
    /// Where the key that encrypts comes from.
    pub key: Option<SecretSource>,
    /// Where those come from that encrypted before.
    pub previous: Vec<SecretSource>,
    /// How much is kept in observe mode of a call of which no contract says it.
    pub observed: ContentForm,
}

/// Where heads go.
#[derive(Debug, Clone)]
pub struct HeadsConfig {
    /// How often.
    pub every: Duration,
    /// The file to which they are added.
    pub file: Option<PathBuf>,
    /// Who is told of them.
    pub webhook: Option<Arc<Hook>>,
    /// Whether they are lines of the log.
    pub log: bool,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            keep: SEGMENT_RETENTION,
            max_bytes: None,
            archive: None,
            compress: true,
            seal: SealConfig::default(),
            content: ContentConfig::default(),
            heads: None,
        }
    }
}

impl Ledger {
    /// Bytes from which on reads and refusals are only summed up, so that they push nothing out
    /// that belongs to a promise, and bytes beyond which the oldest records go.
    pub fn sizes(&self) -> Sizes {
        match self.max_bytes {
            Some(most) => Sizes {
                lean: most - most / 8,
                most,
            },
            None => Sizes {
                lean: LEAN_LEDGER_BYTES,
                ..Sizes::UNLIMITED
            },
        }
    }
}

/// Where paths start.
#[derive(Clone, Copy)]
pub(super) struct LedgerRoots<'a> {
    /// The data directory.
    pub(super) data: &'a Path,
    /// The configuration's own directory, which relative paths are of.
    pub(super) directory: &'a Path,
}

pub(super) fn compile(
    written: LedgerSettings,
    roots: LedgerRoots<'_>,
    problems: &mut Problems,
) -> Ledger {
    let LedgerSettings {
        keep,
        max_bytes,
        archive,
        compress,
        seal,
        content,
        heads,
    } = written;
    if max_bytes.is_some_and(|most| most < LEDGER_BYTES_MIN) {
        let hint = format!("allow {LEDGER_BYTES_MIN} bytes (16 MiB) or more");
        problems.under("max_bytes", |problems| {
            problems.error("is too little for a ledger", hint);
        });
    }
    Ledger {
        keep: between("keep", keep.as_deref(), SEGMENT_RETENTION_RANGE, problems)
            .unwrap_or(SEGMENT_RETENTION),
        max_bytes,
        archive: archive.map(|text| {
            problems.under("archive", |problems| {
                outside(&text, roots, judge_directory, problems)
            })
        }),
        compress: compress.unwrap_or(true),
        seal: seal
            .map(|seal| problems.under("seal", |problems| sealing(seal, roots.directory, problems)))
            .unwrap_or_default(),
        content: content
            .map(|content| {
                problems.under("content", |problems| {
                    encrypting(content, roots.directory, problems)
                })
            })
            .unwrap_or_default(),
        heads: heads
            .map(|heads| problems.under("heads", |problems| witnessed(heads, roots, problems))),
    }
}

/// A path that is not within the data directory: what is there is toolgate's to remove, and goes
/// when that goes. What is at another is for `judge` to judge.
fn outside(
    text: &str,
    roots: LedgerRoots<'_>,
    judge: fn(&Path, &mut Problems),
    problems: &mut Problems,
) -> PathBuf {
    let path = roots.directory.join(text);
    if text.trim().is_empty() {
        problems.error("is blank", "name a path outside the data directory");
    } else if path.starts_with(roots.data) {
        problems.error(
            "is in the data directory",
            "name a path outside it, best one that only few may write to",
        );
    } else {
        judge(&path, problems);
    }
    path
}

fn sealing(written: SealSettings, directory: &Path, problems: &mut Problems) -> SealConfig {
    let SealSettings { key, previous } = written;
    let mut seal = SealConfig::default();
    if key.is_none() && previous.is_empty() {
        problems.error(
            "names no key",
            "write `key: { file: FILE }`; make one: `openssl rand -hex 32`",
        );
    }
    if previous.len() > MAX_PREVIOUS_KEYS {
        problems.error(
            format!("more than {MAX_PREVIOUS_KEYS} keys in `previous`"),
            "begin a new journal",
        );
    }
    if let Some(mut key) = key {
        seal.key = problems.under("key", |problems| {
            if key.lost.take().is_some() {
                problems.error(
                    "`lost` is for keys in `previous`",
                    "name where the key is: `env`, `file` or `command`",
                );
                return None;
            }
            source(key, directory, problems)
        });
    }
    problems.under("previous", |problems| {
        for (index, mut key) in previous.into_iter().enumerate() {
            problems.under(index.to_string(), |problems| match key.lost.take() {
                None => seal.previous.extend(source(key, directory, problems)),
                Some(_) if key.env.is_some() || key.file.is_some() || !key.command.is_empty() => {
                    problems.error("is lost, and comes from somewhere", "keep one of the two");
                }
                Some(id) => match id.parse() {
                    Ok(id) => seal.lost.push(id),
                    Err(()) => {
                        problems.error(
                            "is no id of a key",
                            "write the 16 hex digits that toolgate named it with",
                        );
                    }
                },
            });
        }
    });
    if seal.key.is_some()
        && seal.previous.contains(
            seal.key
                .as_ref()
                .unwrap_or(&SecretSource::Variable(String::new())),
        )
    {
        problems.error(
            "the key is in `previous`, too",
            "a key that was replaced never seals again: make a new one",
        );
    }
    seal
}

fn encrypting(
    written: ContentSettings,
    directory: &Path,
    problems: &mut Problems,
) -> ContentConfig {
    let ContentSettings {
        key,
        previous,
        observed,
    } = written;
    if key.is_none() && previous.is_empty() && observed.is_none() {
        problems.error(
            "names no key, and not what is kept",
            "write `key: { file: FILE }`; make one: `openssl rand -hex 32`",
        );
    }
    if previous.len() > MAX_PREVIOUS_KEYS {
        problems.error(
            format!("more than {MAX_PREVIOUS_KEYS} keys in `previous`"),
            "take away those whose contents nobody has to read",
        );
    }
    let source = |key: ContentKeySettings, problems: &mut Problems| {
        let ContentKeySettings {
            env,
            file,
            command,
            timeout,
        } = key;
        let key = SealKeySettings {
            env,
            file,
            command,
            timeout,
            lost: None,
        };
        source(key, directory, problems)
    };
    ContentConfig {
        key: key.and_then(|key| problems.under("key", |problems| source(key, problems))),
        previous: problems.under("previous", |problems| {
            let keys = previous.into_iter().enumerate();
            keys.filter_map(|(index, key)| {
                problems.under(index.to_string(), |problems| source(key, problems))
            })
            .collect()
        }),
        observed: observed.unwrap_or_default(),
    }
}

fn source(
    written: SealKeySettings,
    directory: &Path,
    problems: &mut Problems,
) -> Option<SecretSource> {
    let SealKeySettings {
        env,
        file,
        command,
        timeout,
        lost: _,
    } = written;
    let ttl = (!command.is_empty()).then(|| KEY_TTL.to_owned());
    let settings = SecretSettings {
        env,
        file,
        command,
        ttl,
        timeout,
        places: Vec::new(),
    };
    let source = secrets::source(settings, directory, problems);
    if let Some(SecretSource::File(file)) = &source {
        problems.under("file", |problems| match std::fs::metadata(file) {
            Ok(known) if known.is_file() && known.len() < MIN_KEY_BYTES as u64 => {
                let message = format!("a key of the ledger has {MIN_KEY_BYTES} bytes at least");
                problems.error(
                    message,
                    format!(
                        "make one: `(umask 077; openssl rand -hex 32 > {})`",
                        file.display()
                    ),
                );
            }
            _ => {}
        });
    }
    source
}

fn witnessed(
    written: HeadsSettings,
    roots: LedgerRoots<'_>,
    problems: &mut Problems,
) -> HeadsConfig {
    let HeadsSettings {
        every,
        file,
        webhook,
        log,
    } = written;
    if file.is_none() && webhook.is_none() && !log {
        problems.error(
            "go nowhere",
            "name a `file` or a `webhook`, or write `log: true`",
        );
    }
    HeadsConfig {
        every: between("every", every.as_deref(), HEAD_INTERVAL_RANGE, problems)
            .unwrap_or(HEAD_INTERVAL),
        file: file.map(|text| {
            problems.under("file", |problems| {
                outside(&text, roots, judge_file, problems)
            })
        }),
        webhook: webhook
            .and_then(|written| problems.under("webhook", |problems| hook(written, problems))),
        log,
    }
}

/// Whether segments can be put there.
fn judge_directory(path: &Path, problems: &mut Problems) {
    if path.metadata().is_ok_and(|known| !known.is_dir()) {
        problems.error(
            "is no directory",
            "name a directory; toolgate makes one that does not exist",
        );
    }
}

/// Whether heads can be added to it.
fn judge_file(path: &Path, problems: &mut Problems) {
    match std::fs::symlink_metadata(path) {
        Ok(known) if known.is_dir() => {
            let hint = format!(
                "name a file in it, such as {}",
                path.join("toolgate.heads").display()
            );
            problems.error("is a directory", hint);
        }
        Ok(known) if !known.is_file() => {
            problems.error(
                "is a link or no file, and no head is written there",
                "name a file, or one that is not there yet",
            );
        }
        Ok(_) => {}
        Err(_) => {
            let above = path
                .parent()
                .filter(|above| !above.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            if !above.is_dir() {
                let message = format!(
                    "the directory {} does not exist, so no head is written",
                    above.display()
                );
                problems.warning(message, "make it, or mount it before toolgate starts");
            }
        }
    }
}

fn hook(written: WebhookSettings, problems: &mut Problems) -> Option<Arc<Hook>> {
    let WebhookSettings {
        url,
        secret,
        timeout,
        unencrypted,
    } = written;
    let timeout = between(
        "timeout",
        timeout.as_deref(),
        WEBHOOK_TIMEOUT_RANGE,
        problems,
    )
    .unwrap_or(WEBHOOK_TIMEOUT);
    if key_of(&secret).is_none() {
        let hint = "make one: `echo whsec_$(openssl rand -base64 32)`";
        problems.under("secret", |problems| problems.error("is no key", hint));
    }
    let url = problems.under("url", |problems| {
        let Address { url, is_exposed } =
            Address::read(&url, "it knows us by the signature", problems)?;
        if is_exposed && !unencrypted {
            let hint = "use https, or say `unencrypted: true`";
            problems.error("heads would leave this machine unencrypted", hint);
        }
        Some(url)
    })?;
    Hook::new("heads".to_owned(), &url, secret, timeout).map(Arc::new)
}

//! A file each in `incidents` of the data directory: what an incident freezes is frozen at the next start, too.

use super::record::Incident;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::disabled::FrozenScope;
use crate::store::claims::StoreError;
use crate::store::journal::replace;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// Files that are read. There are never so many: closed incidents are forgotten.
const MAX_INCIDENT_FILES: usize = 1_000;

/// All incidents that are kept, by their numbers.
pub(crate) type KnownIncidents = BTreeMap<u64, Incident>;

/// Those in the data directory `data`; none where there is no such directory. Blocks.
///
/// # Errors
/// One that cannot be read: it may freeze something.
pub(crate) fn read(data: &Path) -> Result<KnownIncidents, StoreError> {
    let folder = folder(data);
    let unreadable = |path: &Path, what: &dyn Display| {
        StoreError::Broken(format!(
            "what incidents freeze cannot be read from {}: {what}",
            path.display()
        ))
    };
    let listed = match std::fs::read_dir(&folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(KnownIncidents::new()),
        Err(error) => return Err(unreadable(&folder, &error)),
    };
    let mut known = KnownIncidents::new();
    for entry in listed {
        let path = entry.map_err(|error| unreadable(&folder, &error))?.path();
        let Some(id) = number(&path) else { continue };
        if known.len() >= MAX_INCIDENT_FILES {
            return Err(unreadable(&folder, &"there are too many files"));
        }
        let incident: Incident = one(&path).map_err(|error| unreadable(&path, &error))?;
        if incident.id != id {
            return Err(unreadable(&path, &"it is of another incident"));
        }
        known.insert(id, incident);
    }
    Ok(known)
}

/// What those in the data directory `data` freeze. Blocks.
///
/// # Errors
/// As of [`read`].
pub(crate) fn frozen(data: &Path) -> Result<Vec<FrozenScope>, StoreError> {
    Ok(read(data)?.values().filter_map(Incident::frozen).collect())
}

/// Keeps `incident` in the data directory `data`, durably. Blocks.
pub(super) fn write(data: &Path, incident: &Incident) -> Result<(), StoreError> {
    let folder = folder(data);
    let path = file(&folder, incident.id);
    let kept = serde_json::to_string_pretty(incident)
        .map_err(io::Error::other)
        .and_then(|text| {
            begin(data, &folder)?;
            replace(&folder, &path, &text)
        });
    kept.map_err(|error| {
        StoreError::Broken(format!(
            "an incident cannot be written to {}: {error}",
            path.display()
        ))
    })
}

/// Forgets the closed incident `id`. One that stays is read again, and does no harm.
pub(super) fn forget(data: &Path, id: u64) {
    let path = file(&folder(data), id);
    if let Err(error) = std::fs::remove_file(&path) {
        tracing::warn!(%error, path = %path.display(), "an old incident cannot be removed");
    }
}

/// Makes the directory, durably, unless it is there.
fn begin(data: &Path, folder: &Path) -> io::Result<()> {
    match std::fs::create_dir(folder) {
        Ok(()) => File::open(data)?.sync_all(),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn one(path: &Path) -> io::Result<Incident> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(SERVER_JSON_LIMITS.bytes as u64 + 1)
        .read_to_end(&mut bytes)?;
    let text = Text::read(bytes.into(), &SERVER_JSON_LIMITS).map_err(io::Error::other)?;
    text.parse().map_err(io::Error::other)
}

/// The number of the incident that `path` keeps, if it is such a file.
fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let id: u64 = name.strip_suffix(".json")?.parse().ok()?;
    (name == format!("{id}.json")).then_some(id)
}

fn folder(data: &Path) -> PathBuf {
    data.join("incidents")
}

fn file(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("{id}.json"))
}

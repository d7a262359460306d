//! What several verbs need of the configuration: where it is, what it says, and its problems in
//! words.

use super::terminal::Terminal;
use crate::config::{self, Config, DataPlace, DoorAddress, Ledger, Loaded};
use crate::model::acting::shown;
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity, foremost};
use crate::model::disabled::{Disabled, TakenAway};
use crate::policy::Policy;
use crate::store::journal::{JournalError, JournalReader};
use crate::store::{disabling, incidents};
use anyhow::{Context as _, bail};
use std::fmt;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// Errors of files that cannot be used, as far as they are said.
const ERRORS_SAID_AT_MOST: usize = 200;

/// Which data directory is meant.
#[derive(Debug, Default, clap::Args)]
pub struct DataArgs {
    /// The configuration [default: ./toolgate.yaml, ~/.config/toolgate/toolgate.yaml,
    /// /etc/toolgate/toolgate.yaml]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// The data directory, whatever the configuration says
    #[arg(long, value_name = "DIR", global = true)]
    pub data: Option<PathBuf>,
}

impl DataArgs {
    /// The record that is meant, for verbs to which the configuration says nothing else: what is
    /// named with `--data` alone is looked at without any configuration.
    ///
    /// # Errors
    /// [`PlaceUnknown`]: a configuration is there, and does not say where its record is.
    pub fn place(&self) -> anyhow::Result<DataPlace> {
        match (&self.data, self.config.clone().or_else(config::find)) {
            (Some(data), _) if self.config.is_none() => Ok(DataPlace {
                data: data.clone(),
                door: Err(Vec::new()),
                ..DataPlace::default()
            }),
            (_, Some(path)) => self.place_of(&path),
            (_, None) => Ok(DataPlace::default()),
        }
    }

    /// The record of the configuration at `path`, whatever else is wrong with that; or the one that
    /// is named with `--data`, kept as the configuration says.
    ///
    /// # Errors
    /// As of [`Self::place`].
    pub fn place_of(&self, path: &Path) -> anyhow::Result<DataPlace> {
        match (config::place(path), &self.data) {
            (Ok(place), None) => Ok(place),
            (Ok(place), Some(data)) => Ok(DataPlace {
                // The door of a toolgate on another directory would tell of that one's calls.
                door: if is_same(data, &place.data) {
                    place.door
                } else {
                    Err(Vec::new())
                },
                data: data.clone(),
                ..place
            }),
            (Err(wrong), Some(data)) => Ok(DataPlace {
                data: data.clone(),
                door: Err(wrong.clone()),
                ledger: Err(wrong),
                servers: Vec::new(),
            }),
            (Err(wrong), None) => {
                say_all(&wrong);
                let words = format!(
                    "{} does not say where the data directory is, as shown above; name it with --data DIR",
                    path.display()
                );
                Err(PlaceUnknown(words).into())
            }
        }
    }

    /// `config` on the data directory that is named, if one is.
    ///
    /// # Errors
    /// What goes elsewhere, because it is not toolgate's to remove, would be in that directory.
    pub fn apply(&self, mut config: Config) -> anyhow::Result<Config> {
        let Some(data) = &self.data else {
            return Ok(config);
        };
        if let Some(why) = why_unusable(&config, data) {
            bail!("{why}; name another with --data");
        }
        config.data.clone_from(data);
        Ok(config)
    }
}

/// Why `config` cannot have its record in the directory `data`, if it cannot.
pub fn why_unusable(config: &Config, data: &Path) -> Option<String> {
    let heads = config.ledger.heads.as_ref();
    let heads = heads.and_then(|heads| heads.file.as_ref());
    let elsewhere = [
        ("archive", config.ledger.archive.as_ref()),
        ("heads", heads),
    ];
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let data_whole = whole(data);
    let within = |(_, path): &(&str, Option<&PathBuf>)| {
        path.is_some_and(|path| whole(path).starts_with(&data_whole))
    };
    let (key, _) = elsewhere.into_iter().find(within)?;
    Some(format!(
        "`ledger.{key}` of the configuration is in the data directory {}",
        data.display()
    ))
}

/// Whether `data` may be the data directory of a toolgate that has run: of what is missing elsewhere it must not
/// be said that there is none.
///
/// # Errors
/// There is no journal. One of another account cannot be seen, and is for who asks its toolgate.
pub fn has_run(data: &Path) -> anyhow::Result<()> {
    match JournalReader::open(data) {
        Err(error @ JournalError::NoJournal(_)) => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether both are one directory.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    one == other || whole(one).is_some_and(|one| whole(other) == Some(one))
}

/// Why it is not known where a record is, or whom to ask: nothing is done then, because a default
/// would be another's.
#[derive(Debug)]
pub struct PlaceUnknown(String);

impl fmt::Display for PlaceUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlaceUnknown {}

/// Why a sealed record cannot be opened for writing: the key that seals it is not to be had.
#[derive(Debug)]
pub struct KeyUnknown(pub String);

impl fmt::Display for KeyUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KeyUnknown {}

/// How the record is kept: with which keys it is sealed and encrypted, and where its archive is.
///
/// # Errors
/// [`PlaceUnknown`]: the configuration does not say; without its keys a forged record would look
/// sound.
pub fn kept(place: &DataPlace) -> anyhow::Result<&Ledger> {
    place.ledger.as_ref().map_err(|wrong| {
        say_all(wrong);
        let words = "the configuration does not say how the ledger is kept, as shown above, so that its seals and contents \
                     cannot be checked and read; correct it, or name the ledger with --data alone and its keys with --key";
        PlaceUnknown(words.to_owned()).into()
    })
}

/// Where the operators' door is that answers for `place`.
///
/// # Errors
/// [`PlaceUnknown`]: the configuration does not say, or another record is meant than its own.
pub fn door(place: &DataPlace) -> anyhow::Result<DoorAddress> {
    let said = place.door.as_ref().copied().map_err(|wrong| {
        say_all(wrong);
        let words = format!(
            "where the operators' door of the toolgate on {} is, no configuration says; name it with --admin ADDRESS",
            place.data.display()
        );
        PlaceUnknown(words)
    })?;
    Ok(of_this_machine(said)?)
}

/// The operators' door as a configuration says it, which may lie in a directory that came from somewhere: an
/// operator's token goes no further than this machine for it.
fn of_this_machine(door: DoorAddress) -> Result<DoorAddress, PlaceUnknown> {
    // Only an address of this machine can be listened at.
    let is_own = |ip: IpAddr| ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok();
    if door.at.tcp().is_none_or(|address| is_own(address.ip())) {
        return Ok(door);
    }
    Err(PlaceUnknown(format!(
        "the configuration says that the operators' door is at {door}, which is another machine; nothing was asked \
         there, since your token would travel to it unencrypted. If you mean it, name it with --admin {door}"
    )))
}

/// As [`door`]; none where it is not known, and what is wrong with a configuration that should say it is on standard
/// error.
pub fn door_if_any(place: &DataPlace) -> Option<DoorAddress> {
    match place.door.as_ref().map(|door| of_this_machine(*door)) {
        Ok(Ok(door)) => Some(door),
        Ok(Err(elsewhere)) => {
            say(&format!("toolgate: {elsewhere}"));
            None
        }
        Err(wrong) => {
            say_all(wrong);
            None
        }
    }
}

/// Why the toolgate at `address` was asked nothing about the directory `data`.
pub fn door_of_another(data: &Path, address: DoorAddress) -> anyhow::Error {
    let words = format!(
        "what answers at {address} is the toolgate of another data directory than {}, or of an earlier version; nothing was asked of it. Name the operators' door of the one that is meant with --admin ADDRESS, or its configuration with --config; `toolgate stdio` has no door, and has to end first",
        data.display()
    );
    PlaceUnknown(words).into()
}

/// Why the door at `address`, which speaks no TLS, is not asked by one who names a certificate.
pub fn no_tls_at(address: DoorAddress) -> PlaceUnknown {
    let tls = match address.at.tcp() {
        Some(tcp) => format!(": write --admin https://{tcp}, or leave it out"),
        None => format!(", which {address} does not: leave it out"),
    };
    PlaceUnknown(format!("--ca is for a door that speaks TLS{tls}"))
}

/// Where the operators' door is that answers for the record that is `named`, or for that of the first configuration
/// that is found; and that record's directory.
///
/// # Errors
/// [`PlaceUnknown`]: there is no configuration, or it does not say.
pub fn door_of(named: &DataArgs) -> anyhow::Result<(DoorAddress, PathBuf)> {
    if named.data.is_some() {
        let place = named.place()?;
        return Ok((door(&place)?, place.data));
    }
    let Some(path) = named.config.clone().or_else(config::find) else {
        let words = "no configuration was found; name one with --config, or the operators' door with --admin ADDRESS";
        return Err(PlaceUnknown(words.to_owned()).into());
    };
    let found = config::place(&path).and_then(|place| Ok((place.door?, place.data)));
    let (door, data) = found.map_err(|wrong| {
        say_all(&wrong);
        let words = format!(
            "{} does not say where the operators' door is, as shown above; name it with --admin ADDRESS",
            path.display()
        );
        PlaceUnknown(words)
    })?;
    Ok((of_this_machine(door)?, data))
}

/// The configuration that was named, or the first that is found.
pub fn path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(named) => Ok(named.to_path_buf()),
        None => match config::find() {
            Some(found) => Ok(found),
            None => bail!(
                "no configuration was found; name one with --config, or write ./toolgate.yaml"
            ),
        },
    }
}

/// What the process runs on, also while the policies have errors; or every problem on standard
/// error.
pub fn process(path: &Path) -> anyhow::Result<Config> {
    match config::process(path) {
        Some(config) => Ok(config),
        None => load(Some(path))?
            .1
            .config
            .context("the configuration cannot be used"),
    }
}

/// The configuration and its policy, or every problem on standard error.
pub fn load(named: Option<&Path>) -> anyhow::Result<(PathBuf, Loaded)> {
    let path = path(named)?;
    let loaded = config::load(&path);
    usable(path, loaded, Severity::Warning)
}

/// As [`load`], without a word about warnings, where secrets and addresses may be missing: for who
/// judges calls that nobody makes.
pub fn supposed(named: Option<&Path>) -> anyhow::Result<(PathBuf, Loaded)> {
    let path = path(named)?;
    let loaded = config::load_supposing(&path);
    usable(path, loaded, Severity::Error)
}

/// As [`supposed`], without policies and the pin file: for who asks the tool servers alone.
pub fn ungoverned(named: Option<&Path>) -> anyhow::Result<(PathBuf, Loaded)> {
    let path = path(named)?;
    let loaded = config::load_ungoverned(&path);
    usable(path, loaded, Severity::Error)
}

/// As [`load`], without the pin file and without warnings: for the command that is about to write
/// it.
pub fn unpinned(named: Option<&Path>) -> anyhow::Result<(PathBuf, Loaded)> {
    let path = path(named)?;
    let loaded = config::load_unpinned(&path, &|name| std::env::var(name).ok());
    usable(path, loaded, Severity::Error)
}

/// Says the errors, and how many warnings there are, unless `least` is an error.
fn usable(path: PathBuf, loaded: Loaded, least: Severity) -> anyhow::Result<(PathBuf, Loaded)> {
    let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
    let all = &loaded.reading.diagnostics;
    let errors = all.iter().filter(is_error).count();
    let (told, _) = foremost(all, ERRORS_SAID_AT_MOST);
    for diagnostic in told.into_iter().filter(is_error) {
        say(&diagnostic.to_string());
    }
    if errors > 0 {
        let shown = if errors > ERRORS_SAID_AT_MOST {
            format!("{ERRORS_SAID_AT_MOST} of them shown above; `toolgate check` shows more")
        } else {
            "shown above".to_owned()
        };
        bail!(
            "{} cannot be used: {}, {shown}",
            path.display(),
            counted(errors, "problem")
        );
    }
    let warnings = loaded.reading.diagnostics.len();
    if warnings > 0 && least == Severity::Warning {
        let warnings = counted(warnings, "warning");
        say(&format!("{warnings}; `toolgate check` lists them"));
    }
    Ok((path, loaded))
}

/// The policy as a toolgate on the data directory `data` has it: without the tools that operators
/// and incidents have taken away.
pub fn in_force(loaded: Loaded, data: &Path) -> anyhow::Result<Policy> {
    let policy = loaded.reading.policy.context("the policy cannot be used")?;
    let disabled = disabling::read(data).unwrap_or_else(|error| {
        say(&format!(
            "toolgate: {error}; this is judged as if none were"
        ));
        Disabled::new()
    });
    let frozen = incidents::frozen(data).unwrap_or_else(|error| {
        say(&format!(
            "toolgate: {error}; this is judged as if nothing were"
        ));
        Vec::new()
    });
    let tools = disabled;
    Ok(policy.without(TakenAway { tools, frozen }))
}

/// Each of them on standard error.
fn say_all(diagnostics: &[Diagnostic]) {
    for diagnostic in foremost(diagnostics, ERRORS_SAID_AT_MOST).0 {
        say(&diagnostic.to_string());
    }
}

/// One line on standard error; nothing in it acts on the terminal that shows it.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(
        std::io::stderr(),
        "{}",
        Terminal::stderr().tinted(&shown(line))
    );
}

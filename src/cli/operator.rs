//! What an operator does with the calls and tools of a toolgate: through the operators' door of one
//! that runs, or on its data directory when none does (the lock tells).

use super::configured::{self, DataArgs};
use super::ledger::text::{json, plain};
pub(super) use super::printed::print;
use super::runtime::runtime;
use super::timeouts::timeout;
use crate::config::{DataPlace, DoorAddress};
use crate::mcp::json::Text;
use crate::store::journal::Journal;
use crate::telemetry::tasks;
use door::{DoorRefusal, DoorRequest};
use patience::Patience;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use token::OperatorToken;
pub(super) use token::TOKEN_VARIABLE;
use tokio::sync::mpsc;
use whose::DoorNaming;

mod connection;
pub(super) mod direct;
pub(super) mod door;
mod download;
mod hints;
mod patience;
mod token;
pub(super) mod whose;

/// The exit code where a command line cannot be used, as clap has it.
pub(super) const MISUSE_EXIT_CODE: u8 = 2;

/// How long an answer may take, unless it is said.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to find out whether a toolgate is there.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a running toolgate is, and who asks.
#[derive(Debug, clap::Args)]
pub(super) struct DoorArgs {
    /// The operators' address of the running toolgate, if it is not the configuration's: IP:PORT,
    /// https://IP:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS", global = true)]
    admin: Option<DoorAddress>,
    /// A file with the certificate of that door, or of who vouches for it, where it speaks TLS [default:
    /// that of the configuration]
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// A file with your token, which only you can read [default: the variable `OPERATOR_TOKEN`, or it is
    /// asked for at a terminal]
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// How long the running toolgate may take for an answer [default: 30s, at most 10m]
    #[arg(long, value_name = "TIME", global = true, value_parser = timeout)]
    answer_timeout: Option<Duration>,
    /// Until when a verb waits that has a time of its own.
    #[arg(skip)]
    patience: OnceLock<Patience>,
    /// The token, once it is read: a person is asked once.
    #[arg(skip)]
    token: OnceLock<Option<OperatorToken>>,
}

/// The operators' door of a running toolgate, and who asks there.
pub(super) struct AskedDoor<'a> {
    pub(super) address: DoorAddress,
    token: Option<&'a OperatorToken>,
    /// How long an answer may take.
    args: &'a DoorArgs,
}

impl AskedDoor<'_> {
    /// What the door answers, or in words why it refuses; `nobody` says what it means when nothing
    /// answers there.
    pub(super) fn ask(
        &self,
        request: DoorRequest,
        nobody: &str,
    ) -> anyhow::Result<Result<Text, String>> {
        let answered = runtime()?.block_on(self.asks(request, nobody))?;
        Ok(answered.map_err(|refused| refused.to_string()))
    }

    /// As [`Self::ask`], within a runtime.
    pub(super) async fn asks(
        &self,
        request: DoorRequest,
        nobody: &str,
    ) -> anyhow::Result<Result<Text, DoorRefusal>> {
        let token = self.token.map(|token| token.secret.expose());
        let bound = self.args.answer_bound();
        let answered = door::ask(self.address, token, request, bound, nobody).await?;
        Ok(answered.map_err(|refused| refused.of_token(|| token::refused(self.token))))
    }

    /// Something comes for each event of the stream at `path`, until it ends.
    pub(super) fn listen(&self, path: &'static str) -> mpsc::Receiver<()> {
        let (heard, events) = mpsc::channel(1);
        let token = self.token.map(|token| token.secret.clone());
        tasks::spawn("events", door::listen(self.address, token, path, heard));
        events
    }
}

impl DoorArgs {
    /// The door that is named, or the one of the record that is `named`, or of the first configuration that is
    /// found.
    ///
    /// # Errors
    /// [`configured::PlaceUnknown`]: there is none, or the toolgate of another record answers there.
    pub(super) fn of_record(&self, named: &DataArgs) -> anyhow::Result<AskedDoor<'_>> {
        let (address, data) = match self.admin {
            // Who names a door needs no configuration.
            Some(address) => (address, named.data.clone()),
            None => configured::door_of(named).map(|(door, data)| (door, Some(data)))?,
        };
        let address = self.trusted(address)?;
        if let Some(data) = data {
            self.judge(&data, address)?;
        }
        self.at(address)
    }

    /// From now on answers are waited for until `time` is over, and a little for the last one.
    pub(super) fn be_patient_for(&self, time: Duration) {
        self.patience.get_or_init(|| Patience::of(time));
    }

    /// How long an answer may take from now on.
    fn answer_bound(&self) -> Duration {
        let bound = self.answer_timeout.unwrap_or(ANSWER_TIMEOUT);
        let left = self.patience.get().map(Patience::for_answer);
        left.map_or(bound, |left| left.min(bound))
    }

    /// How long it may take from now on to find out whether a toolgate is there.
    pub(super) fn look_bound(&self) -> Duration {
        let bound = self.answer_timeout.unwrap_or(ANSWER_TIMEOUT);
        let left = self.patience.get().map(Patience::for_look);
        LOOK_TIMEOUT.min(left.map_or(bound, |left| left.min(bound)))
    }

    /// Whether the toolgate at `address`, if there is one, is that of the directory `data`.
    fn judge(&self, data: &Path, address: DoorAddress) -> anyhow::Result<()> {
        let judged = whose::judge(data, address, DoorNaming::Directory, self.look_bound());
        runtime()?.block_on(judged)
    }

    /// Whether the door is named, and not only the configuration's.
    pub(super) fn is_named(&self) -> bool {
        self.admin.is_some()
    }

    /// Where the door is that is named, or the one of `place`.
    ///
    /// # Errors
    /// [`configured::PlaceUnknown`]: no configuration says it, or it speaks no TLS and a certificate is named.
    fn address_of(&self, place: &DataPlace) -> anyhow::Result<DoorAddress> {
        let address = self.admin.map_or_else(|| configured::door(place), Ok);
        address.and_then(|address| Ok(self.trusted(address)?))
    }

    /// As [`Self::address_of`]; none where no configuration says it, for who has something to show all the same.
    /// Why it does not goes to standard error.
    ///
    /// # Errors
    /// [`configured::PlaceUnknown`]: it speaks no TLS, and a certificate is named.
    pub(super) fn address_if_any(&self, place: &DataPlace) -> anyhow::Result<Option<DoorAddress>> {
        let address = self.admin.or_else(|| configured::door_if_any(place));
        let trusted = address.map(|address| self.trusted(address));
        Ok(trusted.transpose()?)
    }

    /// The door at `address`, known by the certificate that is named, if one is.
    ///
    /// # Errors
    /// One is, and the door speaks no TLS: an operator who names it does not mean the token to go there unencrypted.
    fn trusted(&self, address: DoorAddress) -> Result<DoorAddress, configured::PlaceUnknown> {
        match &self.ca {
            None => Ok(address),
            Some(file) if address.speaks_tls => Ok(address.with_tls(file.clone())),
            Some(_) => Err(configured::no_tls_at(address)),
        }
    }

    /// Which toolgate is meant where a directory is `named`, or a door.
    pub(super) fn naming(&self, named: &DataArgs) -> DoorNaming {
        if self.admin.is_some() && named.data.is_none() {
            DoorNaming::Address
        } else {
            DoorNaming::Directory
        }
    }

    /// The door at `address` for what is also worth seeing without a token: none is asked for at the terminal.
    pub(super) fn at_unasked(&self, address: DoorAddress) -> anyhow::Result<AskedDoor<'_>> {
        let read = OperatorToken::at_hand(self.token_file.as_deref())?;
        let token = self.token.get_or_init(|| read).as_ref();
        Ok(AskedDoor {
            address,
            token,
            args: self,
        })
    }

    /// The door at `address`, and the token to show there; none when there is none, so that the door
    /// says whether one is needed.
    fn at(&self, address: DoorAddress) -> anyhow::Result<AskedDoor<'_>> {
        if self.token.get().is_none() {
            let read = OperatorToken::read(self.token_file.as_deref())?;
            self.token.get_or_init(|| read);
        }
        let token = self.token.get().and_then(Option::as_ref);
        Ok(AskedDoor {
            address,
            token,
            args: self,
        })
    }

    /// What the toolgate answers that holds the data directory of `place`; another is not asked.
    pub(super) fn ask_holder<T: DeserializeOwned>(
        &self,
        place: &DataPlace,
        request: DoorRequest,
    ) -> anyhow::Result<Result<T, String>> {
        let address = self.address_of(place)?;
        self.judge(&place.data, address)?;
        let nobody = format!(
            "the data directory is a running toolgate's or another user's, and no operators' door answers at {address}; name \
             its address with --admin, or stop it and do this as the directory's owner"
        );
        match self.at(address)?.ask(request, &nobody)? {
            Ok(text) => Ok(Ok(text.parse()?)),
            Err(why) => Ok(Err(why)),
        }
    }

    /// What `on_disk` makes of the data directory, or what the toolgate answers that holds it.
    pub(super) fn ask_anyone<T: DeserializeOwned>(
        &self,
        place: &DataPlace,
        request: DoorRequest,
        on_disk: impl AsyncFnOnce(Journal) -> anyhow::Result<Result<T, String>>,
    ) -> anyhow::Result<Result<T, String>> {
        match direct::open(place)? {
            Some(journal) => runtime()?.block_on(on_disk(journal)),
            None => self.ask_holder(place, request),
        }
    }
}

/// Prints what `words` make of an answer, or why there is none; 0 when it was done, 1 when it was
/// refused.
pub(super) fn show<T>(
    answer: Result<T, String>,
    words: impl FnOnce(T) -> anyhow::Result<String>,
) -> anyhow::Result<u8> {
    match answer {
        Ok(answer) => print(&words(answer)?).map(|()| 0),
        Err(why) => Ok(refused(&why)),
    }
}

/// How an answer is printed that is a sentence else.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct ReplyArgs {
    /// The answer as one JSON object on a line
    #[arg(long)]
    json: bool,
}

impl ReplyArgs {
    /// Whether JSON is asked for.
    pub(super) fn is_json(self) -> bool {
        self.json
    }

    /// As [`show`], or the answer as JSON where that is asked for.
    pub(super) fn show<T: Serialize>(
        self,
        answer: Result<T, String>,
        words: impl FnOnce(T) -> anyhow::Result<String>,
    ) -> anyhow::Result<u8> {
        show(answer, |answer| {
            if self.json {
                return Ok(json(&serde_json::to_string(&answer)?) + "\n");
            }
            words(answer)
        })
    }
}

/// Says why nothing was done; the exit code for that.
pub(super) fn refused(why: &str) -> u8 {
    configured::say(&format!("toolgate: {}", plain(why)));
    1
}

/// Says why what was typed cannot be used; the exit code for that.
pub(super) fn misused(why: &str) -> u8 {
    configured::say(&format!("toolgate: {}", plain(why)));
    MISUSE_EXIT_CODE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token goes nowhere unencrypted where its operator has named a certificate.
    #[test]
    fn a_certificate_is_for_a_door_with_tls() {
        let args = |ca: Option<&str>| DoorArgs {
            admin: None,
            ca: ca.map(PathBuf::from),
            token_file: None,
            answer_timeout: None,
            patience: OnceLock::new(),
            token: OnceLock::new(),
        };
        let at = |address: &str| address.parse::<DoorAddress>().unwrap();
        let plain = at("10.0.0.5:7778");
        assert_eq!(args(None).trusted(plain).unwrap(), plain);
        let why = args(Some("ca.pem")).trusted(plain).unwrap_err().to_string();
        assert!(why.contains("--admin https://10.0.0.5:7778"), "{why}");
        let why = args(Some("ca.pem")).trusted(at("unix:/run/admin.sock"));
        let why = why.unwrap_err().to_string();
        assert!(!why.contains("https"), "{why}");
        let encrypted = args(Some("ca.pem")).trusted(at("https://10.0.0.5:7778"));
        assert!(encrypted.unwrap().certificate.is_some());
    }
}

//! Where a toolgate keeps its record, and where its operators' door is, as far as its configuration
//! says so, whatever else is wrong with it: for verbs that only look, and for those that have to
//! work while policies are broken or secrets are elsewhere.
//!
//! A default stands only where nothing can have meant another: in a file without `data` whose keys
//! are all known.

use super::settings::{
    ConfigSettings, DEFAULT_ADMIN_LISTEN, DEFAULT_DATA_DIRECTORY, LedgerSettings,
};
use super::{DataPlace, Ledger, doors, ledger, variables};
use crate::model::diagnostic::{Diagnostic, Problems, Severity};
use crate::model::ids::ServerName;
use crate::model::listen::{ListenAddress, NoListenAddress};
use crate::policy::locate::YamlDocument;
use crate::policy::shape;
use serde_json::{Value, json};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Keys of `ledger` that matter only to who writes the record.
const WRITERS_KEYS: [&str; 4] = ["keep", "max_bytes", "compress", "heads"];

/// Without any configuration: where one that names nothing has them.
impl Default for DataPlace {
    fn default() -> Self {
        Self {
            data: PathBuf::from(DEFAULT_DATA_DIRECTORY),
            ledger: Ok(Ledger::default()),
            door: Ok(DEFAULT_ADMIN_LISTEN.into()),
            servers: Vec::new(),
        }
    }
}

/// What `document`, whose relative paths start at `directory`, says of it; or why the data directory
/// is not known.
pub(super) fn of(
    document: &YamlDocument,
    directory: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<DataPlace, Vec<Diagnostic>> {
    let look = PlaceReader {
        document,
        directory,
        variable,
    };
    let data = look.data_dir()?;
    let servers = document.tree()["servers"].as_object();
    let servers = servers.into_iter().flat_map(|servers| servers.keys());
    Ok(DataPlace {
        ledger: look.ledger(&data),
        door: look.door(),
        servers: servers.map(|name| ServerName::new(name)).collect(),
        data,
    })
}

/// What stands before an address at which TLS is spoken.
const TLS_SCHEME: &str = "https://";

/// Where an operators' door is, as who asks there needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorAddress {
    /// Its address.
    pub at: ListenAddress,
    /// Whether it speaks TLS.
    pub speaks_tls: bool,
    /// The file with the certificate that it shows, where the configuration says so.
    pub certificate: Option<&'static Path>,
}

impl From<SocketAddr> for DoorAddress {
    fn from(address: SocketAddr) -> Self {
        Self::plain(address.into())
    }
}

impl DoorAddress {
    fn plain(at: ListenAddress) -> Self {
        Self {
            at,
            speaks_tls: false,
            certificate: None,
        }
    }

    /// The same with TLS, where the door shows what the file `certificate` holds.
    pub(crate) fn with_tls(self, certificate: PathBuf) -> Self {
        Self {
            speaks_tls: true,
            // A verb asks at one door or two, and ends: nothing gathers.
            certificate: Some(&*Box::leak(certificate.into_boxed_path())),
            ..self
        }
    }
}

impl FromStr for DoorAddress {
    type Err = NoListenAddress;

    fn from_str(text: &str) -> Result<Self, NoListenAddress> {
        let Some(address) = text.strip_prefix(TLS_SCHEME) else {
            return text.parse().map(Self::plain);
        };
        let address: SocketAddr = address.parse().map_err(|_| NoListenAddress::Unreadable)?;
        Ok(Self {
            speaks_tls: true,
            ..Self::from(address)
        })
    }
}

impl fmt::Display for DoorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.speaks_tls { TLS_SCHEME } else { "" };
        write!(f, "{scheme}{}", self.at)
    }
}

struct PlaceReader<'a> {
    document: &'a YamlDocument,
    /// Where relative paths start.
    directory: &'a Path,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl PlaceReader<'_> {
    fn data_dir(&self) -> Result<PathBuf, Vec<Diagnostic>> {
        let Some(written) = self.document.tree().get("data") else {
            return self
                .is_whole()
                .map(|()| self.directory.join(DEFAULT_DATA_DIRECTORY));
        };
        let mut problems = Problems::default();
        let data = problems.under("data", |problems| {
            let text = self.text(written, problems)?;
            Some(doors::data_dir(&text, self.directory, problems))
        });
        self.judged(data, problems)
    }

    /// How the record is kept, as far as it matters to who reads it.
    fn ledger(&self, data: &Path) -> Result<Ledger, Vec<Diagnostic>> {
        let written = self.document.tree().get("ledger").cloned();
        let mut written = written.unwrap_or_else(|| json!({}));
        if let Some(keys) = written.as_object_mut() {
            keys.retain(|key, _| !WRITERS_KEYS.contains(&key.as_str()));
        }
        let mut problems = Problems::default();
        let kept = problems.under("ledger", |problems| {
            variables::replace(&mut written, self.variable, problems);
            let settings = shape::read::<LedgerSettings>(written, problems)?;
            let directory = self.directory;
            let roots = ledger::LedgerRoots { data, directory };
            Some(ledger::compile(settings, roots, problems))
        });
        self.judged(kept, problems)
    }

    fn door(&self) -> Result<DoorAddress, Vec<Diagnostic>> {
        let written = &self.document.tree()["admin"]["listen"];
        let certificate = &self.document.tree()["admin"]["tls"]["cert"];
        if written.is_null() {
            self.is_whole()?;
        }
        let mut problems = Problems::default();
        let door = problems.under("admin", |problems| {
            let at = problems.under("listen", |problems| {
                if written.is_null() {
                    return Some(DEFAULT_ADMIN_LISTEN.into());
                }
                let text = self.text(written, problems)?;
                doors::address(&text, self.directory, problems)
            });
            let door = DoorAddress::plain(at?);
            if certificate.is_null() {
                return Some(door);
            }
            let certificate = problems.under("tls", |problems| {
                problems.under("cert", |problems| self.text(certificate, problems))
            });
            Some(door.with_tls(self.directory.join(certificate?)))
        });
        self.judged(door, problems)
    }

    /// Whether the file has no key that is unknown or wrong, which could stand for one that is
    /// missing.
    fn is_whole(&self) -> Result<(), Vec<Diagnostic>> {
        let (mut tree, mut unset) = (self.document.tree().clone(), Problems::default());
        variables::replace(&mut tree, self.variable, &mut unset);
        let mut problems = Problems::default();
        shape::read::<ConfigSettings>(tree, &mut problems);
        let unset = unset.into_found();
        let is_own = |path: &[String]| unset.iter().all(|unset| unset.path != path);
        let wrong: Vec<Diagnostic> = problems
            .into_found()
            .into_iter()
            .filter(|problem| is_own(&problem.path))
            .map(|problem| self.document.locate(problem))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    fn text(&self, written: &Value, problems: &mut Problems) -> Option<String> {
        let mut value = written.clone();
        variables::replace(&mut value, self.variable, problems);
        if let Value::String(text) = value {
            return Some(text);
        }
        problems.error("is no text", "write it between quotes");
        None
    }

    /// What was made of a part of the file, if nothing is wrong there. What a missing variable
    /// leaves behind is no second problem.
    fn judged<T>(&self, made: Option<T>, problems: Problems) -> Result<T, Vec<Diagnostic>> {
        let mut wrong = problems.into_found();
        wrong.retain(|problem| problem.severity == Severity::Error);
        wrong.dedup_by(|later, first| later.path == first.path);
        let mut wrong = wrong
            .into_iter()
            .map(|problem| self.document.locate(problem));
        match (made, wrong.next()) {
            (Some(made), None) => Ok(made),
            (_, first) => Err(first.into_iter().chain(wrong).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        (name == "ELSEWHERE").then(|| "elsewhere".to_owned())
    }

    fn place(text: &str) -> Result<DataPlace, String> {
        let document = YamlDocument::parse("toolgate.yaml", text.to_owned()).unwrap();
        of(&document, Path::new("/srv"), &variable).map_err(|wrong| {
            let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            wrong.join("\n")
        })
    }

    /// Issue 17 "never the wrong data": what else is wrong with a file does not change where its
    /// record is.
    #[test]
    fn the_data_directory_is_what_is_written_or_refused() {
        for (written, data) in [
            ("data: ./other\n", "/srv/./other"),
            ("data: /abs\nlisten: ${UNSET}\nservers: 7\n", "/abs"),
            ("data: other\npolices: [x]\nmode: enforced\n", "/srv/other"),
            ("data: \"${ELSEWHERE}/x\"\n", "/srv/elsewhere/x"),
            ("data: \"${UNSET:-y}\"\n", "/srv/y"),
            (
                "policies: [./broken]\ncallers: [ { agent: a, token: \"${UNSET}\" } ]\n",
                "/srv/./toolgate-data",
            ),
            ("", "/srv/./toolgate-data"),
        ] {
            let found = place(written).map(|place| place.data);
            assert_eq!(found, Ok(PathBuf::from(data)), "{written}");
        }
        for (written, problem) in [
            (
                "data: \"${UNSET}\"\n",
                "1:7: error: the variable `UNSET` is not set",
            ),
            ("data: redis://x\n", "is not a directory"),
            ("data: \" \"\n", "is blank"),
            ("data: [other]\n", "is no text"),
            ("data: 7\n", "is no text"),
            ("dta: ./other\n", "`data`"),
            ("directory: ./other\n", "directory"),
            ("ledger: { data: ./other }\n", "data"),
            ("servers: { data: ./other }\n", "expected a mapping"),
        ] {
            let wrong = place(written).map(|place| place.data).unwrap_err();
            assert!(wrong.contains(problem), "{written}: {wrong}");
        }
    }

    #[test]
    fn what_is_no_text_says_where() {
        let wrong = place("data: 7\n").map(|place| place.data).unwrap_err();
        insta::assert_snapshot!("no_text", wrong);
    }

    /// Who reads a sealed record has to know that it is one, and with which key; where heads go is
    /// the matter of who writes it.
    #[test]
    fn how_the_record_is_kept_is_known_or_said_to_be_unknown() {
        let kept = |ledger: &str| {
            place(&format!("data: d\nledger: {ledger}\n"))
                .unwrap()
                .ledger
        };
        let sealed = kept(
            "{ seal: { key: { env: SEAL } }, keep: soon, heads: { webhook: { url: \"${UNSET}\", secret: \"${UNSET}\" } } }",
        );
        assert!(sealed.unwrap().seal.key.is_some());
        for wrong in [
            "{ seel: { key: { env: SEAL } } }",
            "{ seal: { key: { file: \"${UNSET}\" } } }",
            "{ seal: {} }",
            "{ archive: d/inside }",
            "sealed",
        ] {
            assert!(!kept(wrong).unwrap_err().is_empty(), "{wrong}");
        }
    }

    #[test]
    fn the_operators_door_is_what_is_written_or_refused() {
        let door = |text: &str| place(text).unwrap().door;
        let listen = "data: d\nadmin: { listen: \"127.0.0.1:9\", tokens: [ { name: a, token: \"${UNSET}\" } ] }\n";
        let at = SocketAddr::from(([127, 0, 0, 1], 9));
        assert_eq!(door(listen), Ok(at.into()));
        assert_eq!(door("data: d\n"), Ok(DEFAULT_ADMIN_LISTEN.into()));
        let socket = door("data: d\nadmin: { listen: \"unix:run/a.sock\" }\n").unwrap();
        assert_eq!(socket.to_string(), "unix:/srv/run/a.sock");
        let with_tls = door("data: d\nadmin: { listen: \"127.0.0.1:9\", tls: { cert: c.pem, key: \"${UNSET}\" } }\n").unwrap();
        assert_eq!(with_tls.certificate, Some(Path::new("/srv/c.pem")));
        assert_eq!(with_tls.to_string(), "https://127.0.0.1:9");
        assert_eq!(
            "https://127.0.0.1:9".parse::<DoorAddress>().unwrap().at,
            at.into()
        );
        assert!(door("data: d\nadmin: { tls: { cert: [] } }\n").is_err());
        assert!(door("data: d\nadmin: { lisen: \"127.0.0.1:9\" }\n").is_err());
        assert!(door("data: d\nadmin: { listen: \"${UNSET}\" }\n").is_err());
    }
}

//! The invoices and the effects of the billing server, in one JSON file that a test can read at any
//! moment.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether an invoice has left the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// May still be deleted.
    Draft,
    /// The customer has it.
    Sent,
}

/// One invoice, as stored and as shown to agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Invoice {
    /// Name of the invoice, never used twice.
    pub id: String,
    /// The tenant that bills.
    pub tenant_id: String,
    /// The customer that pays.
    pub customer_id: String,
    /// Amount in hundredths of the currency.
    pub amount_cents: i64,
    /// Three-letter currency code.
    pub currency: String,
    /// Free text for the customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Draft or sent.
    pub status: Status,
}

/// One thing that a tool changed in the world. A repeated call appends a second one: that is how
/// repetitions are counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Position among all effects, from 1.
    pub sequence: u64,
    /// The tool that was called.
    pub tool: String,
    /// The invoice it changed, in the state after the change (before it, when the change was a
    /// deletion).
    pub invoice: Invoice,
    /// What the call's `_meta` said under `dev.toolgate/`.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub meta: JsonObject,
}

/// The content of the state file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// How many invoices were ever created; gives the next id.
    pub created: u64,
    /// The invoices that exist, oldest first.
    pub invoices: Vec<Invoice>,
    /// Everything that was ever done, in order.
    pub effects: Vec<Effect>,
}

impl Ledger {
    /// The invoice of that name.
    ///
    /// # Errors
    /// A sentence for the agent when there is none.
    pub fn find(&self, id: &str) -> Result<&Invoice, String> {
        self.invoices
            .iter()
            .find(|invoice| invoice.id == id)
            .ok_or_else(|| format!("There is no invoice {id:?}."))
    }

    /// A name that no invoice had before.
    pub fn next_id(&mut self) -> String {
        self.created += 1;
        format!("inv_{:04}", self.created)
    }

    /// Appends what `tool` just did.
    pub fn record(&mut self, tool: &str, invoice: Invoice, meta: JsonObject) {
        let sequence = self.effects.last().map_or(0, |effect| effect.sequence) + 1;
        self.effects.push(Effect {
            sequence,
            tool: tool.to_owned(),
            invoice,
            meta,
        });
    }
}

/// The state file. Several servers may share one, as the replicas of a test do: every access holds
/// a lock on a file beside it.
#[derive(Debug, Clone)]
pub(super) struct LedgerFile {
    path: PathBuf,
}

impl LedgerFile {
    /// The file of that name; it need not exist yet.
    pub(super) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Reads the file and gives what `look` says of it.
    ///
    /// # Errors
    /// What `look` answers, or a sentence on why the file cannot be read.
    pub(super) fn read<T>(
        &self,
        look: impl FnOnce(&Ledger) -> Result<T, String>,
    ) -> Result<T, String> {
        let _held = self.lock().map_err(|error| self.unusable(&error))?;
        look(&self.load().map_err(|error| self.unusable(&error))?)
    }

    /// Reads the file, lets `change` alter the ledger, and has it on disk before giving what
    /// `change` says.
    ///
    /// # Errors
    /// What `change` answers, in which case nothing is written; or a sentence on why the file
    /// cannot be read or written.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&mut Ledger) -> Result<T, String>,
    ) -> Result<T, String> {
        let _held = self.lock().map_err(|error| self.unusable(&error))?;
        let mut ledger = self.load().map_err(|error| self.unusable(&error))?;
        let answer = change(&mut ledger)?;
        self.store(&ledger).map_err(|error| self.unusable(&error))?;
        Ok(answer)
    }

    fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.beside("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    fn load(&self) -> io::Result<Ledger> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ledger::default()),
            Err(error) => Err(error),
        }
    }

    /// A reader sees the old file or the new one, and what was answered survives a crash of the
    /// machine.
    fn store(&self, ledger: &Ledger) -> io::Result<()> {
        let fresh = self.beside("new");
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(ledger)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        let folder = self
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }

    fn unusable(&self, error: &io::Error) -> String {
        format!(
            "The billing state in {} cannot be used: {error}.",
            self.path.display()
        )
    }
}

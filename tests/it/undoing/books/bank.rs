//! The bank: what it books and cancels is on the disk before it answers.

use super::super::{done, name_of};
use super::Sums;
use crate::harness::scripted_server::{Reply, Seen};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The tool server's own book.
pub(super) struct Bank {
    path: PathBuf,
    state: Mutex<BankState>,
}

struct BankState {
    file: File,
    booked: BTreeMap<String, BookedOrder>,
    /// What must not happen, and has.
    wrongs: Vec<String>,
}

struct BookedOrder {
    /// The call that ordered it.
    action: String,
    is_cancelled: bool,
}

impl Bank {
    pub(super) fn new(path: &Path) -> Self {
        let state = BankState {
            file: File::create(path).unwrap(),
            booked: BTreeMap::new(),
            wrongs: Vec::new(),
        };
        Self {
            path: path.to_owned(),
            state: Mutex::new(state),
        }
    }

    /// Orders that were booked, cancelled ones too.
    pub(super) fn orders(&self) -> usize {
        self.state.lock().unwrap().booked.len()
    }

    pub(super) fn cancelled(&self) -> usize {
        let state = self.state.lock().unwrap();
        let cancelled = state.booked.values().filter(|order| order.is_cancelled);
        cancelled.count()
    }

    pub(super) fn wrongs(&self) -> Vec<String> {
        self.state.lock().unwrap().wrongs.clone()
    }

    /// The call that ordered it, and whether it is cancelled; none of what was never booked.
    pub(super) fn order(&self, name: &str) -> Option<(String, bool)> {
        let state = self.state.lock().unwrap();
        let order = state.booked.get(name)?;
        Some((order.action.clone(), order.is_cancelled))
    }

    /// The order that the call has made.
    pub(super) fn named(&self, action: &str) -> String {
        let state = self.state.lock().unwrap();
        let mut orders = state.booked.iter();
        let order = orders.find(|(_, order)| order.action == action);
        order.map(|(name, _)| name.clone()).unwrap_or_default()
    }

    /// What toolgate hears.
    pub(super) fn answers(&self, seen: &Seen) -> Reply {
        let params = &seen.body["params"];
        let arguments = &params["arguments"];
        let name = arguments["order"].as_str().unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        match name_of(seen).as_str() {
            "order" => {
                let action = params["_meta"]["dev.toolgate/fence"]["action"].as_str();
                state.books(name, action.unwrap_or_default(), arguments);
                done(&json!({ "receipt": name }))
            }
            "cancel" => {
                state.cancels(name);
                done(&json!({ "cancelled": true }))
            }
            _ => {
                let order = state.booked.get(name);
                let is_cancelled = order.is_some_and(|order| order.is_cancelled);
                let receipt = order.map(|_| name);
                done(&json!({ "receipt": receipt, "cancelled": is_cancelled }))
            }
        }
    }

    /// The sums, by the file alone.
    pub(super) fn read_anew(&self) -> Sums {
        let text = std::fs::read_to_string(&self.path).unwrap();
        let mut orders: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let name = line["order"].as_str().unwrap().to_owned();
            if line["is_cancelled"] == true {
                assert!(orders.remove(&name).is_some(), "{line}");
            } else {
                let number = |member: &str| line[member].as_u64().unwrap();
                let before = orders.insert(name, (number("account"), number("amount")));
                assert_eq!(before, None, "{line}");
            }
        }
        let mut sums = Sums::new();
        for (account, amount) in orders.into_values() {
            *sums.entry(account).or_default() += amount;
        }
        sums
    }
}

impl BankState {
    fn books(&mut self, name: &str, action: &str, arguments: &Value) {
        if self.booked.contains_key(name) {
            self.wrongs
                .push(format!("{name} is ordered once more, by {action}"));
        }
        let order = BookedOrder {
            action: action.to_owned(),
            is_cancelled: false,
        };
        self.booked.insert(name.to_owned(), order);
        let (account, amount) = (&arguments["account"], &arguments["amount"]);
        self.note(&json!({ "order": name, "account": account, "amount": amount }));
    }

    fn cancels(&mut self, name: &str) {
        match self.booked.get_mut(name) {
            Some(order) if !order.is_cancelled => order.is_cancelled = true,
            Some(_) => self.wrongs.push(format!("{name} is cancelled once more")),
            None => self.wrongs.push(format!("{name} was never ordered")),
        }
        self.note(&json!({ "order": name, "is_cancelled": true }));
    }

    fn note(&mut self, line: &Value) {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.and_then(|()| self.file.sync_data()).unwrap();
    }
}

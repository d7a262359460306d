//! An operator who decides about each call that is held, as it comes: most are allowed, some
//! denied, and now and then the operator says the contrary right after.

use crate::dice::Dice;
use crate::wire::ask;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// What the operator shows at the door.
pub const TOKEN: &str = "token-of-ann-who-decides-about-calls";
/// Of 100 calls.
const DENIED: u64 = 25;
const CONTRADICTED: u64 = 10;

/// Decides until it is dropped.
#[derive(Debug)]
pub struct Operators {
    door: Arc<Mutex<SocketAddr>>,
    allowed: Arc<AtomicU64>,
    denied: Arc<AtomicU64>,
    deciding: JoinHandle<()>,
}

impl Operators {
    /// Begins to decide at this door.
    pub fn start(door: SocketAddr, mut dice: Dice) -> Self {
        let door = Arc::new(Mutex::new(door));
        let (allowed, denied) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (at, counts) = (door.clone(), (allowed.clone(), denied.clone()));
        let deciding = tokio::spawn(async move {
            loop {
                let address = *at.lock().unwrap_or_else(PoisonError::into_inner);
                let listed = ask(address, ("GET", "/api/approvals"), TOKEN, "").await;
                let listed = listed
                    .and_then(|(_, listed)| listed["approvals"].as_array().cloned())
                    .unwrap_or_default();
                for hold in listed.iter().filter(|hold| hold["state"] == "pending") {
                    let allow = !dice.chance(DENIED);
                    if say(address, hold, allow).await {
                        (if allow { &counts.0 } else { &counts.1 }).fetch_add(1, Ordering::Relaxed);
                    }
                    if dice.chance(CONTRADICTED) {
                        say(address, hold, !allow).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        });
        Self {
            door,
            allowed,
            denied,
            deciding,
        }
    }

    /// The door is somewhere else now.
    pub fn moved(&self, to: SocketAddr) {
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// How many calls were allowed, and how many denied, as far as the operator was told so.
    pub fn decided(&self) -> (u64, u64) {
        (
            self.allowed.load(Ordering::Relaxed),
            self.denied.load(Ordering::Relaxed),
        )
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        self.deciding.abort();
    }
}

/// Whether it was taken for an answer.
async fn say(address: SocketAddr, hold: &Value, allow: bool) -> bool {
    let path = format!("/api/approvals/{}", hold["id"].as_str().unwrap_or_default());
    let body = json!({ "decision": if allow { "allow" } else { "deny" }, "why": "drawn by lot" })
        .to_string();
    matches!(
        ask(address, ("POST", &path), TOKEN, &body).await,
        Some((200, _))
    )
}

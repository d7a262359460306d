//! One call with a side effect, as the store sees it: what the measurements of the store have in
//! common.

use bytes::Bytes;
use std::sync::LazyLock;
use toolgate::model::digest::Digest;
use toolgate::model::entry::Entry;
use toolgate::model::ids::{ActionId, ToolName};
use toolgate::store::claims::Store;
use toolgate::store::state::budget::{BudgetLimits, Price};
use toolgate::store::state::claim::{ClaimPhase, Stored};
use toolgate::store::state::command::{Intent, Settle, StoreCommand};
use toolgate::store::state::kinship::Kinship;
use toolgate::store::state::settlement::Evidence;
use toolgate::store::state::undo::AnswerWorth;

/// Call number `call` of `caller`, who is a session of its own: intent, mark and outcome.
pub(crate) async fn call(store: &dyn Store, caller: u64, call: u64) {
    let (key, action) = (
        Digest::of_parts("bench", &[&caller.to_le_bytes(), &call.to_le_bytes()]),
        ActionId::generate(),
    );
    let session = Digest::of_parts("session", &[&caller.to_le_bytes()]);
    let intent = Intent {
        account: None,
        key,
        fingerprint: key,
        action,
        round: None,
        ttl: 3_600_000,
        keep: 0,
        task: session,
        session,
        fence: store.token(),
        hold: None,
        edited: None,
        grant: None,
        limits: BudgetLimits::default(),
        origin: None,
        price: price(),
        entry: entry(&action, "dispatching"),
        kinship: Kinship::default(),
        inquiry: None,
        undo: None,
        undoes: None,
        may_undo: None,
    };
    store
        .run(StoreCommand::Begin(Box::new(intent)), None)
        .await
        .unwrap()
        .unwrap();
    store.sent(action).unwrap();
    let body = Bytes::from(format!(
        r#"{{"content":[{{"type":"text","text":"{call:0200}"}}]}}"#
    ));
    let settle = Settle {
        key,
        action,
        phase: ClaimPhase::Completed(Stored::inline(false, body)),
        evidence: Evidence::Exchange,
        cost: None,
        failed: false,
        seen: None,
        worth: AnswerWorth::Unread,
    };
    store
        .run(
            StoreCommand::Settle(settle),
            Some(entry(&action, "answered")),
        )
        .await
        .unwrap()
        .unwrap();
}

fn price() -> Price {
    Price {
        tool: ToolName::new("billing__create_invoice"),
        cost: 1,
    }
}

/// An entry as a gate makes one; read from JSON once, so that this is not measured.
fn entry(action: &ActionId, outcome: &str) -> Entry {
    static MODEL: LazyLock<Entry> = LazyLock::new(|| {
        serde_json::from_value(serde_json::json!({
            "time": "2026-11-21T05:00:00.000000Z", "action_id": "", "request_id": "17",
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "user_id": "support-bot", "tenant_id": "t_001",
            "roles": ["billing_admin"], "revision": "2026-07-28", "tool": "billing__create_invoice",
            "schema_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "params_hash": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
            "actions": ["write"], "state": "execute", "event": "exit", "outcome": "", "stage": "dispatch",
            "latency_ms": 12.345, "gate_ms": 0.123, "upstream_ms": 10.2, "policy": "0123456789ab",
        }))
        .unwrap()
    });
    Entry {
        action_id: action.to_string(),
        outcome: outcome.to_owned(),
        ..MODEL.clone()
    }
}

//! What happened across the eras before and after a kill, for the checker that judges all crash tests
//! (threat-model §12, I1 to I9).

use crate::harness::gate::{Gate, run};
use crate::harness::journal::rows;
use crate::harness::scripted_server::{ScriptedServer, Seen};
use serde_json::Value;
use toolgate_faults::agent::{Told, What, boot_time};
use toolgate_faults::invariants::{Evidence, check};
use toolgate_faults::oracle::{Execution, Fence};
use toolgate_faults::rows::digest_of;
use toolgate_faults::wire::Heard;

/// What agents were told of their calls, and when toolgate was killed.
pub struct KillHistory {
    began: i64,
    told: Vec<Told>,
    faults: Vec<i64>,
    runs: Vec<(i64, i64)>,
}

impl KillHistory {
    /// Begins with a toolgate that runs.
    pub fn begins() -> Self {
        Self {
            began: boot_time(),
            told: Vec::new(),
            faults: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Kills this toolgate.
    pub async fn kills(&mut self, gate: &mut Gate) {
        self.faults.push(boot_time());
        gate.kill().await;
        let now = boot_time();
        self.runs
            .push((std::mem::replace(&mut self.began, now), now));
    }

    /// An agent that sent this call was told that.
    pub fn tells(&mut self, params: &Value, answer: &Value) {
        let attempt = u32::try_from(self.told.len()).unwrap();
        self.told.push(Told {
            key: key_of(params),
            attempt,
            asked: self.began,
            at: boot_time(),
            what: What::of(&Heard::Answer(200, Some(answer.clone()))),
            text: answer.to_string(),
        });
    }

    /// Ends toolgate; what the server executed, what agents were told and what the journal says keep
    /// I1 to I9, and so many calls are unknown in the ledger.
    pub async fn holds(mut self, server: &ScriptedServer, gate: Gate, unknown: usize) {
        let setup = gate.stop().await;
        self.runs.push((self.began, boot_time()));
        let (status, said, wrong) = run(&setup, &["ledger", "verify", "--data", "data"]).await;
        let entries = run(&setup, &["ledger", "list", "--json", "--data", "data"])
            .await
            .1;
        let entries = entries
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let counted = entries
            .filter(|entry| entry["outcome"] == "unknown")
            .count();
        assert!(counted >= unknown, "I9: {counted} calls are unknown");
        let evidence = Evidence {
            executions: executions(server),
            told: self.told,
            rows: rows(&setup.directory().join("data")).unwrap(),
            damage: (status != 0).then(|| format!("{said}{wrong}")),
            runs: self.runs,
            faults: self.faults,
            ..Evidence::default()
        };
        assert!(
            !evidence.executions.is_empty() && !evidence.told.is_empty(),
            "nothing to judge"
        );
        assert!(
            evidence.executions.iter().all(|one| one.fence.is_some()),
            "no fence"
        );
        let violations = check(&evidence);
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

/// The business key of a call with these parameters.
fn key_of(params: &Value) -> String {
    format!("{} {}", params["name"], params["arguments"]["n"])
}

/// What the server executed; a later round is one of a call that it has.
fn executions(server: &ScriptedServer) -> Vec<Execution> {
    let is_first = |seen: &Seen| {
        seen.method() == "tools/call" && seen.body["params"].get("requestState").is_none()
    };
    let calls = server.seen().into_iter().filter(is_first).enumerate();
    let executed = calls.map(|(at, seen)| {
        let params = &seen.body["params"];
        let fence = &params["_meta"]["dev.toolgate/fence"];
        let text = |name: &str| fence[name].as_str().map(str::to_owned);
        let fence = text("action")
            .zip(text("session"))
            .zip(fence["token"].as_u64());
        Execution {
            tool: params["name"].as_str().unwrap().to_owned(),
            key: key_of(params),
            digest: digest_of(&params["arguments"]).unwrap(),
            fence: fence.map(|((action, session), token)| Fence {
                session,
                token,
                action,
            }),
            at: i64::try_from(at).unwrap(),
        }
    });
    executed.collect()
}

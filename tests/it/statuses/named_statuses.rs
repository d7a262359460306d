//! What is named did not run, and nothing else: by the operator for a server, by a contract for a
//! tool.

use super::{EffectKind, SENDINGS, StatusCase, StatusGate, UNTRUE, code, report, wrong};
use serde_json::Value;

/// What the operator names, and what the contract does: a status, and the code of the error that
/// comes with status 409.
const BY_OPERATOR: [u16; 3] = [401, 404, 429];
const BY_CONTRACT: (u16, i64) = (503, -32409);

const POLICY: &str = "
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay: { purpose: test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: oracle__undo } },
    idempotency: { not_executed: [503, -32409] } }
";

/// Whether the contract or the operator has said that this did not run.
fn is_named(case: &StatusCase) -> bool {
    let by_code = -32000 - i64::from(case.status) == BY_CONTRACT.1;
    let by_status = BY_OPERATOR.contains(&case.status) || case.status == BY_CONTRACT.0;
    if case.kind == EffectKind::Matching {
        by_code
    } else {
        by_status
    }
}

/// Refused, then done, then done again from the ledger's knowledge.
fn is_sent_again(case: &StatusCase, told: &[Value]) -> bool {
    let first = if case.kind == EffectKind::Matching {
        told[0]["error"]["code"] == BY_CONTRACT.1
    } else {
        let words = told[0]["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_default();
        code(&told[0]) == "upstream_unavailable"
            && words.contains("refused the call before it did anything. The tool did not run.")
            && !words.contains("nothing was sent")
    };
    let replayed =
        |answer: &Value| answer["result"]["_meta"]["dev.toolgate/decision"]["replayed"] == true;
    let done = |answer: &Value| answer["result"]["content"].is_array() && code(answer).is_empty();
    first && done(&told[1]) && !replayed(&told[1]) && done(&told[2]) && replayed(&told[2])
}

/// threat-model §13 F1, guarantees §4: the lane of what is named. It is sent again when the agent
/// sends it again, and counted; all else is sent once.
#[tokio::test]
async fn what_is_named_is_sent_again() {
    let stage = StatusGate::new(", not_executed: [401, 404, 429]", POLICY).await;
    let kinds = [
        EffectKind::Empty,
        EffectKind::Text,
        EffectKind::Matching,
        EffectKind::Null,
    ];
    let (mut found, mut tried, mut again) = (Vec::new(), 0, 0);
    for (wire, upto) in [("modern", 599), ("legacy", 430)] {
        let cases = StatusCase::all(wire, &(400..=upto), &kinds);
        let cases: Vec<StatusCase> = cases
            .into_iter()
            .map(|case| StatusCase {
                runs: !is_named(&case),
                then: 2,
                ..case
            })
            .collect();
        tried += cases.len();
        for (case, told) in stage.made(wire, ("pay", SENDINGS), &cases).await {
            let (came, ran) = stage.came(&case);
            if is_named(&case) {
                again += 1;
                if (came, ran) != (2, 0) || !is_sent_again(&case, &told) {
                    found.push(format!("{}: it came {came} times: {told:?}", case.name));
                }
            } else if (came, ran) != (1, 1) {
                found.push(format!(
                    "{}: it came {came} times and ran {ran} times",
                    case.name
                ));
            } else {
                found.extend(wrong(&case, &told));
            }
        }
    }
    // What is named came twice.
    let (entries, _) = stage.entries(tried + again).await;
    let refused = entries
        .iter()
        .filter(|entry| entry["aborted_reason"] == "upstream_unavailable");
    let refused: Vec<&Value> = refused.collect();
    for entry in &refused {
        let fault = entry["fault"].as_str().unwrap_or_default();
        if entry["outcome"] != "failed"
            || entry["attempts"] != 1
            || UNTRUE.iter().any(|words| fault.contains(words))
        {
            found.push(format!("the ledger: {entry}"));
        }
    }
    // The error that the contract names is told as it is.
    assert_eq!(refused.len(), again - 2, "each is in the ledger");
    report(
        &format!("{tried} cases, each sent {SENDINGS} times, {again} of them named"),
        &found,
    );
}

//! What changes nothing may be sent again: statuses are as bearable as they were.

use super::{EffectKind, KINDS, POLICY, StatusCase, StatusGate, code, report};

/// threat-model §13 F1: a read that is answered with a status is told as one that broke off, and is
/// nobody's secret; where a legacy server says that it has forgotten the session, it is sent once
/// more, in a new one.
#[tokio::test]
async fn a_status_breaks_a_read_off() {
    let stage = StatusGate::new("", POLICY).await;
    let (mut found, mut tried) = (Vec::new(), 0);
    for wire in ["modern", "legacy"] {
        let cases = StatusCase::all(wire, &(400..=599), &KINDS);
        tried += cases.len();
        for (case, told) in stage.made(wire, ("read", 1), &cases).await {
            // An error that names no request is told: there is no other that it could be about.
            let is_told = matches!(case.kind, EffectKind::Matching | EffectKind::Null);
            let right = if is_told {
                told[0]["error"]["code"] == -32000 - i64::from(case.status)
            } else {
                code(&told[0]) == "upstream_failed"
            };
            let expected = if wire == "legacy" && case.status == 404 {
                2
            } else {
                1
            };
            let came = stage.came(&case).0;
            if !right || came != expected {
                found.push(format!("{}: it came {came} times: {told:?}", case.name));
            }
        }
    }
    report(&format!("{tried} reads"), &found);
}

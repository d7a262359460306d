//! Where a call that is sent again is looked for: with its own server, and its own user.

use super::{ADD, BOT, RESET, bot, git, is_replayed, policy, ran};
use crate::harness::setup::Setup;
use serde_json::json;

/// 004-01, 004-27: what an agent does at another server shows nothing of its calls at this one.
#[tokio::test]
async fn each_server_has_its_own_calls() {
    let (server, other) = (git().await, git().await);
    let contracts = policy(", idempotency: { derive: retry }");
    let of_other = contracts.replace("git__", "hub__");
    let of_other = of_other.trim_start_matches("contracts:\n");
    let setup = Setup::new().server("git", &server).server("hub", &other);
    let policy = format!("{contracts}{of_other}");
    let gate = setup.policy(&policy).callers(BOT).start().await;
    let agent = bot(&gate);
    for (tool, is_again) in [
        (ADD, false),
        ("hub__git_reset", false),
        ("hub__git_add", false),
        (ADD, true),
        (RESET, false),
        (ADD, false),
    ] {
        let answer = agent.call(tool, json!({ "path": "a.rs" })).await;
        assert_eq!(is_replayed(&answer), is_again, "{tool}: {answer}");
    }
    assert_eq!(ran(&server), ["git_add", "git_reset", "git_add"]);
    assert_eq!(ran(&other), ["git_reset", "git_add"]);
}

//! What is done in one place only.

use super::{places, report};

#[test]
fn each_of_these_has_one_place() {
    let yaml = places("saphyr", |source| source.module == ["policy", "locate"]);
    report("YAML is read in policy/locate.rs", yaml);
    let spawn = places(
        r"tokio::(task::)?spawn\b|thread::spawn|JoinSet|spawn_local",
        |source| source.module == ["telemetry", "tasks"],
    );
    report("tasks are started by telemetry::tasks", spawn);
    let now = places(r"\b(SystemTime|Instant|Timestamp|Zoned)::now\b", |source| {
        source.module == ["model", "clock"]
    });
    report("time comes from model::clock", now);
    let print = places(
        r"\be?print(ln)?!|std::io::stdout\(\)|tokio::io::stdout\(\)",
        |source| source.part(0) == "cli",
    );
    report("only the command line prints", print);
    let untrusted = places(r"serde_json::from_(slice|reader)\b", |source| {
        source.module == ["mcp", "json"]
    });
    report("untrusted bytes are read by mcp::json", untrusted);
    let erased = places(r"\banyhow\b", |source| {
        matches!(source.part(0), "app" | "cli" | "main")
    });
    report("anyhow is for app, cli and main", erased);
}

/// 002-13, 003-36: whatever door a call comes in by, it becomes one in one place, its arguments are
/// checked in one, and only that check asks a schema whether it accepts them.
#[test]
fn arguments_are_read_and_checked_in_one_place() {
    for (what, pattern, expected) in [
        (
            "a message becomes a call",
            r"= ToolCall \{",
            &["src/downstream/route.rs"][..],
        ),
        (
            "a call goes to the gate",
            r"\.call_tool\(",
            // An agent's, that of a task, which toolgate sends again for its agent, and one that takes
            // another back.
            &[
                "src/gate/own_tasks/run.rs",
                "src/gate/undoing/by_agent.rs",
                "src/gate/undoing/sending.rs",
            ],
        ),
        (
            "its arguments are checked",
            r"\.arguments\s*\.check\(",
            &["src/gate/steps/judge.rs"],
        ),
        // Arguments; results; and, when a policy is loaded, what its contracts set.
        (
            "a schema is asked",
            r"\.accepts\(",
            &[
                "src/guards/arguments.rs",
                "src/guards/results.rs",
                "src/guards/rewrite/against.rs",
            ],
        ),
    ] {
        let mut found = places(pattern, |_| false);
        for place in &mut found {
            place.truncate(place.find(':').unwrap());
        }
        found.sort();
        assert_eq!(found, expected, "{what} in one place");
    }
}

//! A tool that either runs a command or controls one that runs, as servers for shells declare it
//! (002-33).

use super::*;
use crate::schema::Schema;
use serde_json::json;

/// Its two uses have no argument that names them: each is what comes with it.
const OVERLOADED_TOOL_POLICY: &str = r"
contracts:
  fs__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: fs__bash, arguments: { command: undo } } } }
  fs__bash:
    purpose: Runs a command, or controls one that runs.
    actions: [write]
    permission: { roles: [operator] }
    arguments:
      properties: { timeout: { maximum: 600000 } }
      oneOf:
        - required: [command]
          properties: { command: {}, timeout: {}, run_in_background: {}, description: {} }
          additionalProperties: false
        - required: [process_id]
          properties: { process_id: {}, block: {}, timeout: {}, stop: {} }
          additionalProperties: false
    side_effect: { writes: test, rollback: { tool: fs__undo } }
    secrets: [/command]
";

/// The same server, with a tool for each use.
const SPLIT_TOOLS_POLICY: &str = r"
contracts:
  fs__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: fs__bash, arguments: { command: undo } } } }
  fs__bash:
    purpose: Runs a command.
    actions: [write]
    permission: { roles: [operator] }
    arguments:
      required: [command]
      properties: { command: {}, timeout: { maximum: 600000 }, run_in_background: {}, description: {} }
      additionalProperties: false
    side_effect: { writes: test, rollback: { tool: fs__undo } }
    secrets: [/command]
  fs__bash_process:
    purpose: Waits for a command that runs, or stops it.
    actions: [write]
    permission: { roles: [operator] }
    arguments:
      required: [process_id]
      properties: { process_id: {}, block: {}, timeout: {}, stop: {} }
      additionalProperties: false
    side_effect: { writes: test, rollback: { tool: fs__undo } }
    secrets: []
";

fn verdict(policy: &Policy, tool: &str, arguments: &Value) -> String {
    let kinds = [
        ("command", "string"),
        ("timeout", "integer"),
        ("run_in_background", "boolean"),
        ("description", "string"),
        ("process_id", "string"),
        ("block", "boolean"),
        ("stop", "boolean"),
    ];
    let properties: serde_json::Map<String, Value> = kinds
        .into_iter()
        .map(|(name, kind)| (name.to_owned(), json!({ "type": kind })))
        .collect();
    let schema = Schema::compile(&json!({ "type": "object", "properties": properties })).unwrap();
    let rules = policy.allowlist.contract_of(&ToolName::new(tool)).unwrap();
    rules
        .arguments
        .check(&schema, arguments)
        .map_or_else(|refusal| refusal.code().to_owned(), |_| "allow".to_owned())
}

/// The overloaded tool, and the two that it is split into.
struct Shell {
    overloaded: Policy,
    split: Policy,
}

impl Shell {
    fn new() -> Self {
        let [overloaded, split] = [OVERLOADED_TOOL_POLICY, SPLIT_TOOLS_POLICY].map(|text| {
            let (compiled, said) = compile_files(&[("shell.yaml", text)], Mode::Enforce);
            assert!(!said.contains("error:"), "{said}");
            compiled.policy.unwrap()
        });
        Self { overloaded, split }
    }

    /// What the overloaded tool says, the one that runs, and the one that controls.
    fn verdicts(&self, arguments: &Value) -> [String; 3] {
        [
            verdict(&self.overloaded, "fs__bash", arguments),
            verdict(&self.split, "fs__bash", arguments),
            verdict(&self.split, "fs__bash_process", arguments),
        ]
    }
}

/// 002-33, 002-28: both halves pass, whether the tool is one or two; its command may hold a secret,
/// and what controls it may not.
#[test]
fn each_half_of_an_overloaded_tool_passes() {
    let shell = Shell::new();
    let runs = ["allow", "allow", "schema_invalid"];
    let controls = ["allow", "schema_invalid", "allow"];
    for (arguments, expected) in [
        (
            json!({ "command": "ls", "timeout": 1000, "run_in_background": true, "description": "Lists." }),
            runs,
        ),
        (json!({ "command": "ls" }), runs),
        (
            json!({ "process_id": "p1", "block": false, "timeout": 1000, "stop": true }),
            controls,
        ),
        (json!({ "process_id": "p1" }), controls),
    ] {
        assert_eq!(shell.verdicts(&arguments), expected, "{arguments}");
    }
}

/// 002-33: the halves are refused together, and so is what is neither.
#[test]
fn halves_of_an_overloaded_tool_are_refused_together() {
    let shell = Shell::new();
    for arguments in [
        json!({ "command": "ls", "process_id": "p1" }),
        json!({ "command": "ls", "stop": true }),
        json!({ "command": "ls", "block": false }),
        json!({ "process_id": "p1", "run_in_background": true }),
        json!({ "process_id": "p1", "description": "Stops." }),
        json!({ "timeout": 1 }),
        json!({}),
        json!({ "command": "ls", "timeout": 600_001 }),
    ] {
        assert_eq!(
            shell.verdicts(&arguments),
            ["schema_invalid"; 3],
            "{arguments}"
        );
    }
}

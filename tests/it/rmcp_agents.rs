//! A real agent, rmcp's client, through every door of toolgate in both eras (issue 2: real clients
//! and servers).

use crate::harness::gate::Gate;
use crate::harness::setup::{Setup, TOOLGATE, beside};
use crate::harness::{DEADLINE, until};
use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, ProgressNotificationParam, ProtocolVersion,
    ReadResourceRequestParams,
};
use rmcp::service::{
    NotificationContext, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, RoleClient};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Keeps what it hears of progress.
#[derive(Clone, Default)]
struct Ears(Arc<Mutex<Vec<f64>>>);

impl ClientHandler for Ears {
    async fn on_progress(
        &self,
        heard: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.lock().unwrap().push(heard.progress);
    }
}

struct RmcpAgent {
    running: RunningService<RoleClient, Ears>,
    ears: Ears,
}

/// Both eras, with the revision that the agent then speaks.
fn eras() -> [(ClientLifecycleMode, ProtocolVersion); 2] {
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    [
        (
            ClientLifecycleMode::Initialize,
            ProtocolVersion::V_2025_11_25,
        ),
        (modern, ProtocolVersion::V_2026_07_28),
    ]
}

impl RmcpAgent {
    async fn http(gate: &Gate, path: &str, era: ClientLifecycleMode) -> Self {
        let transport =
            StreamableHttpClientTransport::from_uri(format!("http://{}{path}", gate.agents));
        let ears = Ears::default();
        let connecting = serve_client_with_lifecycle(ears.clone(), transport, era);
        let running = tokio::time::timeout(DEADLINE, connecting)
            .await
            .expect("a connection in time")
            .unwrap();
        Self { running, ears }
    }

    async fn launching(program: &str, state: &Path, era: ClientLifecycleMode) -> Self {
        let mut command = tokio::process::Command::new(TOOLGATE);
        command
            .arg("stdio")
            .arg("--data")
            .arg(state.join("data"))
            .arg("--")
            .arg(beside(program));
        command.env("BILLING_STATE", state.join("billing.json"));
        let ears = Ears::default();
        let connecting = serve_client_with_lifecycle(
            ears.clone(),
            TokioChildProcess::new(command).unwrap(),
            era,
        );
        let running = tokio::time::timeout(DEADLINE, connecting)
            .await
            .expect("a connection in time")
            .unwrap();
        Self { running, ears }
    }

    async fn tools(&self) -> Vec<String> {
        let tools = self.running.list_all_tools().await.unwrap();
        tools
            .into_iter()
            .map(|tool| tool.name.into_owned())
            .collect()
    }

    async fn call(&self, tool: String, arguments: Value) -> Value {
        let params =
            CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
        let called = tokio::time::timeout(DEADLINE, self.running.call_tool(params)).await;
        serde_json::to_value(called.expect("an answer in time").unwrap()).unwrap()
    }

    /// Bills a tenant that nobody billed before: each call runs, and runs once.
    async fn bills(&self, prefix: &str, tenant: &str) {
        let wanted = json!({ "tenant_id": tenant, "customer_id": "c", "amount_cents": 1250, "currency": "EUR" });
        let made = self.call(format!("{prefix}create_invoice"), wanted).await;
        let invoice = &made["structuredContent"];
        assert_eq!(invoice["amount_cents"], 1250, "{made}");
        let shown = self
            .call(
                format!("{prefix}get_invoice"),
                json!({ "id": invoice["id"] }),
            )
            .await;
        assert_eq!(&shown["structuredContent"], invoice, "{shown}");
        let listed = self
            .call(
                format!("{prefix}list_invoices"),
                json!({ "tenant_id": tenant }),
            )
            .await;
        assert_eq!(
            listed["structuredContent"]["invoices"],
            json!([invoice]),
            "{listed}"
        );
    }

    /// Progress, a resource and a prompt of the conformance server.
    async fn explores(&self, prefix: &str) {
        let done = self
            .call(format!("{prefix}test_tool_with_progress"), json!({}))
            .await;
        assert_eq!(
            done["content"][0]["text"], "The tool reported its progress.",
            "{done}"
        );
        until("progress", || async {
            (self.ears.0.lock().unwrap().len() == 3).then_some(())
        })
        .await;
        let mut heard = self.ears.0.lock().unwrap().clone();
        // rmcp hands notifications to tasks of their own, so their order here is not that of the
        // wire.
        heard.sort_by(f64::total_cmp);
        assert_eq!(heard, [0.0, 50.0, 100.0]);
        let read = self
            .running
            .read_resource(ReadResourceRequestParams::new("test://static-text"))
            .await
            .unwrap();
        let read = serde_json::to_value(read).unwrap();
        assert_eq!(
            read["contents"][0]["text"], "This is the content of the static text resource.",
            "{read}"
        );
        let resources = self.running.list_all_resources().await.unwrap();
        assert!(
            resources
                .iter()
                .any(|resource| resource.uri == "test://static-text"),
            "{resources:?}"
        );
        let name = format!("{prefix}test_prompt_with_arguments");
        let prompts = self.running.list_all_prompts().await.unwrap();
        assert!(
            prompts.iter().any(|prompt| prompt.name == name),
            "{prompts:?}"
        );
        let arguments = json!({ "arg1": "a", "arg2": "b" })
            .as_object()
            .unwrap()
            .clone();
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let prompt = serde_json::to_value(self.running.get_prompt(params).await.unwrap()).unwrap();
        let text = "Prompt with arguments: arg1='a', arg2='b'";
        assert_eq!(prompt["messages"][0]["content"]["text"], text, "{prompt}");
    }
}

/// Both servers as children; everything has a contract but `send_invoice` and
/// `delete_draft_invoice`.
async fn gate() -> Gate {
    let setup = Setup::new();
    let state = setup.directory().join("billing.json");
    let billing = format!(
        "command: \"{}\", env: {{ BILLING_STATE: \"{}\" }}",
        beside("billing-server").display(),
        state.display()
    );
    let conformance = format!("command: \"{}\"", beside("conformance-server").display());
    let contracts = [
        ("billing__create_invoice", "write"),
        ("billing__get_invoice", "read"),
        ("billing__list_invoices", "read"),
        ("conformance__test_tool_with_progress", "read"),
    ];
    let setup = setup
        .server_with("billing", &billing)
        .server_with("conformance", &conformance);
    setup.contracts(&contracts).open_sides().start().await
}

#[tokio::test]
async fn rmcp_lists_and_calls_over_http_in_both_eras() {
    let gate = gate().await;
    for (round, (path, prefix)) in [("/mcp/billing", ""), ("/mcp", "billing__")]
        .into_iter()
        .enumerate()
    {
        for (era, revision) in eras() {
            let agent = RmcpAgent::http(&gate, path, era).await;
            let tenant = format!("{round}-{revision}");
            let mut tools = agent.tools().await;
            tools.retain(|tool| !tool.starts_with("conformance__"));
            let seen = ["create_invoice", "get_invoice", "list_invoices"]
                .map(|tool| format!("{prefix}{tool}"));
            assert_eq!(tools, seen, "{path} {tenant}");
            agent.bills(prefix, &tenant).await;
            let hidden = CallToolRequestParams::new(format!("{prefix}send_invoice"));
            let refused = agent.running.call_tool(hidden).await;
            assert!(
                matches!(&refused, Err(ServiceError::McpError(error)) if error.code.0 == -32602),
                "{refused:?}"
            );
            agent.running.cancel().await.unwrap();
        }
    }
    let entries = gate.entries(16).await;
    let counted = |outcome: &str| {
        entries
            .iter()
            .filter(|entry| entry["outcome"] == outcome)
            .count()
    };
    assert_eq!(
        (counted("answered"), counted("refused")),
        (12, 4),
        "{entries:#?}"
    );
}

#[tokio::test]
async fn rmcp_hears_progress_and_reads_resources_and_prompts_over_http_in_both_eras() {
    let gate = gate().await;
    for (path, prefix) in [("/mcp/conformance", ""), ("/mcp", "conformance__")] {
        for (era, _) in eras() {
            let agent = RmcpAgent::http(&gate, path, era).await;
            agent.explores(prefix).await;
            agent.running.cancel().await.unwrap();
        }
    }
}

#[tokio::test]
async fn rmcp_launches_toolgate_around_a_server_in_both_eras() {
    for (era, revision) in eras() {
        let state = tempfile::tempdir().unwrap();
        let agent = RmcpAgent::launching("billing-server", state.path(), era.clone()).await;
        // Without a configuration nothing is refused or hidden.
        assert_eq!(agent.tools().await.len(), 5, "{revision}");
        agent.bills("", "t").await;
        agent.running.cancel().await.unwrap();
        let agent = RmcpAgent::launching(
            "conformance-server",
            state.path().join("other").as_path(),
            era,
        )
        .await;
        agent.explores("").await;
        agent.running.cancel().await.unwrap();
    }
}

//! What is called: the same bytes whichever program stands in between.

use serde_json::{Value, json};
use std::fmt::Write as _;

/// The bearer token of the one caller.
pub(crate) const TOKEN: &str = "a-token-for-the-load-generator-only";
/// The revision spoken.
pub(crate) const REVISION: &str = "2026-07-28";
/// The revision spoken where a peer stands in between: all of them know it.
pub(crate) const LEGACY_REVISION: &str = "2025-11-25";
/// The tool servers, by the number of their tools.
pub(crate) const LISTS: [usize; 2] = [100, 1000];

/// How a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// 2026-07-28: each request stands alone.
    Modern,
    /// 2025-11-25: within a session that is opened first.
    Legacy,
}

/// One kind of request.
pub(crate) struct Scene {
    /// In the tables.
    pub(crate) name: &'static str,
    /// The tool server, by the number of tools that it lists.
    pub(crate) tools: usize,
    /// The tool that is called; none: the tools are listed.
    pub(crate) tool: Option<&'static str>,
    /// Bytes of the answer at least.
    pub(crate) bytes: usize,
}

/// A call that changes something: each with arguments, and so with a key, of its own; each
/// connection is a session.
pub(crate) const DURABLE: Scene = Scene {
    name: "call, changes something",
    tools: 100,
    tool: Some("tool_0003"),
    bytes: 100,
};

/// All others.
pub(crate) static SCENES: [Scene; 5] = [
    Scene {
        name: "call, small result",
        tools: 100,
        tool: Some("tool_0000"),
        bytes: 100,
    },
    Scene {
        name: "call, 64 KiB result",
        tools: 100,
        tool: Some("tool_0001"),
        bytes: 64 << 10,
    },
    Scene {
        name: "call, 1 MiB result",
        tools: 100,
        tool: Some("tool_0002"),
        bytes: 1 << 20,
    },
    Scene {
        name: "list of 100 tools",
        tools: 100,
        tool: None,
        bytes: 40_000,
    },
    Scene {
        name: "list of 1000 tools",
        tools: 1000,
        tool: None,
        bytes: 400_000,
    },
];

impl Scene {
    /// The JSON-RPC method.
    pub(crate) fn method(&self) -> &'static str {
        if self.tool.is_some() {
            "tools/call"
        } else {
            "tools/list"
        }
    }

    /// The path, at toolgate as at the tool server.
    pub(crate) fn path(&self) -> String {
        format!("/mcp/s{}", self.tools)
    }

    /// Does it change something?
    pub(crate) fn changes(&self) -> bool {
        self.tool == DURABLE.tool
    }

    /// The body after the id, of call `unique` of a session, to a way that puts `prefix` before the
    /// names of tools.
    pub(crate) fn rest(&self, dialect: Dialect, prefix: &str, turn: Turn) -> String {
        let mut params = match self.tool {
            Some(tool) => json!({
                "name": format!("{prefix}{tool}"),
                "arguments": {
                    "tenant_id": "t_001",
                    "customer_id": format!("c_{}", 1042 + turn.unique),
                    "amount_cents": 125_000,
                    "currency": "CNY",
                },
            }),
            None => json!({}),
        };
        if dialect == Dialect::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            if self.changes() {
                let session = format!("session {}", turn.session);
                params["_meta"]["dev.toolgate/session"] = json!(session);
            }
        }
        format!(",\"method\":\"{}\",\"params\":{params}}}", self.method())
    }
}

/// Which call of whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// The connection.
    pub(crate) session: u64,
    /// The call.
    pub(crate) unique: u64,
}

/// The definition of a tool: about 470 bytes, as real ones have.
pub(crate) fn definition(number: usize) -> Value {
    json!({
        "name": format!("tool_{number:04}"),
        "description": "Looks up the invoices of one customer and says what they amount to, in the currency that is asked for.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "tenant_id": { "type": "string" },
                "customer_id": { "type": "string", "description": "As the customer list shows it." },
                "amount_cents": { "type": "integer", "minimum": 0 },
                "currency": { "type": "string", "enum": ["CNY", "USD", "EUR"] },
            },
            "required": ["tenant_id", "customer_id"],
        },
    })
}

/// toolgate's configuration with these tool servers.
pub(crate) fn configuration(listen: &str, server: &str, lists: &[usize]) -> String {
    let servers = lists.iter().fold(String::new(), |mut servers, tools| {
        let _ = writeln!(
            servers,
            "  s{tools}: {{ url: \"http://{server}/mcp/s{tools}\", refresh: 10m }}"
        );
        servers
    });
    format!(
        "listen: {listen}\nadmin: {{ listen: 127.0.0.1:0 }}\ndata: data\nservers:\n{servers}\
         callers:\n  - {{ agent: load, token: {TOKEN}, tenant: t_001, roles: [reader], rate: {{ calls: 1000000000, per: 1s }} }}\npolicies: [policy.yaml]\n"
    )
}

/// A policy that uses every guard: a contract for each tool, layers, permission, an overlay, a
/// rule.
pub(crate) fn policy(lists: &[usize]) -> String {
    let allowed: Vec<String> = lists
        .iter()
        .map(|tools| format!("\"s{tools}__*\""))
        .collect();
    let mut policy = format!(
        "layers:\n  global: {{ deny: [\"*__drop_*\"] }}\n  agent:\n    load: {{ allow: [{}] }}\nbudgets: {{ unlimited: true }}\ncontracts:\n",
        allowed.join(", ")
    );
    for tools in lists {
        for number in 0..*tools {
            let effect = format!(
                "write]\n    side_effect: {{ writes: test, rollback: {{ tool: s{tools}__undo }} }}"
            );
            let action = if number == 3 { &effect } else { "read]" };
            let _ = write!(
                policy,
                "  s{tools}__tool_{number:04}:\n    purpose: A test.\n    actions: [{action}\n    secrets: []\n"
            );
            if number < 4 {
                policy += "    permission: { roles: [reader], tenant: /tenant_id }\n    \
                           arguments:\n      properties:\n        amount_cents: { maximum: 5000000 }\n        \
                           customer_id: { maxLength: 64 }\n    \
                           rules:\n      - { code: too_much, when: \"arguments.amount_cents > 1000000 && !('finance' in caller.roles)\" }\n";
            }
        }
        let _ = writeln!(
            policy,
            "  s{tools}__undo: {{ purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, rollback: {{ tool: \
             s{tools}__tool_0003 }} }} }}"
        );
    }
    policy
}

/// nginx as a plain reverse proxy that keeps its connections, with one process that serves and room
/// for the longest answer in memory.
pub(crate) fn nginx(directory: &str, listen: &str, server: &str) -> String {
    format!(
        "user root;\nworker_processes 1;\npid {directory}/nginx.pid;\nerror_log {directory}/nginx.log;\n\
         events {{ worker_connections 1024; }}\nhttp {{\n  access_log off;\n  keepalive_requests 1000000000;\n  \
         client_body_temp_path {directory}/body;\n  proxy_temp_path {directory}/proxy;\n  fastcgi_temp_path {directory}/f;\n  \
         uwsgi_temp_path {directory}/u;\n  scgi_temp_path {directory}/s;\n  \
         upstream server {{ server {server}; keepalive 128; keepalive_requests 1000000000; }}\n  \
         server {{\n    listen {listen};\n    location / {{\n      proxy_pass http://server;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffer_size 16k;\n      \
         proxy_buffers 20 64k;\n      proxy_max_temp_file_size 0;\n    }}\n  }}\n}}\n"
    )
}

//! How each tool server of the configuration is reached.

use crate::config::{ClassHeaders, ServerConfig, TransportConfig as Configured};
use crate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits};
use crate::model::secret::Secret;
use crate::upstream::child::ChildCommand;
use crate::upstream::credentials::Credentials;
use crate::upstream::credentials::classes::HeaderClass;
use crate::upstream::http::Connections;
use crate::upstream::server_settings::{ServerTransport, UpstreamServerSettings};
use anyhow::Context as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the link to `server` is opened with; an error where a header or the address cannot be sent.
pub(super) fn settings(
    server: &ServerConfig,
    connections: &Connections,
) -> anyhow::Result<UpstreamServerSettings> {
    let transport = transport(server, connections)?;
    let ServerConfig {
        timeout,
        task_after,
        start_timeout,
        refresh,
        ping_after,
        era,
        sharing,
        max_children,
        idle_timeout,
        ..
    } = *server;
    let (name, not_executed) = (server.name.clone(), server.not_executed.clone().into());
    Ok(UpstreamServerSettings {
        name,
        transport,
        timeout,
        task_after,
        start_timeout,
        refresh,
        ping_after,
        era,
        sharing,
        max_children,
        idle_timeout,
        not_executed,
        fence_header: server.fence_header.clone(),
        limits: limits(server),
    })
}

/// How `server` is reached.
fn transport(server: &ServerConfig, connections: &Connections) -> anyhow::Result<ServerTransport> {
    let classes = sent_classes(&server.transport)?;
    Ok(match &server.transport {
        Configured::Http {
            url,
            headers,
            credentials,
        } => {
            let uri = url.as_str().parse();
            let oauth = credentials.oauth.clone();
            let credentials = Credentials::of(&server.name, oauth, connections.poster());
            ServerTransport::Http {
                uri: uri.context("a tool server's url cannot be used")?,
                headers: sent_headers(headers)?,
                credentials: Arc::new(credentials.with_classes(classes)),
            }
        }
        Configured::Child {
            command,
            args,
            env,
            cwd,
            sandbox,
        } => ServerTransport::Child(ChildCommand {
            program: command.clone(),
            args: args.clone(),
            env: env
                .iter()
                .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                .collect(),
            cwd: cwd.clone(),
            sandbox: sandbox.clone(),
            name: server.name.clone(),
        }),
    })
}

fn sent_classes(transport: &Configured) -> anyhow::Result<Vec<HeaderClass>> {
    let classes = match transport {
        Configured::Http { credentials, .. } => &*credentials.classes,
        Configured::Child { .. } => &[],
    };
    classes.iter().map(sent_class).collect()
}

fn sent_class(class: &ClassHeaders) -> anyhow::Result<HeaderClass> {
    Ok(HeaderClass {
        agents: class.agents.clone(),
        groups: class.groups.clone(),
        tenants: class.tenants.clone(),
        headers: sent_headers(&class.headers)?,
    })
}

fn sent_headers(headers: &BTreeMap<String, Secret>) -> anyhow::Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: HeaderName = name
            .parse()
            .with_context(|| format!("`{name}` is no name of a header"))?;
        let mut value = HeaderValue::from_str(value.expose())
            .with_context(|| format!("the value of header {name} is not plain text"))?;
        value.set_sensitive(true);
        map.insert(name, value);
    }
    Ok(map)
}

fn limits(server: &ServerConfig) -> JsonLimits {
    JsonLimits {
        bytes: server.message_max_bytes,
        string: server.string_max_bytes,
        ..AGENT_JSON_LIMITS
    }
}

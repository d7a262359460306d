//! Legacy sessions that close the stream of a `test_reconnection` call before its answer, so that
//! the caller must come back for it.

use futures_util::{Stream, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};

/// The tool whose stream is closed early.
pub(super) const TOOL: &str = "test_reconnection";
/// What the caller sees of that stream: the event whose id it comes back with.
const EVENTS_BEFORE_THE_END: usize = 1;

type Fault = LocalSessionManagerError;
type Transport = <LocalSessionManager as SessionManager>::Transport;

/// rmcp's own sessions, one of whose streams ends early. The session keeps the answer that comes
/// later.
#[derive(Debug, Default)]
pub struct InterruptedSessions {
    sessions: LocalSessionManager,
}

impl SessionManager for InterruptedSessions {
    type Error = Fault;
    type Transport = Transport;

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Fault> {
        let events = if calls_the_tool(&message) {
            EVENTS_BEFORE_THE_END
        } else {
            usize::MAX
        };
        Ok(self.sessions.create_stream(id, message).await?.take(events))
    }

    async fn create_session(&self) -> Result<(SessionId, Transport), Fault> {
        self.sessions.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Fault> {
        self.sessions.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Fault> {
        self.sessions.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Fault> {
        self.sessions.close_session(id).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Fault> {
        self.sessions.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Fault> {
        self.sessions.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Fault> {
        self.sessions.resume(id, last_event_id).await
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Transport>, Fault> {
        self.sessions.restore_session(id).await
    }
}

fn calls_the_tool(message: &ClientJsonRpcMessage) -> bool {
    match message {
        ClientJsonRpcMessage::Request(request) => {
            matches!(&request.request, ClientRequest::CallToolRequest(call) if call.params.name == TOOL)
        }
        _ => false,
    }
}

//! The fixture as an MCP server: which module answers which request.

// Log levels and the older subscriptions are deprecated in the newest revision, and the older ones
// test them.
#![expect(deprecated, reason = "the older revisions test these requests")]

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, CompleteRequestParams, CompleteResult, CompletionInfo,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::broadcast;

use super::call::{Call, Outcome, is_modern};
use super::changes::{self, Change};
use super::{ask, content, prompts, resources, rounds, tasks};

type Asking = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

/// The conformance server. Clones are the same server: they share its tasks and its changes.
#[derive(Clone)]
pub struct Fixture {
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) tasks: TaskManager,
    /// Whether it makes tasks of calls.
    pub(super) makes_tasks: bool,
    tools: Arc<Vec<Tool>>,
}

impl Fixture {
    /// The same that makes no tasks of calls, and does not say that it would.
    #[must_use]
    pub fn without_tasks(self) -> Self {
        Self {
            makes_tasks: false,
            ..self
        }
    }

    /// A server that has no tasks yet and no listeners.
    pub fn new() -> Self {
        let kinds = [
            content::tools(),
            ask::tools(),
            rounds::tools(),
            changes::tools(),
            tasks::tools(),
        ];
        Self {
            changes: broadcast::channel(16).0,
            tasks: TaskManager::new(),
            makes_tasks: true,
            tools: Arc::new(kinds.into_iter().flatten().collect()),
        }
    }
}

impl Default for Fixture {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        if !self.makes_tasks {
            capabilities.extensions = None;
        }
        let name = Implementation::new("conformance-server", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(name)
    }

    async fn list_tools(&self, _: Page, _: Asking) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(&self, params: CallToolRequestParams, context: Asking) -> Outcome {
        let call = Call::new(self, params, context);
        if let Some(outcome) = content::call(&call).await {
            return outcome;
        }
        if let Some(outcome) = ask::call(&call).await {
            return outcome;
        }
        if let Some(outcome) = changes::call(&call).await {
            return outcome;
        }
        if let Some(outcome) = tasks::call(&call).await {
            return outcome;
        }
        let unknown = || {
            Err(ErrorData::invalid_params(
                format!("unknown tool {:?}", call.name),
                None,
            ))
        };
        rounds::call(&call).await.unwrap_or_else(unknown)
    }

    async fn list_prompts(&self, _: Page, _: Asking) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::prompts()))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: Asking,
    ) -> Result<GetPromptResponse, ErrorData> {
        match prompts::get(params.clone())? {
            GetPromptResponse::InputRequired(round) if !is_modern(&context) => {
                let requests = round.input_requests.unwrap_or_default();
                let answers = ask::ask_all(&context.peer, requests).await?;
                prompts::get(params.with_input_responses(answers))
            }
            response => Ok(response),
        }
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        _: Asking,
    ) -> Result<CompleteResult, ErrorData> {
        let known = ["paris", "park", "party", "test"].into_iter();
        let fitting = known
            .filter(|value| value.starts_with(&params.argument.value))
            .map(str::to_owned)
            .collect();
        let values = CompletionInfo::with_all_values(fitting);
        values
            .map(CompleteResult::new)
            .map_err(|error| ErrorData::internal_error(error, None))
    }

    async fn list_resources(&self, _: Page, _: Asking) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Page,
        _: Asking,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: Asking,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&params.uri).map(ReadResourceResponse::from)
    }

    async fn set_level(&self, _: SetLevelRequestParams, context: Asking) -> Result<(), ErrorData> {
        // The newest revision has no such request: there, each request names its own level.
        if is_modern(&context) {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "logging/setLevel",
                None,
            ));
        }
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Asking) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Asking) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, listener: SubscriptionContext) -> Result<(), ErrorData> {
        changes::listen(self.changes.subscribe(), listener).await;
        Ok(())
    }

    async fn get_task(&self, params: GetTaskParams, _: Asking) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&params.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, params: UpdateTaskParams, _: Asking) -> Result<(), ErrorData> {
        self.tasks
            .update_task(&params.task_id, params.input_responses)
    }

    async fn cancel_task(&self, params: CancelTaskParams, _: Asking) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&params.task_id)
    }
}

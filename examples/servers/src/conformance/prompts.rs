//! The prompts of the fixture.

use rmcp::model::{
    ContentBlock, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    InputRequests, InputRequiredResult, JsonObject, Prompt, PromptArgument, PromptMessage,
    ResourceContents, Role,
};
use serde_json::{Value, json};

use super::call::{accepted, form, input_request};
use super::content::PNG;

pub(super) fn prompts() -> Vec<Prompt> {
    let argument = |name: &str, description: &str| {
        PromptArgument::new(name)
            .with_description(description)
            .with_required(true)
    };
    vec![
        Prompt::new(
            "test_simple_prompt",
            Some("A prompt without arguments."),
            None,
        ),
        Prompt::new(
            "test_prompt_with_arguments",
            Some("A prompt with two arguments."),
            Some(vec![
                argument("arg1", "First test argument"),
                argument("arg2", "Second test argument"),
            ]),
        ),
        Prompt::new(
            "test_prompt_with_embedded_resource",
            Some("A prompt with a resource inside."),
            Some(vec![argument(
                "resourceUri",
                "URI of the resource to embed",
            )]),
        ),
        Prompt::new(
            "test_prompt_with_image",
            Some("A prompt with an image inside."),
            None,
        ),
        Prompt::new(
            "test_input_required_result_prompt",
            Some("A prompt that asks for its context."),
            None,
        ),
    ]
}

pub(super) fn get(params: GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let arguments = params.arguments.unwrap_or_default();
    let messages = match params.name.as_str() {
        "test_simple_prompt" => vec![says("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (string(&arguments, "arg1")?, string(&arguments, "arg2")?);
            vec![says(format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = ResourceContents::text(
                "Embedded resource content for testing.",
                string(&arguments, "resourceUri")?,
            );
            let embedded = PromptMessage::new(Role::User, ContentBlock::resource(resource));
            vec![
                embedded,
                says("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => {
            let image = PromptMessage::new(Role::User, ContentBlock::image(PNG, "image/png"));
            vec![image, says("Please analyze the image above.")]
        }
        "test_input_required_result_prompt" => {
            let responses = params.input_responses.unwrap_or_default();
            match accepted(&responses, "user_context").and_then(|content| content.get("context")) {
                Some(context) => vec![says(format!("Use this context: {context}"))],
                None => return ask_for_context(),
            }
        }
        unknown => {
            return Err(ErrorData::invalid_params(
                format!("unknown prompt {unknown:?}"),
                None,
            ));
        }
    };
    Ok(GetPromptResult::new(messages).into())
}

fn ask_for_context() -> Result<GetPromptResponse, ErrorData> {
    let questions = form(
        "What context should the prompt use?",
        json!({ "context": { "type": "string" } }),
    );
    let request = input_request("elicitation/create", questions)?;
    let requests = InputRequests::from([("user_context".to_owned(), request)]);
    Ok(InputRequiredResult::from_input_requests(requests).into())
}

fn says(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new_text(Role::User, text)
}

fn string(arguments: &JsonObject, name: &str) -> Result<String, ErrorData> {
    let missing = || ErrorData::invalid_params(format!("argument {name:?} must be a string"), None);
    arguments
        .get(name)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(missing)
}

//! The side doors: everything that MCP lets agents and tool servers do besides calling tools
//! (threat-model §3C C3, C6, C7).

/// A kind of message besides a tool call that layers say who may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SideDoor {
    /// Resources: listed, read, subscribed to.
    Resources,
    /// Prompts: listed and got.
    Prompts,
    /// Completions of what prompts and templates of resources want.
    Completions,
    /// A server uses the agent's model.
    Sampling,
    /// A server asks the person behind the agent.
    Elicitation,
    /// A server asks which directories the agent works in.
    Roots,
    /// What a server logs, and how much of it.
    Logging,
}

impl SideDoor {
    /// All of them, in the order of the documents.
    pub const ALL: [Self; 7] = [
        Self::Resources,
        Self::Prompts,
        Self::Completions,
        Self::Sampling,
        Self::Elicitation,
        Self::Roots,
        Self::Logging,
    ];

    /// Its key in a layer, and its word in metrics: also the capability's name, but for completions
    /// the plural.
    pub fn word(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Prompts => "prompts",
            Self::Completions => "completions",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
            Self::Logging => "logging",
        }
    }

    /// Is it opened for a server as a whole, not for single things of it?
    pub fn is_of_servers(self) -> bool {
        match self {
            Self::Resources | Self::Prompts | Self::Completions => false,
            Self::Sampling | Self::Elicitation | Self::Roots | Self::Logging => true,
        }
    }

    /// Is it agents that have it, and servers that use it?
    pub fn is_of_agents(self) -> bool {
        matches!(self, Self::Sampling | Self::Elicitation | Self::Roots)
    }

    /// The side door that a request or a notification goes through, in either direction; none for
    /// everything else.
    pub fn of_method(method: &str) -> Option<Self> {
        Some(match method {
            "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "notifications/resources/updated"
            | "notifications/resources/list_changed" => Self::Resources,
            "prompts/list" | "prompts/get" | "notifications/prompts/list_changed" => Self::Prompts,
            "completion/complete" => Self::Completions,
            "sampling/createMessage" => Self::Sampling,
            "elicitation/create" | "notifications/elicitation/complete" => Self::Elicitation,
            "roots/list" | "notifications/roots/list_changed" => Self::Roots,
            "logging/setLevel" | "notifications/message" => Self::Logging,
            _ => return None,
        })
    }
}

//! A file of ADK's Agent Config, as google-adk 2.13 reads it.

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::agent::IncludeContents;
use crate::model::GenerateContentConfig;
use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::json;

/// The agent that one file describes.
#[derive(Debug)]
pub(super) struct AgentFile {
    pub(super) class: AgentClass,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) model: Option<String>,
    pub(super) instruction: Option<String>,
    pub(super) static_instruction: Option<Content>,
    pub(super) generate_content_config: Option<GenerateContentConfig>,
    pub(super) include_contents: IncludeContents,
    pub(super) disallow_transfer_to_parent: bool,
    pub(super) disallow_transfer_to_peers: bool,
    pub(super) output_key: Option<String>,
    pub(super) tools: Vec<ToolEntry>,
    pub(super) sub_agents: Vec<Reference>,
    pub(super) max_iterations: Option<usize>,
}

/// The classes of agents that a file can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentClass {
    Llm,
    Sequential,
    Parallel,
    Loop,
}

/// An entry under `tools`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolEntry {
    pub(super) name: String,
    pub(super) args: Option<Map<String, Value>>,
}

impl ToolEntry {
    /// Returns the agent that the entry offers as a tool, if the entry is ADK's `AgentTool`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if its arguments are invalid.
    pub(super) fn as_agent_tool(&self) -> Result<Option<AgentToolArgs>> {
        if built_in_name(&self.name) != "AgentTool" {
            return Ok(None);
        }
        let args = Value::Object(self.args.clone().unwrap_or_default());
        AgentToolFields::deserialize(&args)
            .map_err(|e| Error::invalid(format!("the 'args' of AgentTool are invalid: {}", json::describe(&e))))?
            .check()
            .map(Some)
    }
}

/// Returns the name of one of ADK's own tools without its package and module: `google.adk.tools.agent_tool.AgentTool` is
/// `AgentTool`. Any other name is returned unchanged.
pub(super) fn built_in_name(name: &str) -> &str {
    name.strip_prefix("google.adk.tools.").map_or(name, last_part)
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// An agent as a tool of another.
#[derive(Debug)]
pub(super) struct AgentToolArgs {
    pub(super) agent: Reference,
    pub(super) skip_summarization: bool,
    pub(super) include_plugins: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentToolFields {
    agent: SubAgentField,
    skip_summarization: Option<bool>,
    include_plugins: Option<bool>,
}

impl AgentToolFields {
    fn check(self) -> Result<AgentToolArgs> {
        Ok(AgentToolArgs {
            agent: self.agent.check()?,
            skip_summarization: self.skip_summarization == Some(true),
            include_plugins: self.include_plugins != Some(false),
        })
    }
}

/// A reference to a sub-agent, or to an agent that is a tool.
#[derive(Debug)]
pub(super) enum Reference {
    /// The agent is in a file, relative to the file that names it.
    File(String),
    /// The agent is in code, under this name.
    Code(String),
}

impl AgentFile {
    /// # Errors
    ///
    /// `InvalidArgument` if the text is not an Agent Config; `Unsupported` for fields that have no meaning here.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let fields: AgentFields = serde_saphyr::from_str(text).map_err(|e| {
            // A class of the user's own has fields of its own, so the class explains more than the unknown field.
            let class = serde_saphyr::from_str(text).ok().and_then(|field: ClassField| field.class().err());
            class.unwrap_or_else(|| {
                // The snippet of the file is left out, because it would break the message into lines.
                let said = e.without_snippet().to_string();
                let said: Vec<_> = said.split_whitespace().collect();
                Error::invalid(format!("not an Agent Config: {}", said.join(" ")))
            })
        })?;
        fields.check()
    }
}

/// The field that selects the class.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ClassField {
    agent_class: Option<String>,
}

impl ClassField {
    /// Returns the agent's class. The file may write it with ADK's package and module.
    fn class(&self) -> Result<AgentClass> {
        let class = self.agent_class.as_deref().unwrap_or_default();
        match class.strip_prefix("google.adk.agents.").map_or(class, last_part) {
            "" | "Agent" | "LlmAgent" => Ok(AgentClass::Llm),
            "SequentialAgent" => Ok(AgentClass::Sequential),
            "ParallelAgent" => Ok(AgentClass::Parallel),
            "LoopAgent" => Ok(AgentClass::Loop),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the agent class '{class}' is not known; there are LlmAgent, SequentialAgent, ParallelAgent and \
                     LoopAgent, and an agent in code is named by a sub agent's 'code'"
                ),
            )),
        }
    }
}

/// The fields of every class, and ADK's fields that have no meaning here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentFields {
    agent_class: Option<String>,
    name: String,
    description: Option<String>,
    model: Option<String>,
    instruction: Option<String>,
    output_key: Option<String>,
    tools: Option<Vec<ToolEntry>>,
    sub_agents: Option<Vec<SubAgentField>>,
    max_iterations: Option<i64>,
    include_contents: Option<IncludeField>,
    disallow_transfer_to_parent: Option<bool>,
    disallow_transfer_to_peers: Option<bool>,
    model_code: Option<IgnoredAny>,
    static_instruction: Option<StaticField>,
    input_schema: Option<IgnoredAny>,
    output_schema: Option<IgnoredAny>,
    generate_content_config: Option<GenerateContentConfig>,
    before_agent_callbacks: Option<Vec<IgnoredAny>>,
    after_agent_callbacks: Option<Vec<IgnoredAny>>,
    before_model_callbacks: Option<Vec<IgnoredAny>>,
    after_model_callbacks: Option<Vec<IgnoredAny>>,
    before_tool_callbacks: Option<Vec<IgnoredAny>>,
    after_tool_callbacks: Option<Vec<IgnoredAny>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IncludeField {
    Default,
    None,
}

/// A text, a part, several parts, or a content.
#[derive(Deserialize)]
#[serde(untagged)]
enum StaticField {
    Text(String),
    Many(Vec<StaticPart>),
    Part(#[serde(deserialize_with = "known_part")] Box<Part>),
    Content(#[serde(deserialize_with = "known_content")] Content),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StaticPart {
    Text(String),
    Part(#[serde(deserialize_with = "known_part")] Box<Part>),
}

/// Parses a part and refuses unknown fields, which distinguishes a part from a content.
fn known_part<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Box<Part>, D::Error> {
    let part = Box::<Part>::deserialize(deserializer)?;
    part.check_known().map_err(D::Error::custom)?;
    Ok(part)
}

fn known_content<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Content, D::Error> {
    let content = Content::deserialize(deserializer)?;
    content.check_known().map_err(D::Error::custom)?;
    Ok(content)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubAgentField {
    config_path: Option<String>,
    code: Option<String>,
}

impl AgentFields {
    fn check(self) -> Result<AgentFile> {
        let class = ClassField { agent_class: self.agent_class.clone() }.class()?;
        self.check_supported()?;
        self.check_class(class)?;
        // A negative number means no iterations, as in ADK.
        let max_iterations = self.max_iterations.map(|rounds| usize::try_from(rounds).unwrap_or(0));
        let sub_agents = self.sub_agents.unwrap_or_default().into_iter().map(SubAgentField::check);
        Ok(AgentFile {
            class,
            tools: self.tools.unwrap_or_default(),
            sub_agents: sub_agents.collect::<Result<_>>()?,
            name: self.name,
            description: self.description.unwrap_or_default(),
            model: self.model,
            instruction: self.instruction,
            static_instruction: self.static_instruction.map(StaticField::into_content),
            generate_content_config: self.generate_content_config,
            include_contents: match self.include_contents {
                None | Some(IncludeField::Default) => IncludeContents::Default,
                Some(IncludeField::None) => IncludeContents::None,
            },
            disallow_transfer_to_parent: self.disallow_transfer_to_parent == Some(true),
            disallow_transfer_to_peers: self.disallow_transfer_to_peers == Some(true),
            output_key: self.output_key,
            max_iterations,
        })
    }

    /// Refuses fields that would have no effect.
    fn check_supported(&self) -> Result<()> {
        macro_rules! given {
            ($is_given:ident: $($field:ident),*) => {
                [$((stringify!($field), self.$field.as_ref().is_some_and($is_given))),*]
            };
        }
        let has_value = |_: &IgnoredAny| true;
        let has_entries = |callbacks: &Vec<IgnoredAny>| !callbacks.is_empty();
        let fields = given!(has_value: model_code, input_schema, output_schema);
        let callbacks = given!(
            has_entries:
            before_agent_callbacks,
            after_agent_callbacks,
            before_model_callbacks,
            after_model_callbacks,
            before_tool_callbacks,
            after_tool_callbacks
        );
        match fields.into_iter().chain(callbacks).find(|(_, is_given)| *is_given) {
            Some((field, _)) => Err(unsupported(field)),
            None => Ok(()),
        }
    }

    /// Refuses fields that belong to another class.
    fn check_class(&self, class: AgentClass) -> Result<()> {
        macro_rules! given {
            ($($field:ident),*) => {
                [$(self.$field.as_ref().map(|_| stringify!($field))),*]
            };
        }
        let of_llm = given!(
            model,
            instruction,
            static_instruction,
            generate_content_config,
            include_contents,
            disallow_transfer_to_parent,
            disallow_transfer_to_peers,
            output_key,
            tools
        );
        let of_loop = given!(max_iterations);
        let foreign =
            [(class != AgentClass::Llm).then_some(&of_llm[..]), (class != AgentClass::Loop).then_some(&of_loop[..])];
        match foreign.into_iter().flatten().flatten().flatten().next() {
            Some(field) => {
                let name = &self.name;
                Err(Error::invalid(format!("the agent '{name}' has '{field}', which its class has not; leave it out")))
            }
            None => Ok(()),
        }
    }
}

impl StaticField {
    fn into_content(self) -> Content {
        let parts = match self {
            Self::Content(content) => return content,
            Self::Text(text) => return Content::user(text),
            Self::Part(part) => vec![*part],
            Self::Many(parts) => parts.into_iter().map(StaticPart::into_part).collect(),
        };
        Content::new("user", parts)
    }
}

impl StaticPart {
    fn into_part(self) -> Part {
        match self {
            Self::Text(text) => Part::text(text),
            Self::Part(part) => *part,
        }
    }
}

impl SubAgentField {
    fn check(self) -> Result<Reference> {
        match (self.config_path, self.code) {
            (Some(path), None) => Ok(Reference::File(path)),
            (None, Some(name)) => Ok(Reference::Code(name)),
            _ => Err(Error::invalid("an agent that another one names has either 'config_path' or 'code'")),
        }
    }
}

fn unsupported(field: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("'{field}' is not supported; leave it out, or build the agent in code"))
}

//! Names of tools. Each provider accepts other characters, so a name that a provider would refuse is sent in another
//! form, and the model's calls get the tool's own name back.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::provider::Provider;
use scratchbook_agent::model::{LlmRequest, LlmResponse};
use scratchbook_core::error::{Error, Result};

/// The maximum length of a name with OpenAI. The other providers accept at least this length.
const LONGEST: usize = 64;

/// The tools' own names, by the names that were sent in their place.
#[derive(Debug)]
pub(super) struct ToolNames(HashMap<String, String>);

impl ToolNames {
    /// Changes the names in a request that the provider would refuse: of the tools, of the calls and responses in the
    /// conversation, and of the functions that may be called. Names that the provider accepts stay as they are.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name of a tool has a control character.
    pub(super) fn change(request: &mut LlmRequest, provider: Provider) -> Result<Self> {
        if let Some(tool) = request.tools.iter().find(|tool| tool.name.chars().any(char::is_control)) {
            let name = tool.name.escape_debug();
            return Err(Error::invalid(format!("the name of a tool must not have control characters, got '{name}'")));
        }
        let (mut taken, mut refused) = (HashSet::new(), Vec::new());
        each_name(request, |name| {
            if is_accepted(name, provider) {
                taken.insert(name.clone());
            } else {
                refused.push(name.clone());
            }
        });
        // Of several names that become the same, each but the first gets a number.
        let (mut sent, mut numbers) = (HashMap::new(), HashMap::new());
        for name in refused {
            if sent.contains_key(&name) {
                continue;
            }
            let plain = plain(&name);
            let mut free = plain.clone();
            while !taken.insert(free.clone()) {
                let number = numbers.entry(plain.clone()).and_modify(|number| *number += 1).or_insert(2);
                let suffix = format!("_{number}");
                free = plain.chars().take(LONGEST - suffix.len()).collect::<String>() + &suffix;
            }
            sent.insert(name, free);
        }
        if !sent.is_empty() {
            each_name(request, |name| {
                if let Some(free) = sent.get(name) {
                    name.clone_from(free);
                }
            });
        }
        Ok(Self(sent.into_iter().map(|(name, sent)| (sent, name)).collect()))
    }

    /// Gives the calls in an answer the tools' own names.
    pub(super) fn restore(&self, answer: &mut LlmResponse) {
        let parts = answer.content.iter_mut().filter_map(|content| content.parts.as_mut()).flatten();
        for name in parts.filter_map(|part| part.function_call.as_mut()?.name.as_mut()) {
            if let Some(own) = self.0.get(name) {
                name.clone_from(own);
            }
        }
    }
}

/// Visits each name of a tool in a request, those of the declared tools first.
fn each_name(request: &mut LlmRequest, mut visit: impl FnMut(&mut String)) {
    request.tools.iter_mut().for_each(|tool| visit(&mut tool.name));
    for part in request.contents.iter_mut().filter_map(|content| content.parts.as_mut()).flatten() {
        part.function_call.iter_mut().filter_map(|call| call.name.as_mut()).for_each(&mut visit);
        part.function_response.iter_mut().filter_map(|response| response.name.as_mut()).for_each(&mut visit);
    }
    let calling = request.config.tool_config.as_mut().and_then(Value::as_object_mut).into_iter().flatten();
    for (_, config) in
        calling.filter(|(name, _)| matches!(name.as_str(), "functionCallingConfig" | "function_calling_config"))
    {
        for field in ["allowedFunctionNames", "allowed_function_names"] {
            for name in config.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Value::String(name) = name {
                    visit(name);
                }
            }
        }
    }
}

fn is_accepted(name: &str, provider: Provider) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match provider {
        Provider::Ollama | Provider::OllamaCloud => true,
        Provider::Gemini => {
            let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            begins && name.len() <= LONGEST && name.chars().all(|c| is_plain(c) || matches!(c, '.' | ':'))
        }
        _ => (1..=LONGEST).contains(&name.len()) && name.chars().all(is_plain),
    }
}

/// Returns a form of a name that every provider accepts.
fn plain(name: &str) -> String {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' });
    (!begins).then_some('_').into_iter().chain(plain).take(LONGEST).collect()
}

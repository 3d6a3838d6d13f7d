//! The hosted apps, the version, and the health check.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use scratchbook::model::FunctionDeclaration;
use scratchbook::{Agent, LlmAgent};
use serde::Serialize;
use serde_json::{Value, json};

use super::AdkError;
use crate::access::{Caller, Right};
use crate::app_state::AppState;
use crate::apps::App;
use crate::scope::AppName;

pub(super) async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// The version of google-adk whose API this server implements.
const ADK_VERSION: &str = "2.13.0";

/// Returns the version of this server. ADK's dev interface shows it after "ADK", so it begins with the version of ADK
/// with which the server is compatible.
pub(super) async fn version() -> Json<Value> {
    let version = format!("{ADK_VERSION}-compatible (scratchbook {})", env!("CARGO_PKG_VERSION"));
    let rustc = env!("SCRATCHBOOK_RUSTC_VERSION");
    Json(json!({"version": version, "language": "rust", "language_version": rustc}))
}

/// Returns the names of the apps within the caller's reach, or the details of each.
pub(super) async fn list(
    State(app_state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, AdkError> {
    let detailed = is_detailed(query.as_deref().unwrap_or_default())?;
    caller.check(Right::Read)?;
    let apps = app_state.apps.iter().filter(|(name, _)| caller.reaches_app(name));
    if !detailed {
        return Ok(Json(apps.map(|(name, _)| name).collect()));
    }
    let apps: Vec<_> = apps
        .map(|(name, app)| {
            let mut about = json!(AppDetails::new(name, app));
            // This is the only answer that keeps nulls.
            about["agents"] = Value::Null;
            about
        })
        .collect();
    Ok(Json(json!({"apps": apps})))
}

/// Returns the details of an app and of the LLM agents in it.
pub(super) async fn info(
    State(app_state): State<AppState>,
    caller: Caller,
    app: AppName<AdkError>,
) -> Result<Json<AppInfoJson>, AdkError> {
    caller.check(Right::Read)?;
    let name = app.app_name;
    check_reserved(&name)?;
    let app = app_state.apps.get(&name).filter(|_| caller.reaches_app(&name)).ok_or_else(|| no_app(&name))?;
    let Some(root) = app.agent.as_llm_agent() else {
        return Err(AdkError::new(StatusCode::BAD_REQUEST, json!("Root agent is not an LlmAgent")));
    };
    let mut agents = IndexMap::new();
    collect(root, &mut agents);
    Ok(Json(AppInfoJson { about: AppDetails::new(&name, app), agents }))
}

/// # Errors
///
/// 403, with ADK's message, for a name that ADK reserves for itself.
pub(super) fn check_reserved(name: &str) -> Result<(), AdkError> {
    if !name.starts_with("__") {
        return Ok(());
    }
    let reserved = "Access to internal special agents is disabled in API server mode and on a development server not \
                    known to be bound to a loopback address.";
    Err(AdkError::new(StatusCode::FORBIDDEN, json!(reserved)))
}

/// Returns the error for an app that is not hosted. The message begins as ADK's does.
pub(crate) fn no_app(name: &str) -> AdkError {
    let detail = format!("Agent not found: '{name}'. GET /list-apps names those that are hosted.");
    AdkError::new(StatusCode::NOT_FOUND, json!(detail))
}

/// The details of an app that `/list-apps` and `app-info` share.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AppDetails {
    name: String,
    root_agent_name: String,
    description: String,
    language: &'static str,
    is_computer_use: bool,
}

impl AppDetails {
    fn new(name: &str, app: &App) -> Self {
        Self {
            name: name.to_owned(),
            root_agent_name: app.agent.name().to_owned(),
            description: app.agent.description().to_owned(),
            language: app.origin.as_str(),
            is_computer_use: false,
        }
    }
}

/// An app, as ADK's `AppInfo`.
#[derive(Debug, Serialize)]
pub(super) struct AppInfoJson {
    #[serde(flatten)]
    about: AppDetails,
    agents: IndexMap<String, AgentInfoJson>,
}

/// An agent, as ADK's `AgentInfo`.
#[derive(Debug, Serialize)]
struct AgentInfoJson {
    name: String,
    description: String,
    instruction: String,
    tools: Vec<ToolInfo>,
    sub_agents: Vec<String>,
}

/// A tool, as Gemini's API declares it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolInfo {
    function_declarations: [FunctionDeclaration; 1],
}

/// Collects the LLM agents of a tree. As in ADK, each agent comes after the agents below it.
fn collect(agent: &LlmAgent, into: &mut IndexMap<String, AgentInfoJson>) {
    let below: Vec<_> = agent.sub_agents().iter().filter_map(|sub_agent| sub_agent.as_llm_agent()).collect();
    for sub_agent in &below {
        collect(sub_agent, into);
    }
    let tools = agent.tools().iter().map(|tool| ToolInfo { function_declarations: [tool.declaration().clone()] });
    let info = AgentInfoJson {
        name: agent.name().to_owned(),
        description: agent.description().to_owned(),
        instruction: agent.instruction().and_then(|i| i.source()).unwrap_or_default().to_owned(),
        tools: tools.collect(),
        sub_agents: below.iter().map(|sub_agent| sub_agent.name().to_owned()).collect(),
    };
    into.insert(info.name.clone(), info);
}

/// Reads `?detailed=`. As in ADK, the last value counts if there are several, and the rest of the query is ignored.
fn is_detailed(query: &str) -> Result<bool, AdkError> {
    let mut values = query.split('&').filter_map(|pair| pair.strip_prefix("detailed="));
    let Some(raw) = values.next_back() else {
        return Ok(false);
    };
    let value = percent_decode_str(raw).decode_utf8_lossy();
    match value.to_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => {
            let msg = "Input should be a valid boolean, unable to interpret input";
            let detail = json!([{"type": "bool_parsing", "loc": ["query", "detailed"], "msg": msg, "input": value}]);
            Err(AdkError::new(StatusCode::UNPROCESSABLE_ENTITY, detail))
        }
    }
}

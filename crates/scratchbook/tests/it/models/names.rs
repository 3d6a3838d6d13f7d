//! Which provider a model's name selects, and the environment variables of providers.

use std::process::Command;

use futures_util::StreamExt;
use scratchbook::model::{Llm, LlmRequest, RemoteLlm};
use scratchbook::{ErrorKind, Result};
use serde_json::json;

use super::server::{ModelServer, ScriptedAnswer};

/// All variables from which a key or an endpoint may be read here.
const VARIABLES: [&str; 8] = [
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OLLAMA_HOST",
];

fn named(name: &str) -> Result<RemoteLlm> {
    RemoteLlm::builder(name).api_key("key").build()
}

#[test]
fn a_provider_is_named_or_known_by_the_models_name() {
    for name in [
        "gemini-2.5-flash",
        "gemini-4-argon",
        "gpt-4o-mini",
        "o3",
        "claude-sonnet-4-5",
        "openai/gpt-4o",
        "openai/meta-llama/Llama-3.1-8B",
        "ollama_cloud::gpt-oss:120b",
        "ollama_chat/llama3:8b",
        "ollama::llama3",
    ] {
        assert_eq!(named(name).unwrap().name(), name);
    }
}

#[test]
fn who_provides_a_model_is_not_guessed() {
    for (name, kind, says) in [
        (
            "llama3",
            ErrorKind::InvalidArgument,
            "nothing says who provides the model 'llama3'; put its provider before it, as in 'ollama::llama3'",
        ),
        (
            "meta-llama/Llama-3",
            ErrorKind::InvalidArgument,
            "nothing says who provides the model 'meta-llama/Llama-3'; put its provider before it, as in 'ollama::llama3'",
        ),
        (
            "",
            ErrorKind::InvalidArgument,
            "nothing says who provides the model ''; put its provider before it, as in 'ollama::llama3'",
        ),
        ("nobody::x", ErrorKind::InvalidArgument, "no provider is called 'nobody'; there are openai,"),
        ("vertex::gemini-2.5-flash", ErrorKind::Unsupported, "models of 'vertex' are not supported"),
        ("projects/p/locations/l/endpoints/1", ErrorKind::Unsupported, "is a model of Vertex AI"),
        ("gemini::", ErrorKind::InvalidArgument, "'' is no model's name"),
        ("gemini-2.5 flash", ErrorKind::InvalidArgument, "'gemini-2.5 flash' is no model's name"),
    ] {
        let error = named(name).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn provider_with_openais_protocol_is_reached_as_openai_at_its_address() {
    for (name, model, address) in [
        ("groq::llama-3.3-70b-versatile", "llama-3.3-70b-versatile", "https://api.groq.com/openai/v1"),
        ("deepseek/deepseek-chat", "deepseek-chat", "https://api.deepseek.com/v1"),
        ("deepseek-chat", "deepseek-chat", "https://api.deepseek.com/v1"),
        ("grok-4", "grok-4", "https://api.x.ai/v1"),
        ("openrouter/anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1"),
    ] {
        let error = named(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}");
        let said = error.to_string();
        for part in [&format!("'openai::{model}'"), address, "OPENAI_BASE_URL", "OPENAI_API_KEY"] {
            assert!(said.contains(part), "{said}");
        }
    }
}

#[tokio::test]
async fn name_of_a_model_is_sent_whole_to_its_protocol() {
    let tuned = "ft:gpt-4o-mini-2024-07-18:my-pro::AbC123";
    for (name, path, model) in [
        (tuned, "/v1/chat/completions", tuned),
        ("openai::ft:gpt-4o-mini-2024-07-18:my-pro::AbC123", "/v1/chat/completions", tuned),
        ("openai/ft:gpt-4o-mini-2024-07-18:my-pro::AbC123", "/v1/chat/completions", tuned),
        ("openai::meta-llama/Llama-3.1-8B", "/v1/chat/completions", "meta-llama/Llama-3.1-8B"),
        ("openai::mistral-medium", "/v1/chat/completions", "mistral-medium"),
        ("gpt-4o-mini", "/v1/chat/completions", "gpt-4o-mini"),
        ("gpt-5-mini", "/v1/responses", "gpt-5-mini"),
        ("openai_resp::gpt-5-high", "/v1/responses", "gpt-5-high"),
        ("claude-opus-4-5", "/v1/messages", "claude-opus-4-5"),
    ] {
        let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
        let model_ = RemoteLlm::builder(name).endpoint(format!("{}/v1", server.url())).api_key("key").max_retries(0);
        let _ = model_.build().unwrap().generate(LlmRequest::default()).next().await;
        let asked = server.request();
        assert_eq!((asked.path.as_str(), &asked.body["model"]), (path, &json!(model)), "{name}");
        assert_eq!((asked.body.get("reasoning_effort"), asked.body.get("reasoning")), (None, None), "{name}");
    }
}

#[test]
fn an_endpoint_is_an_address_of_http() {
    for endpoint in ["", "localhost", "ftp://example.com", "https://", "http://user:s3cret@", "http://x/?a=b"] {
        let error = RemoteLlm::builder("gemini-2.5-flash").api_key("key").endpoint(endpoint).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{endpoint}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

/// This variable is set in a child process, which runs a test with its own environment.
const CHILD: &str = "SCRATCHBOOK_TEST_NAMES_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test of this binary in a child process with only these variables.
fn run_with(test: &str, variables: &[(&str, &str)]) {
    let module = module_path!().split_once("::").unwrap().1;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([&format!("{module}::{test}"), "--exact", "--nocapture"]).env(CHILD, "1");
    for name in VARIABLES {
        child.env_remove(name);
    }
    let output = child.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_missing_key_is_an_error_before_anything_is_sent() {
    if !is_child() {
        return run_with("a_missing_key_is_an_error_before_anything_is_sent", &[("GOOGLE_API_KEY", "")]);
    }
    for (name, variables) in [
        (
            "gemini-2.5-flash",
            "models of gemini need a key; set the environment variable GOOGLE_API_KEY or GEMINI_API_KEY",
        ),
        ("gpt-4o", "models of openai need a key; set the environment variable OPENAI_API_KEY"),
        ("claude-sonnet-4-5", "models of anthropic need a key; set the environment variable ANTHROPIC_API_KEY"),
    ] {
        let error = RemoteLlm::new(name).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::FailedPrecondition, variables));
    }
    RemoteLlm::new("ollama::llama3").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_endpoints_come_from_the_environment() {
    if is_child() {
        let model = RemoteLlm::new("gemini-2.5-flash").unwrap();
        model.generate(LlmRequest::default()).next().await.unwrap().unwrap();
        return;
    }
    let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
    let address = server.url();
    let url = ("GOOGLE_GEMINI_BASE_URL", address.as_str());
    for (variables, key) in [
        (vec![("GEMINI_API_KEY", "second"), url], "second"),
        (vec![("GEMINI_API_KEY", "second"), ("GOOGLE_API_KEY", "first"), url], "first"),
    ] {
        let this = "keys_and_endpoints_come_from_the_environment";
        tokio::task::block_in_place(|| run_with(this, &variables));
        assert_eq!(server.requests().last().unwrap().header("x-goog-api-key"), Some(key));
    }
}

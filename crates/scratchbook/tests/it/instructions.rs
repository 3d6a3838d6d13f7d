//! Instruction templates in running agents, including the templates of ADK's documentation.

use scratchbook::agent::{Instruction, inject_session_state};
use scratchbook::content::Part;
use scratchbook::model::ScriptedLlm;
use scratchbook::{ErrorKind, InMemorySessionService, LlmAgent, Runner};
use serde_json::json;

use crate::runner::{app, own_instruction, run, session_with};

async fn instructed(
    instruction: impl Into<Instruction>,
    state: serde_json::Value,
) -> Result<String, scratchbook::Error> {
    let model = ScriptedLlm::new(["ok"]);
    let agent = LlmAgent::builder("StoryGenerator").model(model.clone()).instruction(instruction).build()?;
    let service = app();
    session_with(&service, state).await;
    let runner = Runner::builder("app", agent, service.clone()).artifacts(service).build()?;
    let outcome = run(&runner, "go").await;
    let asked = model.requests();
    match outcome {
        Ok(_) => Ok(own_instruction(&asked[0]).to_owned()),
        Err(error) => {
            assert!(asked.is_empty(), "the model was asked although the instruction could not be rendered");
            Err(error)
        }
    }
}

#[tokio::test]
async fn the_templates_of_adks_documentation_are_rendered_as_it_says() {
    let story = "Write a short story about a cat, focusing on the theme: {topic}.";
    assert_eq!(
        instructed(story, json!({"topic": "friendship"})).await.unwrap(),
        "Write a short story about a cat, focusing on the theme: friendship."
    );
    let japanese = "猫についての短い物語を、テーマ：{topic}に焦点を当てて書いてください。";
    assert_eq!(
        instructed(japanese, json!({"topic": "友情"})).await.unwrap(),
        "猫についての短い物語を、テーマ：友情に焦点を当てて書いてください。"
    );
    assert_eq!(instructed("{{not a state variable}}", json!({})).await.unwrap(), "{not a state variable}");
    assert_eq!(instructed("theme: {topic?}.", json!({})).await.unwrap(), "theme: .");
}

#[tokio::test]
async fn a_provider_is_passed_to_the_model_as_it_is() {
    let text = "This is an instruction with {{literal_braces}} that will not be replaced.";
    let provider = Instruction::provider(move |_| async move { Ok(text.to_owned()) });
    assert_eq!(instructed(provider, json!({"literal_braces": 1})).await.unwrap(), text);
}

#[tokio::test]
async fn a_provider_can_inject_state_by_hand() {
    for (template, expected) in [
        (
            "This is a {adjective} instruction with {{literal_braces}}.",
            "This is a fine instruction with {literal_braces}.",
        ),
        (
            "これは{adjective}な指示で、{{リテラルの波括弧}}を含みます。",
            "これはfineな指示で、{リテラルの波括弧}を含みます。",
        ),
    ] {
        let provider = Instruction::provider(move |context| async move {
            assert_eq!(context.state().get("adjective"), Some(&json!("fine")));
            inject_session_state(template, &context).await
        });
        assert_eq!(instructed(provider, json!({"adjective": "fine"})).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_missing_key_names_key_agent_and_place_before_any_model_call() {
    let error = instructed("first line\nabout {topic}", json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let message = error.to_string();
    for part in ["'topic'", "'StoryGenerator'", "line 2", "column 7", "{topic?}"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn artifacts_go_into_instructions_by_name() {
    use scratchbook::artifact::ArtifactService;
    let service = InMemorySessionService::new();
    let service = std::sync::Arc::new(service);
    let key = session_with(&service, json!({})).await;
    service.save_artifact(&key, "notes.txt", Part::text("the {notes}"), Default::default()).await.unwrap();
    service.save_artifact(&key, "user:who.txt", Part::bytes("Ada", "text/plain"), Default::default()).await.unwrap();
    let model = ScriptedLlm::new(["ok"]);
    let agent = LlmAgent::builder("a")
        .model(model.clone())
        .instruction("{artifact.notes.txt} by {artifact.user:who.txt}{artifact.none?}")
        .build()
        .unwrap();
    let runner = Runner::builder("app", agent, service.clone()).artifacts(service).build().unwrap();
    run(&runner, "go").await.unwrap();
    assert_eq!(own_instruction(&model.requests()[0]), "the {notes} by Ada");

    let error = instructed("{artifact.none}", json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("'none'"), "{error}");
}

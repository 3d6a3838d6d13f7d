//! Runs that summarize events, compared with recordings of google-adk 2.13.0: the requests to the model, the requests
//! for summaries and the events are the same, except for ids and times. `testdata/compaction/record.py` made the
//! recordings.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use scratchbook::agent::{EventsCompactionConfig, FunctionTool};
use scratchbook::content::Part;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Content, LlmAgent, Runner};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::runner::{app, run, stored};

#[derive(Deserialize)]
struct RecordedCompaction {
    config: CompactionOptions,
    turns: Vec<String>,
    answers: Vec<Map<String, Value>>,
    requests: Vec<Vec<Content>>,
    events: Vec<Value>,
    yielded: usize,
    unsaid: usize,
}

#[derive(Deserialize)]
struct CompactionOptions {
    compaction_interval: Option<usize>,
    overlap_size: Option<usize>,
    token_threshold: Option<u64>,
    event_retention_size: Option<usize>,
}

async fn replay(recorded: &str) {
    let recorded: RecordedCompaction = serde_json::from_str(recorded).unwrap();
    let unsaid = Arc::new(Mutex::new(recorded.answers.into_iter().map(answer).collect::<VecDeque<_>>()));
    let model = ScriptedLlm::from_fn({
        let unsaid = Arc::clone(&unsaid);
        move |_| Ok(unsaid.lock().unwrap().pop_front().unwrap())
    });
    let look_up = |_: Map<String, Value>, _| async { Ok(json!({"found": true})) };
    let tool = FunctionTool::new("look_up", "Looks up.", look_up);
    let agent =
        LlmAgent::builder("assistant").model(model.clone()).instruction("Be brief.").tool(tool).build().unwrap();
    let mut config = EventsCompactionConfig::default();
    config.compaction_interval = recorded.config.compaction_interval;
    config.overlap_size = recorded.config.overlap_size;
    config.token_threshold = recorded.config.token_threshold;
    config.event_retention_size = recorded.config.event_retention_size;
    let runner = Runner::builder("app", agent, app()).auto_create_session().events_compaction(config).build().unwrap();
    let mut yielded = 0;
    for turn in recorded.turns {
        yielded += run(&runner, turn).await.unwrap().len();
    }
    let asked: Vec<_> = model.requests().into_iter().map(|request| request.contents).collect();
    let expected: Vec<_> = recorded.requests.into_iter().map(in_json).collect();
    assert_eq!(json!(asked), json!(expected));
    let session = stored(&runner).await;
    let events: Vec<_> = session
        .events()
        .iter()
        .map(|event| {
            let place = |time: f64| session.events().iter().position(|event| event.timestamp == Some(time)).unwrap();
            let mut shown = json!({"author": event.author});
            if let Some(content) = &event.content {
                shown["content"] = json!(without_ids(content.clone()));
            }
            if let Some(compaction) = &event.actions.compaction {
                shown["compaction"] = json!({
                    "compactedContent": compaction.compacted_content,
                    "from": place(compaction.start_timestamp),
                    "to": place(compaction.end_timestamp),
                });
            }
            shown
        })
        .collect();
    assert_eq!(json!(events), json!(recorded.events));
    assert_eq!((yielded, unsaid.lock().unwrap().len()), (recorded.yielded, recorded.unsaid));
}

fn answer(mut part: Map<String, Value>) -> LlmResponse {
    let count = part.remove("promptTokenCount");
    let part: Part = serde_json::from_value(Value::Object(part)).unwrap();
    let content = Some(Content::new("model", vec![part]));
    let usage_metadata = count.map(|count| json!({"promptTokenCount": count}));
    LlmResponse { content, usage_metadata, ..LlmResponse::default() }
}

/// A summarizer is shown calls and responses in JSON; google-adk shows them as Python literals.
fn in_json(mut contents: Vec<Content>) -> Vec<Content> {
    for text in
        contents.iter_mut().flat_map(|content| content.parts.as_mut().unwrap()).filter_map(|part| part.text.as_mut())
    {
        *text = text.replace("{'item': 'book'}", r#"{"item":"book"}"#).replace("{'found': True}", r#"{"found":true}"#);
    }
    contents
}

fn without_ids(mut content: Content) -> Content {
    for part in content.parts.as_mut().unwrap() {
        part.function_call.iter_mut().for_each(|call| call.id = None);
        part.function_response.iter_mut().for_each(|response| response.id = None);
    }
    content
}

macro_rules! replays {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[tokio::test]
        async fn $name() {
            replay(include_str!(concat!("../testdata/compaction/", stringify!($name), ".json"))).await;
        }
    )*};
}

replays!(
    /// Summarizes every two invocations, together with the invocation before them.
    sliding_window,
    /// Summarizes after a run, if the model has counted too many tokens.
    token_threshold,
    /// Summarizes before a model call; the next summary includes this one.
    within_a_run,
    /// Summarizes by an estimate, because the model counts no tokens.
    estimated
);

//! Tools that answer later, by a message of the user.

use scratchbook::agent::SequentialAgent;
use scratchbook::content::Part;
use scratchbook::event::EventCompaction;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{AppendOptions, Content, ErrorKind, Event, LlmAgent, RunRequest, SessionKey, SessionService};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{ToolRuns, answer, ask, call, ids, llm, look, on, resumable, says, shown, told, wait};
use crate::runner::{app, run, stored};

fn two_waits() -> LlmResponse {
    LlmResponse::calls([("wait", json!({"q": 1})), ("wait", json!({"q": 2}))])
}

fn n(number: u64) -> Value {
    json!({"n": number})
}

#[tokio::test]
async fn a_turn_pauses_at_a_call_without_an_answer_and_goes_on_with_it() {
    for resumes in [false, true] {
        let (count, model) = (ToolRuns::default(), ScriptedLlm::new([call("wait", json!({})), says("Thanks.")]));
        let agent = LlmAgent::builder("agent").model(model.clone()).tool(wait(&count)).build().unwrap();
        let runner = if resumes { resumable(&app(), agent) } else { on(&app(), agent) };
        let asked = run(&runner, "go").await.unwrap();
        let id = &ids(&asked, "wait")[0];
        assert_eq!(asked[0].long_running_tool_ids.iter().flatten().collect::<Vec<_>>(), [id]);
        assert_eq!((count.get(), model.requests().len()), (1, 1));
        let events = run(&runner, answer(id, "wait", n(7))).await.unwrap();
        assert_eq!(told(&events)[0], "agent: Thanks.");
        assert_eq!(shown(&model), ["go", "wait?", r#"wait={"n":7}"#]);
        assert!(events.iter().all(|event| event.invocation_id == asked[0].invocation_id));
        assert_eq!(count.get(), 1, "the tool is not run again");
    }
}

#[tokio::test]
async fn the_model_hears_a_first_answer_and_later_the_one_that_counts() {
    let model = ScriptedLlm::new([call("ask", json!({})), says("Pending."), says("Still."), says("Done.")]);
    let agent = LlmAgent::builder("agent").model(model.clone()).tool(ask()).build().unwrap();
    let runner = on(&app(), agent);
    let id = ids(&run(&runner, "go").await.unwrap(), "ask")[0].clone();
    assert_eq!(shown(&model), ["go", "ask?", r#"ask={"status":"pending"}"#]);
    for (status, reply) in [("in progress", "agent: Still."), ("done", "agent: Done.")] {
        let events = run(&runner, answer(&id, "ask", json!({"status": status}))).await.unwrap();
        assert_eq!(told(&events), [reply]);
        assert_eq!(shown(&model), ["go".to_owned(), "ask?".to_owned(), format!(r#"ask={{"status":"{status}"}}"#)]);
    }
}

#[tokio::test]
async fn several_calls_are_answered_one_by_one_in_any_order() {
    for order in [[0, 1], [1, 0]] {
        let model = ScriptedLlm::new([two_waits(), says("one"), says("two")]);
        let agent = LlmAgent::builder("agent").model(model.clone()).tool(wait(&ToolRuns::default())).build().unwrap();
        let runner = on(&app(), agent);
        let asked = ids(&run(&runner, "go").await.unwrap(), "wait");
        for (turn, which) in order.into_iter().enumerate() {
            let events = run(&runner, answer(&asked[which], "wait", n(which as u64))).await.unwrap();
            assert_eq!(told(&events), [["agent: one", "agent: two"][turn]]);
        }
        let mut answers = shown(&model).split_off(3);
        answers.sort();
        assert_eq!(answers, [r#"wait={"n":0}"#, r#"wait={"n":1}"#], "the model has both beside their calls");
    }
}

/// Resumable runs behave in this way in ADK.
#[tokio::test]
async fn the_model_of_a_resumable_run_is_asked_when_all_is_answered() {
    let model = ScriptedLlm::new([two_waits(), says("Both.")]);
    let agent = LlmAgent::builder("agent").model(model.clone()).tool(wait(&ToolRuns::default())).build().unwrap();
    let runner = resumable(&app(), agent);
    let asked = ids(&run(&runner, "go").await.unwrap(), "wait");
    assert!(run(&runner, answer(&asked[1], "wait", n(2))).await.unwrap().is_empty());
    let events = run(&runner, answer(&asked[0], "wait", n(1))).await.unwrap();
    assert_eq!(told(&events), ["agent: Both.", "agent: ends"]);
}

#[tokio::test]
async fn a_resumable_run_waits_for_a_call_beside_others() {
    let calls = LlmResponse::calls([("wait", json!({})), ("look", json!({"item": "x"}))]);
    let model = ScriptedLlm::new([calls, says("Both.")]);
    let count = ToolRuns::default();
    let agent = LlmAgent::builder("agent").model(model.clone()).tool(wait(&count)).tool(look(&count)).build().unwrap();
    let runner = resumable(&app(), agent);
    let asked = run(&runner, "go").await.unwrap();
    assert_eq!(told(&asked), ["agent: wait? look?", r#"agent: look={"found":"x"}"#]);
    let events = run(&runner, answer(&ids(&asked, "wait")[0], "wait", n(1))).await.unwrap();
    assert_eq!(told(&events), ["agent: Both.", "agent: ends"]);
    assert_eq!(count.get(), 2, "nothing is run twice");
}

#[tokio::test]
async fn an_answer_that_comes_twice_is_heard_twice_and_runs_nothing() {
    for resumes in [false, true] {
        let (count, model) =
            (ToolRuns::default(), ScriptedLlm::new([call("wait", json!({})), says("one"), says("two")]));
        let agent = LlmAgent::builder("agent").model(model.clone()).tool(wait(&count)).build().unwrap();
        let runner = if resumes { resumable(&app(), agent) } else { on(&app(), agent) };
        let id = ids(&run(&runner, "go").await.unwrap(), "wait")[0].clone();
        for reply in ["agent: one", "agent: two"] {
            let events = run(&runner, answer(&id, "wait", n(1))).await.unwrap();
            assert_eq!(told(&events)[0], reply);
            assert_eq!(shown(&model), ["go", "wait?", r#"wait={"n":1}"#], "once beside its call");
        }
        assert_eq!(count.get(), 1);
    }
}

#[tokio::test]
async fn an_ordinary_message_in_between_is_answered_and_the_call_stays_open() {
    for resumes in [false, true] {
        let model = ScriptedLlm::new([call("wait", json!({})), says("Hello."), says("Thanks.")]);
        let agent = LlmAgent::builder("agent").model(model.clone()).tool(wait(&ToolRuns::default())).build().unwrap();
        let runner = if resumes { resumable(&app(), agent) } else { on(&app(), agent) };
        let asked = run(&runner, "go").await.unwrap();
        let between = run(&runner, "hi").await.unwrap();
        assert_eq!(told(&between)[0], "agent: Hello.");
        assert_ne!(between[0].invocation_id, asked[0].invocation_id);
        let events = run(&runner, answer(&ids(&asked, "wait")[0], "wait", n(1))).await.unwrap();
        assert_eq!(told(&events)[0], "agent: Thanks.");
        assert_eq!(events[0].invocation_id, asked[0].invocation_id);
    }
}

#[tokio::test]
async fn an_answer_under_another_name_is_refused() {
    let agent =
        llm("agent", [call("wait", json!({})), says("Thanks.")]).tool(wait(&ToolRuns::default())).build().unwrap();
    let runner = on(&app(), agent);
    let id = ids(&run(&runner, "go").await.unwrap(), "wait")[0].clone();
    let error = run(&runner, answer(&id, "ask", n(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("'wait'") && error.to_string().contains("'ask'"), "{error}");
}

#[tokio::test]
async fn an_answer_and_text_in_one_message_are_both_heard() {
    let model = ScriptedLlm::new([call("wait", json!({})), says("Thanks.")]);
    let agent = LlmAgent::builder("agent").model(model.clone()).tool(wait(&ToolRuns::default())).build().unwrap();
    let runner = on(&app(), agent);
    let asked = run(&runner, "go").await.unwrap();
    let mut message = answer(&ids(&asked, "wait")[0], "wait", n(1));
    message.parts.as_mut().unwrap().push(Part::text("and more"));
    let events = run(&runner, message).await.unwrap();
    assert_eq!(events[0].invocation_id, asked[0].invocation_id);
    assert_eq!(shown(&model), ["go", "wait?", r#"wait={"n":1}"#, "and more"]);
    assert_eq!(stored(&runner).await.events().iter().filter(|event| event.author == "user").count(), 2);
}

#[tokio::test]
async fn agents_after_one_that_waits_do_not_run_before_it_is_answered() {
    for (resumes, tool) in [(false, "wait"), (true, "wait"), (false, "ask"), (true, "ask")] {
        let a = llm("a", [call(tool, json!({})), says("a 1"), says("a 2"), says("a 3")])
            .tool(wait(&ToolRuns::default()))
            .tool(ask())
            .build()
            .unwrap();
        let b = llm("b", [says("b")]).build().unwrap();
        let seq = SequentialAgent::new("seq", vec![Arc::new(a), Arc::new(b)]);
        let runner = if resumes { resumable(&app(), seq) } else { on(&app(), seq) };
        let asked = run(&runner, "go").await.unwrap();
        assert!(!told(&asked).contains(&"b: b".to_owned()), "{:?}", told(&asked));
        let events = run(&runner, answer(&ids(&asked, tool)[0], tool, n(1))).await.unwrap();
        // Only a resumable run continues with its other agents, as in ADK.
        assert_eq!(told(&events).contains(&"b: b".to_owned()), resumes, "{tool}: {:?}", told(&events));
        let again = run(&runner, answer(&ids(&asked, tool)[0], tool, n(2))).await.unwrap();
        assert!(told(&again)[0].starts_with("a: a "), "also when all is over, a later answer goes to who has asked");
    }
}

#[tokio::test]
async fn a_message_without_an_id_answers_nothing() {
    let model = ScriptedLlm::new([call("wait", json!({})), says("Hm.")]);
    let agent = LlmAgent::builder("agent").model(model).tool(wait(&ToolRuns::default())).build().unwrap();
    let runner = on(&app(), agent);
    let asked = run(&runner, "go").await.unwrap();
    let part = Part::function_response("", "wait", n(1));
    let request = RunRequest::message(Content::new("user", vec![part, Part::text("x")]));
    let events = run(&runner, request).await.unwrap();
    assert_ne!(events[0].invocation_id, asked[0].invocation_id);
}

#[tokio::test]
async fn one_message_may_answer_two_agents_where_runs_are_not_resumable() {
    for resumes in [false, true] {
        let sub =
            llm("sub", [call("wait", json!({})), says("sub thanks")]).tool(wait(&ToolRuns::default())).build().unwrap();
        let both = LlmResponse::calls([("wait", json!({})), ("transfer_to_agent", json!({"agent_name": "sub"}))]);
        let root =
            llm("root", [both, says("root thanks")]).tool(wait(&ToolRuns::default())).sub_agent(sub).build().unwrap();
        let runner = if resumes { resumable(&app(), root) } else { on(&app(), root) };
        let asked = ids(&run(&runner, "go").await.unwrap(), "wait");
        let parts = asked.iter().map(|id| Part::function_response(id.as_str(), "wait", n(1))).collect();
        let events = run(&runner, Content::new("user", parts)).await;
        match resumes {
            false => assert_eq!(told(&events.unwrap()), ["root: root thanks", "sub: sub thanks"]),
            true => {
                assert_eq!(events.unwrap_err().kind(), ErrorKind::InvalidArgument);
                for (id, reply) in asked.iter().zip(["root: root thanks", "sub: sub thanks"]) {
                    let events = run(&runner, answer(id, "wait", n(1))).await.unwrap();
                    assert_eq!(told(&events)[0], reply);
                }
            }
        }
    }
}

/// A summary is stored at the end of a run, and may come after an answer that no agent has received yet.
#[tokio::test]
async fn an_answer_with_a_summary_after_it_still_goes_to_who_has_called() {
    let sub = llm("sub", [call("wait", json!({})), says("Thanks.")]).tool(wait(&ToolRuns::default()));
    let sub = sub.disallow_transfer_to_parent().build().unwrap();
    let root = llm("root", [call("transfer_to_agent", json!({"agent_name": "sub"})), says("I do not wait.")]);
    let service = app();
    let runner = on(&service, root.sub_agent(sub).build().unwrap());
    let asked = run(&runner, "go").await.unwrap();
    let mut answered = Event::new("user");
    answered.content = Some(answer(&ids(&asked, "wait")[0], "wait", n(1)));
    let mut summary = Event::new("user");
    summary.actions.compaction = Some(EventCompaction::new(0.5, 0.6, Content::model("Nothing was said.")).into());
    let key = SessionKey::new("app", "user", "s").unwrap();
    for event in [answered, summary] {
        service.append(&key, event.with_invocation_id("later"), AppendOptions::default()).await.unwrap();
    }
    let events = run(&runner, RunRequest::default()).await.unwrap();
    assert_eq!(told(&events), ["sub: Thanks."]);
}

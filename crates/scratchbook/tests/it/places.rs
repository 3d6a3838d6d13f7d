//! `nodeInfo.path`: the place in a run where an event was made. Every list here was recorded with google-adk 2.13.0,
//! with the same agents and the same answers of their models.

use std::sync::Arc;

use futures_util::stream;
use scratchbook::agent::{
    FunctionAgent, InvocationContext, LlmAgentBuilder, LoopAgent, ParallelAgent, SequentialAgent,
};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Agent, Error, ErrorKind, Event, LlmAgent, Runner};
use serde_json::json;

use crate::runner::{run, runner, stored};

fn to(name: &str) -> LlmResponse {
    LlmResponse::call("transfer_to_agent", json!({"agent_name": name}))
}

fn llm<const N: usize>(name: &str, turns: [LlmResponse; N]) -> LlmAgentBuilder {
    LlmAgent::builder(name).model(ScriptedLlm::new(turns))
}

fn text(text: &str) -> LlmResponse {
    LlmResponse::text(text)
}

fn all(agents: Vec<LlmAgentBuilder>) -> Vec<Arc<dyn Agent>> {
    agents.into_iter().map(|agent| -> Arc<dyn Agent> { Arc::new(agent.build().unwrap()) }).collect()
}

/// Returns the author and the path of each stored event of a session.
async fn places(runner: &Runner) -> Vec<String> {
    stored(runner).await.events().iter().map(|event| format!("{} {}", event.author, event.node_info.path)).collect()
}

/// Runs a tree of agents on messages, and compares.
async fn arise(root: impl Agent, messages: usize, expected: &[&str]) {
    let runner = runner(root);
    for _ in 0..messages {
        for event in run(&runner, "go").await.unwrap() {
            let kept = stored(&runner).await.events().iter().find(|kept| kept.id == event.id).cloned().unwrap();
            assert_eq!(kept.node_info, event.node_info, "what is shown is what is stored");
        }
    }
    assert_eq!(places(&runner).await, expected);
}

#[tokio::test]
async fn the_root_is_the_first_node_and_the_user_is_none() {
    arise(llm("root", [text("x")]).build().unwrap(), 1, &["user ", "root root@1"]).await;
}

#[tokio::test]
async fn an_agent_is_below_the_one_that_stands_above_it_and_its_turns_are_counted() {
    let sub = llm("sub", [text("from sub"), text("second"), to("root")]).build().unwrap();
    let root = llm("root", [to("sub"), text("again root")]).sub_agent(sub).build().unwrap();
    arise(
        root,
        3,
        &[
            "user ",
            "root root@1",
            "root root@1",
            "sub root@1/sub@1",
            "user ",
            "sub root@1/sub@1",
            "user ",
            "sub root@1/sub@1",
            "sub root@1/sub@1",
            "root root@2",
        ],
    )
    .await;
}

#[tokio::test]
async fn agents_side_by_side_are_counted_below_the_same_turn() {
    let s1 = llm("s1", [to("s2"), to("s2")]).build().unwrap();
    let s2 = llm("s2", [to("s1"), text("end")]).build().unwrap();
    let root = llm("root", [to("s1")]).sub_agent(s1).sub_agent(s2).build().unwrap();
    arise(
        root,
        1,
        &[
            "user ",
            "root root@1",
            "root root@1",
            "s1 root@1/s1@1",
            "s1 root@1/s1@1",
            "s2 root@1/s2@1",
            "s2 root@1/s2@1",
            "s1 root@1/s1@2",
            "s1 root@1/s1@2",
            "s2 root@1/s2@2",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_run_that_begins_deep_in_the_tree_has_the_whole_path_and_goes_up_as_in_adk() {
    let s2 = llm("s2", [text("x"), to("s1"), text("y")]).build().unwrap();
    let s1 = llm("s1", [to("s2"), to("root"), to("s2")]).sub_agent(s2).build().unwrap();
    let root = llm("root", [to("s1"), to("s1")]).sub_agent(s1).build().unwrap();
    arise(
        root,
        2,
        &[
            "user ",
            "root root@1",
            "root root@1",
            "s1 root@1/s1@1",
            "s1 root@1/s1@1",
            "s2 root@1/s1@1/s2@1",
            "user ",
            "s2 root@1/s1@1/s2@1",
            "s2 root@1/s1@1/s2@1",
            "s1 root@1/s1@1",
            "s1 root@1/s1@1",
            "root root@2",
            "root root@2",
            "s1 root@2/s1@1",
            "s1 root@2/s1@1",
            "s2 root@2/s1@1/s2@1",
        ],
    )
    .await;
    let s2 = llm("s2", [to("s1")]).build().unwrap();
    let s1 = llm("s1", [to("s2"), text("x")]).sub_agent(s2).build().unwrap();
    let root = llm("root", [to("s1")]).sub_agent(s1).build().unwrap();
    arise(
        root,
        1,
        &[
            "user ",
            "root root@1",
            "root root@1",
            "s1 root@1/s1@1",
            "s1 root@1/s1@1",
            "s2 root@1/s1@1/s2@1",
            "s2 root@1/s1@1/s2@1",
            "s1 root@1/s1@2",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_workflow_agent_is_one_node_with_all_that_it_runs() {
    let inner = llm("c", [text("c")]).build().unwrap();
    let seq = SequentialAgent::new("seq", all(vec![llm("a", [to("c")]).sub_agent(inner), llm("b", [text("2")])]));
    let root = llm("root", [to("seq"), text("root again")]).sub_agent(seq).build().unwrap();
    arise(
        root,
        2,
        &[
            "user ",
            "root root@1",
            "root root@1",
            "a root@1/seq@1",
            "a root@1/seq@1",
            "c root@1/seq@1",
            "b root@1/seq@1",
            "user ",
            "root root@1",
        ],
    )
    .await;
    let inner = SequentialAgent::new("q", all(vec![llm("a", [text("1"), text("2")])]));
    let repeat = LoopAgent::new("lp", vec![Arc::new(inner)]).with_max_iterations(2);
    let root = llm("root", [to("lp")]).sub_agent(repeat).build().unwrap();
    arise(root, 1, &["user ", "root root@1", "root root@1", "a root@1/lp@1", "a root@1/lp@1"]).await;
    let parallel = ParallelAgent::new("par", all(vec![llm("a", [text("1")])]));
    let root = llm("root", [to("par")]).sub_agent(parallel).build().unwrap();
    arise(root, 1, &["user ", "root root@1", "root root@1", "a root@1/par@1"]).await;
}

#[tokio::test]
async fn below_a_root_that_is_no_llm_agent_there_are_no_nodes() {
    let inner = llm("c", [text("c")]).build().unwrap();
    let root = SequentialAgent::new("q", all(vec![llm("a", [to("c")]).sub_agent(inner), llm("b", [text("2")])]));
    arise(root, 1, &["user ", "a ", "a ", "c ", "b "]).await;
    let own = FunctionAgent::new("own", |context: InvocationContext| stream::iter([Ok(context.event())]));
    arise(own, 1, &["user ", "own "]).await;
}

#[tokio::test]
async fn an_event_made_by_hand_is_placed_where_its_agent_is() {
    let own = FunctionAgent::new("own", |_| stream::iter([Ok(Event::new("own"))]));
    let root = llm("root", [to("own")]).sub_agent(own).build().unwrap();
    arise(root, 1, &["user ", "root root@1", "root root@1", "own root@1/own@1"]).await;
}

#[tokio::test]
async fn what_callbacks_write_and_what_fails_is_placed_as_well() {
    let sub = LlmAgent::builder("sub")
        .model(ScriptedLlm::from_fn(|_| Err(Error::new(ErrorKind::Internal, "scripted model failure"))))
        .before_agent(|context| async move {
            context.state().set("k", 1)?;
            Ok(None)
        })
        .build()
        .unwrap();
    let root = llm("root", [to("sub")]).sub_agent(sub).build().unwrap();
    let runner = runner(root);
    run(&runner, "go").await.unwrap_err();
    let expected = ["user ", "root root@1", "root root@1", "sub root@1/sub@1", "sub root@1/sub@1"];
    assert_eq!(places(&runner).await, expected);
    let failure = stored(&runner).await.events().last().unwrap().clone();
    assert_eq!(failure.error_code.as_deref(), Some("INTERNAL"));
    assert!(failure.error_message.as_deref().unwrap().ends_with("scripted model failure"));
}

//! The script understands its requests, and its tools change the state.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::agent::RunConfig;
use scratchbook::{GetSessionConfig, RunRequest, Runner, SessionKey, Store, connect};
use serde_json::{Value, json};

use super::request::{Item, ShopRequest};
use super::{agent, answer};
use crate::agents::demo::model::DemoModel;

fn items<const N: usize>(items: [(&str, Option<u32>); N]) -> Vec<Item> {
    items.map(|(name, quantity)| Item { name: name.to_owned(), quantity }).to_vec()
}

#[test]
fn messages_are_read_as_requests() {
    for (message, request) in [
        ("Add two apples, please!", ShopRequest::Add(items([("apples", Some(2))]))),
        ("Add two apples and a book, please", ShopRequest::Add(items([("apples", Some(2)), ("book", Some(1))]))),
        (
            "add 3 green pears, milk, and the book",
            ShopRequest::Add(items([("green pears", Some(3)), ("milk", None), ("book", None)])),
        ),
        ("add 0 pears", ShopRequest::Add(items([("pears", Some(0))]))),
        ("Remove the apples", ShopRequest::Remove(items([("apples", None)]))),
        ("remove everything", ShopRequest::Remove(Vec::new())),
        ("What is in my cart?", ShopRequest::ShowCart),
        ("My name is Ann", ShopRequest::SetName("Ann".to_owned())),
        ("Remember that I like tea.", ShopRequest::Remember("I like tea".to_owned())),
        ("Who am I?", ShopRequest::Recall),
        ("Save a note: Buy milk, and pay", ShopRequest::SaveNote("Buy milk, and pay".to_owned())),
        ("check out, please", ShopRequest::CheckOut),
        ("Hello!", ShopRequest::Greet),
        ("HELP", ShopRequest::Help),
        ("What can you do?", ShopRequest::Help),
        ("ask for a discount", ShopRequest::AskForDiscount),
        ("forget me", ShopRequest::ForgetCustomer),
        ("Thanks", ShopRequest::Thank),
    ] {
        assert_eq!(ShopRequest::parse(message), request, "{message}");
    }
    for message in
        ["", "é", "add", "add two", "add -3 apples", "add 1.5 apples", "Übermut tut selten gut", "/add a pear"]
    {
        assert_eq!(ShopRequest::parse(message), ShopRequest::Unknown, "{message}");
    }
}

struct Talk {
    store: Store,
    runner: Runner,
}

impl Talk {
    async fn new() -> Self {
        let store = connect("memory:").await.unwrap();
        let agent = agent(Arc::new(DemoModel::new(answer))).unwrap();
        let runner = Runner::builder("demo", agent, store.sessions.clone()).artifacts(store.artifacts.clone());
        Self { store, runner: runner.auto_create_session().build().unwrap() }
    }

    /// Says something, and returns the text of the last event.
    async fn say(&self, session: &str, message: &str) -> String {
        let events: Vec<_> = self.runner.run("ann", session, message).try_collect().await.unwrap();
        events.last().unwrap().content.as_ref().unwrap().text()
    }

    async fn state(&self, session: &str) -> Value {
        let key = SessionKey::new("demo", "ann", session).unwrap();
        let session = self.store.sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
        json!(session.state())
    }
}

#[tokio::test]
async fn a_conversation_changes_every_scope() {
    let talk = Talk::new().await;
    assert_eq!(talk.say("s1", "Add two apples and a book").await, "Done. In your cart: 2 x apples, 1 x book.");
    assert_eq!(talk.say("s1", "add an apple").await, "Done. In your cart: 3 x apples, 1 x book.");
    let missing = talk.say("s1", "remove the book and a pear").await;
    assert_eq!(missing, "Not in your cart: pear. In your cart: 3 x apples.");
    assert_eq!(talk.say("s1", "remove one apple").await, "Done. In your cart: 2 x apples.");
    let refused = talk.say("s1", "add a pear and 0 plums").await;
    assert_eq!(refused, "That did not work: 0 of plums is too few, 1 is the least.");
    assert!(talk.say("s1", "it is raining").await.contains("did not understand"));
    assert_eq!(talk.say("s1", "show my cart").await, "In your cart: 2 x apples.");
    assert_eq!(talk.say("s1", "add 1000 apples").await, "That did not work: we have 1000 of apples at most.");
    talk.say("s1", "my name is Ann").await;
    talk.say("s1", "remember that I like tea").await;
    talk.say("s1", "save a note: buy milk").await;
    assert_eq!(talk.say("s1", "check out").await, "Ordered: 2 x apples. Your receipt is receipt.txt, version 0.");
    assert_eq!(talk.say("s1", "check out").await, "That did not work: the cart is empty.");
    let state = talk.state("s1").await;
    assert_eq!(state["last_reply"], "That did not work: the cart is empty.");
    assert_eq!((&state["user:orders"], &state["app:orders"], &state["messages"]), (&json!(1), &json!(1), &json!(13)));
    assert!(state.get("cart").is_none() && !state.to_string().contains("temp:"), "{state}");

    let welcome = talk.say("s2", "hello").await;
    assert!(welcome.starts_with("Welcome back, Ann! This is your visit number 2."), "{welcome}");
    let again = talk.say("s2", "hello").await;
    assert!(again.starts_with("Hello, Ann!"), "{again}");
    let known = talk.say("s2", "what do you know about me?").await;
    assert_eq!(known, "You are Ann. You said: I like tea. Visits: 2. Orders: 1, and 1 by all customers.");
    let key = SessionKey::new("demo", "ann", "s1").unwrap();
    assert_eq!(talk.store.artifacts.list_artifacts(&key).await.unwrap(), ["note.txt", "receipt.txt"]);
}

#[tokio::test]
async fn answers_are_streamed_word_by_word() {
    let talk = Talk::new().await;
    let request = RunRequest::message("help").with_config(RunConfig::default().with_streaming());
    let events: Vec<_> = talk.runner.run("ann", "s1", request).try_collect().await.unwrap();
    let pieces: Vec<_> = events.iter().filter(|event| event.partial == Some(true)).collect();
    assert!(pieces.len() > 10);
    let text: String = pieces.iter().map(|event| event.content.as_ref().unwrap().text()).collect();
    assert_eq!(text, events.last().unwrap().content.as_ref().unwrap().text());
}

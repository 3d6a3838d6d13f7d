//! What is said is understood, and what is done is in the state.
#![allow(clippy::unwrap_used)]

use futures_util::TryStreamExt;
use scratchbook::{GetSessionConfig, RunConfig, RunRequest, Runner, SessionKey, Store, connect};
use serde_json::{Value, json};

use super::agent;
use super::wish::{Item, Wish};

fn item(name: &str, quantity: u32) -> Item {
    Item { name: name.to_owned(), quantity }
}

#[test]
fn sentences_are_understood_as_people_say_them() {
    for (said, wish) in [
        ("Add two apples, please!", Wish::Add(vec![item("apples", 2)])),
        ("please add an apple and 3 green pears to my cart", Wish::Add(vec![item("apple", 1), item("green pears", 3)])),
        ("I'd like milk, bread and the book", Wish::Add(vec![item("milk", 1), item("bread", 1), item("book", 1)])),
        ("Can you put coffee in the basket?", Wish::Add(vec![item("coffee", 1)])),
        ("Remove the apples from my cart", Wish::Remove(vec!["apples".to_owned()])),
        ("empty my cart", Wish::RemoveAll),
        ("What is in my cart?", Wish::ShowCart),
        ("My name is Ann-Sophie", Wish::BeCalled("Ann-Sophie".to_owned())),
        ("Remember that I like tea.", Wish::Remember("I like tea".to_owned())),
        ("What do you know about me?", Wish::Recall),
        ("how often was I here", Wish::Recall),
        ("Save a note: buy milk and pay", Wish::SaveNote("buy milk and pay".to_owned())),
        ("check out, please", Wish::CheckOut),
        ("Hello", Wish::Greet),
        ("HELP", Wish::Help),
        ("thanks a lot", Wish::Thank),
        ("add", Wish::Other),
        ("", Wish::Other),
        ("Übermut tut selten gut", Wish::Other),
        ("é", Wish::Other),
    ] {
        assert_eq!(Wish::of(said), wish, "{said}");
    }
}

struct Talk {
    store: Store,
    runner: Runner,
}

impl Talk {
    async fn new() -> Self {
        let store = connect("memory:").await.unwrap();
        let runner =
            Runner::builder("demo", agent().unwrap(), store.sessions.clone()).artifacts(store.artifacts.clone());
        Self { store, runner: runner.auto_create_session().build().unwrap() }
    }

    /// What is answered in the end.
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
async fn a_conversation_leaves_its_traces_in_every_scope() {
    let talk = Talk::new().await;
    assert_eq!(talk.say("s1", "Add two apples and a book").await, "Done. In your cart: 2 x apples, 1 x book.");
    assert_eq!(talk.say("s1", "add another apple").await, "Done. In your cart: 3 x apples, 1 x book.");
    assert_eq!(talk.say("s1", "remove the book and a pear").await, "There was no pear. In your cart: 3 x apples.");
    assert_eq!(talk.say("s1", "add 1000 apples").await, "That did not work: we have 1000 of apples at most.");
    talk.say("s1", "my name is Ann").await;
    talk.say("s1", "remember that I like tea").await;
    talk.say("s1", "save a note: buy milk").await;
    assert_eq!(talk.say("s1", "check out").await, "Ordered: 3 x apples. Your receipt is receipt.txt, version 0.");
    assert_eq!(talk.say("s1", "check out").await, "That did not work: the cart is empty.");
    let state = talk.state("s1").await;
    assert_eq!(state["last_reply"], "That did not work: the cart is empty.");
    assert_eq!((&state["user:orders"], &state["app:orders"], &state["messages"]), (&json!(1), &json!(1), &json!(9)));
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
async fn answers_come_word_by_word() {
    let talk = Talk::new().await;
    let request = RunRequest::message("help").with_config(RunConfig::default().with_streaming());
    let events: Vec<_> = talk.runner.run("ann", "s1", request).try_collect().await.unwrap();
    let pieces: Vec<_> = events.iter().filter(|event| event.partial == Some(true)).collect();
    assert!(pieces.len() > 10);
    let text: String = pieces.iter().map(|event| event.content.as_ref().unwrap().text()).collect();
    assert_eq!(text, events.last().unwrap().content.as_ref().unwrap().text());
}

//! What is said is understood, and what is done is in the state.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::{GetSessionConfig, RunConfig, RunRequest, Runner, SessionKey, Store, connect};
use serde_json::{Value, json};

use super::items::{Item, Removal, is_same};
use super::wish::Wish;
use super::{agent, answer};
use crate::agents::demo::model::DemoModel;

fn item(name: &str, quantity: u32) -> Item {
    Item { name: name.to_owned(), quantity }
}

fn add<const N: usize>(items: [(&str, u32); N]) -> Wish {
    Wish::Add(items.map(|(name, quantity)| item(name, quantity)).to_vec())
}

fn remove<const N: usize>(items: [(&str, Option<u32>); N]) -> Wish {
    Wish::Remove(items.map(|(name, quantity)| Removal { name: name.to_owned(), quantity }).to_vec())
}

fn be_called(name: &str) -> Wish {
    Wish::BeCalled(name.to_owned())
}

#[test]
fn sentences_are_understood_as_people_say_them() {
    for (said, wish) in [
        ("Add two apples, please!", add([("apples", 2)])),
        ("Add two apples and a book, please", add([("apples", 2), ("book", 1)])),
        ("please add an apple and 3 green pears to my cart", add([("apple", 1), ("green pears", 3)])),
        ("Please, could you add an apple, thanks a lot!", add([("apple", 1)])),
        ("add two apples please and a pear, thank you", add([("apples", 2), ("pear", 1)])),
        ("I'd like milk, bread, and the book", add([("milk", 1), ("bread", 1), ("book", 1)])),
        ("I want to buy a bottle of milk", add([("bottle of milk", 1)])),
        ("Can you put coffee in the basket?", add([("coffee", 1)])),
        ("add apples to the cart and a papaya", add([("apples", 1), ("papaya", 1)])),
        ("add one more apple", add([("apple", 1)])),
        ("add 3 more of the apples", add([("apples", 3)])),
        ("Add a dozen eggs", add([("eggs", 12)])),
        ("add two dozen eggs and half a dozen rolls", add([("eggs", 24), ("rolls", 6)])),
        ("add TWELVE eggs", add([("eggs", 12)])),
        ("add a hundred nails", add([("nails", 100)])),
        ("Add 2x apples", add([("apples", 2)])),
        ("add 2 x apples, pears x3", add([("apples", 2), ("pears", 3)])),
        ("add 99999999999999999999 apples", add([("apples", u32::MAX)])),
        ("Remove the apples from my cart", remove([("apples", None)])),
        ("remove all apples", remove([("apples", None)])),
        ("remove all of the apples and every pear", remove([("apples", None), ("pear", None)])),
        ("remove every apple, please", remove([("apple", None)])),
        ("remove two apples and a pear", remove([("apples", Some(2)), ("pear", Some(1))])),
        ("remove everything", Wish::RemoveAll),
        ("remove all items from my cart", Wish::RemoveAll),
        ("empty my cart", Wish::RemoveAll),
        ("What is in my cart?", Wish::ShowCart),
        ("I want to see my cart", Wish::ShowCart),
        ("My name is Ann-Sophie", be_called("Ann-Sophie")),
        ("my name is Bob, please", be_called("Bob")),
        ("My name is Dr. No and I like tea", be_called("Dr. No")),
        ("Remember that I like tea.", Wish::Remember("I like tea".to_owned())),
        ("What do you know about me?", Wish::Recall),
        ("how often was I here", Wish::Recall),
        ("Save a note: buy milk and pay", Wish::SaveNote("buy milk and pay".to_owned())),
        (
            "Save a note: hello, add two apples and my name is Bob",
            Wish::SaveNote("hello, add two apples and my name is Bob".to_owned()),
        ),
        ("check out, please", Wish::CheckOut),
        ("I would like to pay", Wish::CheckOut),
        ("Hello", Wish::Greet),
        ("Hi, how are you?", Wish::Greet),
        ("Can I have a discount, please?", Wish::Discount),
        ("ask for a discount", Wish::Discount),
        ("please forget me", Wish::Forget),
        ("Forget everything you know about me!", Wish::Forget),
        ("HELP", Wish::Help),
        ("I need help", Wish::Help),
        ("thanks a lot", Wish::Thank),
        ("thank you", Wish::Thank),
    ] {
        assert_eq!(Wish::all_of(said), [wish], "{said}");
    }
}

#[test]
fn less_than_one_is_refused() {
    for said in [
        "add 0 pears",
        "add zero pears",
        "Add -3 apples",
        "add −3 apples",
        "add -0x apples",
        "add minus three apples",
        "add nothing",
        "add no apples",
        "add 0.5 apples",
        "add 0 dozen eggs",
        "add two apples and 0 pears",
        "remove 0 apples",
        "add two apples and add -1 pears",
        "add -99999999999999999999 apples",
    ] {
        assert_eq!(Wish::all_of(said), [Wish::TooFew], "{said}");
    }
}

#[test]
fn what_is_not_understood_is_no_item() {
    for said in [
        "add",
        "",
        "Übermut tut selten gut",
        "é",
        "add it",
        "add more",
        "add two",
        "add please",
        "add twenty-five apples",
        "add two three apples",
        "add 1.5 apples",
        "add 1,5 apples",
        "add a few apples to my cart",
        "add all apples",
        "I want to know the weather",
        "I need you to listen",
        "add two apples, it is raining",
        "add two apples. What is the weather?",
        "remove it",
        "add one hundred and fifty apples",
        "add a thing whose name goes on with word after word",
    ] {
        assert_eq!(Wish::all_of(said), [Wish::Other], "{said}");
    }
    assert_eq!(Wish::all_of(&"add an apple and please, ".repeat(100_000)), [Wish::Other]);
}

#[test]
fn one_message_may_hold_several_wishes() {
    let apples = || add([("apples", 2)]);
    for (said, wishes) in [
        ("Add two apples, please, and my name is Bob", vec![apples(), be_called("Bob")]),
        ("My name is Bob and I'd like two apples", vec![be_called("Bob"), apples()]),
        ("Hello! Please add two apples. Call me Bob.", vec![apples(), be_called("Bob")]),
        ("add two apples, remove the book and check out", vec![apples(), remove([("book", None)]), Wish::CheckOut]),
        (
            "add two apples and remember that I like tea and rain",
            vec![apples(), Wish::Remember("I like tea and rain".to_owned())],
        ),
    ] {
        assert_eq!(Wish::all_of(said), wishes, "{said}");
    }
}

#[test]
fn one_and_several_are_the_same_thing() {
    for (one, several) in [
        ("apple", "apples"),
        ("box", "boxes"),
        ("glass", "glasses"),
        ("bus", "buses"),
        ("berry", "berries"),
        ("cookie", "cookies"),
        ("tomato", "tomatoes"),
        ("knife", "knives"),
        ("shoe", "shoes"),
        ("bottle of milk", "bottles of milk"),
    ] {
        assert!(is_same(one, several) && is_same(several, one), "{one}, {several}");
    }
    for (one, other) in [("tub", "tube"), ("can", "cane"), ("pear", "pea"), ("green apple", "apple")] {
        assert!(!is_same(one, other), "{one}, {other}");
    }
}

struct Talk {
    store: Store,
    runner: Runner,
}

impl Talk {
    async fn new() -> Self {
        let store = connect("memory:").await.unwrap();
        let agent = agent(Arc::new(DemoModel(answer))).unwrap();
        let runner = Runner::builder("demo", agent, store.sessions.clone()).artifacts(store.artifacts.clone());
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
    assert_eq!(talk.say("s1", "remove all bananas").await, "There were no bananas. In your cart: 3 x apples.");
    assert_eq!(talk.say("s1", "remove one apple").await, "Done. In your cart: 2 x apples.");
    assert_eq!(talk.say("s1", "add one more apple").await, "Done. In your cart: 3 x apples.");
    let refused = talk.say("s1", "add a pear and 0 plums").await;
    assert!(refused.contains("your cart is as it was"), "{refused}");
    let unclear = talk.say("s1", "add a pear, it is raining").await;
    assert!(unclear.contains("did not understand"), "{unclear}");
    assert_eq!(
        talk.say("s1", "add a pear and 1000 apples and check out").await,
        "That did not work: we have 1000 of apples at most."
    );
    assert_eq!(talk.say("s1", "show my cart").await, "In your cart: 3 x apples.");
    assert_eq!(talk.say("s1", "add 1000 apples").await, "That did not work: we have 1000 of apples at most.");
    talk.say("s1", "my name is Ann").await;
    talk.say("s1", "remember that I like tea").await;
    talk.say("s1", "save a note: buy milk").await;
    assert_eq!(talk.say("s1", "check out").await, "Ordered: 3 x apples. Your receipt is receipt.txt, version 0.");
    assert_eq!(talk.say("s1", "check out").await, "That did not work: the cart is empty.");
    let state = talk.state("s1").await;
    assert_eq!(state["last_reply"], "That did not work: the cart is empty.");
    assert_eq!((&state["user:orders"], &state["app:orders"], &state["messages"]), (&json!(1), &json!(1), &json!(16)));
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
async fn the_wishes_of_a_message_are_done_in_turn() {
    let talk = Talk::new().await;
    assert_eq!(
        talk.say("s1", "Add two apples, please, and my name is Bob").await,
        "Done. In your cart: 2 x apples. Nice to meet you, Bob. I will know you in every session."
    );
    assert_eq!(
        talk.say("s1", "add a book, remove an apple and check out").await,
        "Done. In your cart: 2 x apples, 1 x book. Done. In your cart: 1 x apples, 1 x book. \
         Ordered: 1 x apples, 1 x book. Your receipt is receipt.txt, version 0."
    );
    assert_eq!(talk.state("s1").await["user:name"], "Bob");
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

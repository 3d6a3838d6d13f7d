//! An open page that has followed commits is the page that a browser gets now.

use serde_json::{Value, json};

use super::conversation;
use crate::page::{BrowserPage, ScreenKind};
use crate::serve::Served;

/// Returns the page as text, with attributes in order of their names. Left out is what is not content: marks of new events, what a person has opened, and the
/// state of the connection. Of a time, its exact value is compared, because the text depends on the moment.
const CONTENT: &str = "
    const page = document.querySelector('main').cloneNode(true);
    for (const own of page.querySelectorAll('[data-own]')) own.replaceWith('');
    for (const event of page.querySelectorAll('.new')) event.classList.remove('new');
    for (const details of page.querySelectorAll('details')) details.removeAttribute('open');
    for (const time of page.querySelectorAll('time')) time.textContent = time.dateTime;
    for (const element of page.querySelectorAll('*')) {
        const names = element.getAttributeNames().sort();
        const values = names.map(name => element.getAttribute(name));
        for (const name of names) element.removeAttribute(name);
        names.forEach((name, place) => element.setAttribute(name, values[place]));
    }
    page.normalize();
    return page.innerHTML.replaceAll('><', '>\\n<');";

/// Events of every kind that a page shows in its own way.
fn events() -> Vec<Value> {
    let call = |id: &str, name: &str| json!({"functionCall": {"id": id, "name": name, "args": {"n": 1}}});
    let answer = |id: &str, name: &str, said: &str| json!({"functionResponse": {"id": id, "name": name, "response": {"result": said}}});
    let by = |author: &str, parts: Vec<Value>| json!({"author": author, "content": {"role": "model", "parts": parts}});
    let with = |mut event: Value, name: &str, value: Value| {
        event[name] = value;
        event
    };
    let actions = |actions: Value| json!({"author": "agent", "actions": actions});
    vec![
        by("user", vec![json!({"text": "a message"})]),
        with(
            by("agent", vec![json!({"text": "thinking", "thought": true}), call("c1", "first"), call("c2", "second")]),
            "usageMetadata",
            json!({"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}),
        ),
        by("agent", vec![answer("c2", "second", "two")]),
        with(by("agent", vec![answer("c1", "first", "one")]), "actions", json!({"stateDelta": {"tooled": {"a": [1]}}})),
        with(by("agent", vec![call("c3", "later")]), "longRunningToolIds", json!(["c3"])),
        by("agent", vec![answer("c3", "later", "not yet")]),
        by("user", vec![answer("c3", "later", "now")]),
        by("agent", vec![json!({"text": "long ".repeat(900)})]),
        by("agent", vec![json!({"inlineData": {"mimeType": "image/png", "displayName": "p.png", "data": "AAAA"}})]),
        by("agent", vec![json!({"executableCode": {"code": "1 + 1", "language": "PYTHON"}})]),
        by("agent", vec![json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}})]),
        with(with(by("agent", vec![]), "errorCode", json!("BROKEN")), "errorMessage", json!("It broke <b>.")),
        with(by("agent", vec![json!({"text": "in a branch"})]), "branch", json!("outer.inner")),
        actions(json!({"transferToAgent": "other"})),
        actions(json!({"escalate": true})),
        actions(json!({"artifactDelta": {"notes.txt": 2}})),
        actions(json!({"stateDelta": {"aa-first": 1, "user:tier": "gold", "app:open": true}})),
        actions(json!({"stateDelta": {"aa-first": "__ADK_SENTINEL_REMOVED__", "user:tier": "silver"}})),
        by("", vec![json!({"text": "without an author or a run"})]),
    ]
}

fn append(served: &Served, mut event: Value, run: &str) {
    event["invocationId"] = json!(run);
    if event["author"] == "" {
        event["author"] = json!("unknown");
        event["invocationId"] = json!("");
    }
    let body = json!({"event": event}).to_string();
    let (status, text) = served.ask("POST", "/v1/apps/demo/users/ann/sessions/s1/events", &body);
    assert_eq!(status, 200, "{text}");
}

/// Waits until an open page is the page that a browser gets from its address.
async fn compare(open: &BrowserPage, other: &BrowserPage, after: &str) {
    let address: String = open.run("return location.href").await;
    let (mut live, mut loaded) = (String::new(), String::new());
    for _ in 0..40 {
        other.go(&address).await;
        loaded = other.run(CONTENT).await;
        live = open.run(CONTENT).await;
        if live == loaded {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let differing = live.lines().zip(loaded.lines()).filter(|(live, loaded)| live != loaded).take(5);
    panic!("{address} after {after}: {:#?}", differing.collect::<Vec<_>>());
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn page_that_follows_commits_is_the_page_that_is_loaded() {
    for view in ["", "?key=user:tier", "?at=3&key=tooled", "?at=4&with=1", "?find=a", "?before=6"] {
        let (served, fixture, session) = conversation();
        let open = BrowserPage::on(ScreenKind::Light, "inspector-same", &format!("{session}{view}")).await;
        let other = BrowserPage::on(ScreenKind::Light, "inspector-reloaded", &session).await;
        open.see("#live.on", "live").await;
        for (number, event) in events().into_iter().enumerate() {
            append(&served, event, ["run-a", "run-b"][number / 12]);
            if view.is_empty() {
                compare(&open, &other, &format!("event {number}")).await;
            }
        }
        compare(&open, &other, "all events").await;
        served.talk("demo", "ann", "s1", "Add seven melons");
        compare(&open, &other, "a run").await;
        served.talk("demo", "ann", "s2", "Add a tent");
        fixture.text(&["state", "set", "-a", "demo", "-u", "ann", "tier=bronze"]);
        fixture.text(&["state", "set", "-a", "demo", "open=false"]);
        compare(&open, &other, "writes of others").await;
        if view.is_empty() {
            open.write("form.say textarea", "Ask for a discount").await;
            open.click("form.say button", "Send").await;
            open.see("form.question", "").await;
            open.miss(".note", "").await;
            compare(&open, &other, "a question").await;
            open.write("form.question input[name=response]", "{\"percent\": 10}").await;
            open.click("form.question button", "Answer").await;
            open.miss(".note", "").await;
            compare(&open, &other, "the answer").await;
        }
        assert_eq!(open.complaints().await, Vec::<String>::new());
        open.close().await;
        other.close().await;
    }
}

/// A refresh leaves alone what a person has opened or is typing.
#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn what_a_person_does_stays_while_a_page_follows() {
    let (served, fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-stays", &format!("{session}?key=cart")).await;
    page.see("#live.on", "live").await;
    page.run::<()>("document.querySelector('details.call').open = true").await;
    page.run::<()>("document.getElementById('key-cart').querySelector('details').open = true").await;
    page.write("form.say textarea", "half a sentence").await;
    page.click("#history summary", "Change").await;
    page.write("form.change textarea", "{\"apples\": 1}").await;
    let seen: String = page.run("return document.querySelector('form.change [name=seen]').value").await;
    append(&served, json!({"author": "agent", "actions": {"stateDelta": {"aa": 1, "cart": {"pears": 9}}}}), "run");
    page.see("#state", "pears").await;
    let stays: Vec<bool> = page
        .run(
            "return [document.querySelector('details.call').open,
                document.getElementById('key-cart').querySelector('details').open,
                document.querySelector('form.say textarea').value === 'half a sentence',
                document.querySelector('form.change textarea').value === '{\"apples\": 1}']",
        )
        .await;
    assert_eq!(stays, [true; 4]);
    // A value that was changed meanwhile is not overwritten unseen.
    assert_eq!(page.run::<String>("return document.querySelector('form.change [name=seen]').value").await, seen);
    page.click("form.change button", "Set").await;
    page.see("h1", "Somebody else has changed cart").await;
    assert_eq!(
        fixture.json(&["state", "get", "-a", "demo", "-u", "ann", "-s", "s1", "cart"])["cart"],
        json!({"pears": 9})
    );
    page.close().await;
}

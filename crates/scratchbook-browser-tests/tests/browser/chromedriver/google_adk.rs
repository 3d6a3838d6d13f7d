//! ADK's dev interface from its package, with `scratchbook serve`, in a real browser.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::page::BrowserPage;
use crate::python::python;
use crate::serve::Served;
use crate::{Fixture, fails, scratchbook};

/// Returns the folder of the interface. Finds it in the way that the error message about a wrong folder describes.
fn folder() -> String {
    let wrong = fails(2, {
        let mut command = scratchbook();
        command.args(["--database", "memory:", "serve", "--port", "0", "--adk-ui", env!("CARGO_MANIFEST_DIR")]);
        command
    });
    let (_, program) = wrong.split_once("python3 -c \"").unwrap();
    let (program, _) = program.split_once('"').unwrap();
    let found = Command::new(python()).args(["-c", program]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_person_talks_to_an_agent_and_sees_its_state_artifacts_and_sessions() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &["--adk-ui", &folder()]);
    let page = BrowserPage::open(served.greeting["devUi"].as_str().unwrap()).await;

    page.click("button.selector-button", "Select an app").await;
    page.click("button.app-selector-item", "demo").await;
    page.see("[role=tab]", "State").await;
    page.click("button[aria-label='More options']", "").await;
    page.click("button[role=menuitem]", "Streaming").await;
    page.escape().await;

    page.watch().await;
    page.say("What can you do?").await;
    page.see("app-event-row", "or \"forget me\".").await;
    page.picture("1-streamed").await;
    // The browser decides how often it redraws. So it is only checked that the answer was seen unfinished and that its
    // beginning did not change.
    let texts: Vec<_> = page.watched().await.into_iter().filter(|text| !text.is_empty()).collect();
    assert!(
        texts.len() > 1 && texts.is_sorted_by(|a, b| b.starts_with(a.trim_end())),
        "not piece by piece: {texts:#?}"
    );

    page.say("Add two apples and a book").await;
    page.see("app-event-row", "In your cart: 2 x apples").await;
    page.see("app-event-row", "State: cart").await;
    let state = page.tab("State", "[role=tabpanel]", "cart").await;
    for text in ["apples", "user:visits", "last_reply", "messages"] {
        page.see("[role=tabpanel]", text).await;
    }
    assert!(!state.contains("temp:"), "{state}");
    page.picture("2-state").await;

    page.say("Save a note: buy milk").await;
    page.see("app-event-row", "Artifact: note.txt").await;
    let artifact = page.tab("Artifacts", ".artifact-card", "note.txt").await;
    page.see(".artifact-card", "buy milk").await;
    assert!(artifact.contains("Version"), "{artifact}");
    page.picture("3-artifact").await;

    // Begins a second session, and goes back to the first in the drawer, which lists both by their first messages.
    page.click("button.new-session-button", "New Session").await;
    page.miss("app-event-row", "apples").await;
    page.say("Hello").await;
    page.see("app-event-row", "Welcome back").await;
    page.click("button.selector-button", "Hello").await;
    page.see(".session-item.current", "Hello").await;
    page.picture("4-sessions").await;
    page.click(".session-item", "What can you do?").await;
    page.see("app-event-row", "In your cart: 2 x apples").await;
    page.see("app-event-row", "buy milk").await;
    page.tab("State", "[role=tabpanel]", "apples").await;

    page.click("button.selector-button", "What can you do?").await;
    page.click("button[aria-label='Edit']", "").await;
    page.write("input.session-selector-current-id-value", "Groceries").await;
    page.click("button[aria-label='Save']", "").await;
    page.see("button.selector-button", "Groceries").await;
    page.picture("5-renamed").await;
    // The page shows the new name before the server has it.
    for _ in 0..100 {
        if names(&served) == ["Groceries", "Hello"] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(names(&served), ["Groceries", "Hello"]);

    page.click("button", "Delete").await;
    page.click("mat-dialog-container button", "Delete").await;
    // The remaining session is shown instead.
    page.click("button.selector-button", "Hello").await;
    page.see(".session-item.current", "Hello").await;
    page.miss(".session-item", "Groceries").await;
    page.miss(".session-item", "What can you do?").await;
    page.picture("6-deleted").await;
    assert_eq!(names(&served), ["Hello"]);

    // Errors about fonts on the network and about a file that the package lacks are ignored.
    let complaints = page.complaints().await;
    let ours: Vec<_> =
        complaints.iter().filter(|text| !text.contains("fonts.") && !text.contains("prism-dark.css")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn the_traces_of_a_run_show_its_spans() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &["--adk-ui", &folder()]);
    served.talk("demo", "user", "s1", "Add two apples and a book");
    let url = format!("{}?app=demo&session=s1&userId=user", served.greeting["devUi"].as_str().unwrap());
    let page = BrowserPage::open(&url).await;
    page.see("app-event-row", "In your cart: 2 x apples").await;
    page.click("button[role=radio]", "Traces").await;
    for text in ["Total latency", "generate_content demo-script", "add_to_cart"] {
        page.see("app-trace-tree", text).await;
    }
    page.click(".trace-label", "generate_content").await;
    let span = page.tab("Info", "[role=tabpanel]", "Span 2 of 4").await;
    assert!(span.contains("Event ID"), "{span}");
    page.picture("9-traces").await;
    page.close().await;
}

#[tokio::test]
async fn a_person_logs_in_with_a_token_and_out_again() {
    let fixture = Fixture::empty();
    let made = fixture.json(&["token", "new", "--name", "ann", "-a", "demo", "-u", "user"]);
    let (token, file) = (made["token"].as_str().unwrap(), fixture.path("tokens.toml"));
    std::fs::write(&file, made["entry"].as_str().unwrap()).unwrap();
    let served = Served::new(&fixture, &["--adk-ui", &folder(), "--tokens", file.to_str().unwrap()]);
    // The interface redirects to the login form, which redirects back.
    let page = BrowserPage::open(served.greeting["devUi"].as_str().unwrap()).await;
    page.write("input#token", "nope").await;
    page.click("form button", "Log in").await;
    page.see("[role=alert]", "Nobody is let in by this").await;
    page.picture("7-login").await;
    page.write("input#token", token).await;
    page.click("form button", "Log in").await;

    // The interface shows the only accessible app.
    page.see("[role=tab]", "State").await;
    page.say("Add two apples").await;
    page.see("app-event-row", "In your cart: 2 x apples").await;
    page.picture("8-logged-in").await;
    // No script sees the token, and no address contains it.
    assert!(!page.tells(token).await);
    page.close().await;
    assert!(!served.logs().contains(token));
}

/// Returns the names of the sessions on the server.
fn names(served: &Served) -> Vec<String> {
    let sessions: Vec<Value> = serde_json::from_str(&served.get("/apps/demo/users/user/sessions").1).unwrap();
    let name = |session: &Value| session["state"]["__session_metadata__"]["displayName"].as_str().unwrap().to_owned();
    let mut names: Vec<_> = sessions.iter().map(name).collect();
    names.sort();
    names
}

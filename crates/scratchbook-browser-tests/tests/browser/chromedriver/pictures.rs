//! The pictures of the inspector in README and the guide. `cargo xtask picture` writes them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Fixture;
use crate::models::{RecordedModel, gemini_parts};
use crate::page::{BrowserPage, ScreenKind};
use crate::serve::Served;

/// Ann's messages in the session that is shown.
const SAID: [&str; 6] = [
    "My name is Ann",
    "Add two apples and a book",
    "Add three pears",
    "Remove the book",
    "Remember that I like tea",
    "Check out",
];

/// Creates an agent that hands over to another one, with a slow model.
fn desk(fixture: &Fixture) -> RecordedModel {
    let agents = fixture.path("agents/travel");
    fs::create_dir_all(&agents).unwrap();
    let root =
        "name: travel_desk\nmodel: gemini-2.5-flash\ninstruction: Help.\nsub_agents:\n  - config_path: flights.yaml\n";
    fs::write(agents.join("root_agent.yaml"), root).unwrap();
    let flights = "name: flights\ndescription: Finds flights.\nmodel: gemini-2.5-flash\ninstruction: Find flights.\n";
    fs::write(agents.join("flights.yaml"), flights).unwrap();
    let text = |text: &str| json!({"text": text});
    let hand_over = json!({"functionCall": {"name": "transfer_to_agent", "args": {"agent_name": "flights"}}});
    RecordedModel::start([
        gemini_parts(&[text("I ask for a flight. "), hand_over]).slowly(Duration::from_millis(350)),
        gemini_parts(&["There ", "is ", "one ", "at 9:40."].map(text)).slowly(Duration::from_millis(230)),
    ])
}

// The model has threads of its own. They cannot be ended inside the threads of an async test.
#[test]
#[ignore = "long: a browser, page by page"]
fn the_inspector_in_the_guide_is_what_the_server_shows() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    for message in SAID {
        served.talk("demo", "ann", "s1", message);
    }
    served.talk("demo", "ann", "s2", "Add a tent and two lamps");
    served.talk("demo", "bob", "s3", "Add a cake");
    for (user, id, title, label) in [
        ("ann", "s1", "Weekly groceries", "team=food"),
        ("ann", "s2", "Camping", "team=outdoor"),
        ("bob", "s3", "Birthday", "team=food"),
    ] {
        let of = ["sessions", "update", "-a", "demo", "-u", user, "-s", id];
        fixture.text(&[&of[..], &["--title", title, "--label", label]].concat());
    }
    let own = Fixture::empty();
    let model = desk(&own);
    let agents = own.path("agents");
    let serve = ["--json", "serve", "--port", "0", "--agents", agents.to_str().unwrap()];
    let travel = Served::of(model.gemini(&own, &serve));
    travel.ask("POST", "/apps/travel/users/ann/sessions/t1", "");
    tokio::runtime::Runtime::new().unwrap().block_on(show(&served, &travel));
}

/// Shows each view, and writes its picture if requested.
async fn show(served: &Served, travel: &Served) {
    // The event that empties the cart.
    let is_order = |event: &Value| event["actions"]["stateDelta"].get("user:orders").is_some();
    let events = served.get("/apps/demo/users/ann/sessions/s1").1;
    let events: Value = serde_json::from_str(&events).unwrap();
    let order = 1 + events["events"].as_array().unwrap().iter().position(is_order).unwrap();
    let [inspector, other] = [served, travel].map(|served| served.greeting["inspector"].as_str().unwrap());
    let session = format!("{inspector}/apps/demo/users/ann/sessions/s1");
    let write = std::env::var_os("SCRATCHBOOK_WRITE_PICTURE").is_some();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let page = BrowserPage::on(ScreenKind::Light, "guide", &format!("{other}/apps/travel/users/ann/sessions/t1")).await;
    page.write("form.say textarea", "Find a flight to Rome, please").await;
    page.click("form.say button", "Send").await;
    page.see("article.event:not(.piece)", "There is one at 9:40.").await;
    page.miss(".note", "at work").await;
    let run: String = page.run("return document.querySelector('.run-head a').href").await;
    for (name, address, css, text) in [
        ("inspector", format!("{session}?at={order}&key=cart"), "#history", "remove_from_cart"),
        ("inspector-sessions", format!("{inspector}/apps/demo"), "table.list", "Camping"),
        ("inspector-compare", format!("{session}?at={order}&with=7"), "#state", "changed since event 7"),
        ("inspector-timeline", run, "table.timeline", "transfer_to_agent"),
    ] {
        page.go(&address).await;
        page.see(css, text).await;
        page.picture(name).await;
        if write {
            page.picture_at(&images.join(format!("{name}.png"))).await;
        }
    }
    page.close().await;
}

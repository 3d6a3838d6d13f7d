//! The pictures of the inspector in README and the guide. `cargo xtask picture` writes them.

use std::path::Path;

use super::conversation;
use crate::google_adk::page::{Page, Screen};

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn the_inspector_in_the_guide_is_what_the_server_shows() {
    let (served, fixture, session) = conversation();
    for (id, title) in [("s1", "Weekly groceries"), ("s2", "Picnic"), ("s3", "Birthday of Bob")] {
        if id != "s1" {
            served.talk("demo", "ann", id, &format!("Add a cake for the {title}"));
        }
        fixture.text(&[
            "sessions",
            "update",
            "-a",
            "demo",
            "-u",
            "ann",
            "-s",
            id,
            "--title",
            title,
            "--label",
            "team=food",
        ]);
    }
    // What the guide shows is what a test run shows: the files are written only if somebody asks for them.
    let write = std::env::var_os("SCRATCHBOOK_WRITE_PICTURE").is_some();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let page = Page::on(Screen::Light, "guide", &session).await;
    let script = "return document.querySelectorAll('.run-head a.timeline')[1].getAttribute('href')";
    let timeline: String = page.run(script).await;
    let url = served.greeting["url"].as_str().unwrap();
    let inspector = served.greeting["inspector"].as_str().unwrap();
    for (name, address, css, text) in [
        ("inspector", format!("{session}?at=7&key=cart"), "#history", "add_to_cart"),
        ("inspector-sessions", format!("{inspector}/apps/demo"), "table.list", "Picnic"),
        ("inspector-compare", format!("{session}?at=12&with=3"), "#state", "changed since event 3"),
        ("inspector-timeline", format!("{url}{timeline}"), "table.timeline", "add_to_cart"),
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

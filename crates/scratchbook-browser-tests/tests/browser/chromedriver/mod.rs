//! The pages in Chromium, on a phone's screen and on a wide screen.

mod axe_core;
mod change;
mod follow;
mod google_adk;
mod pictures;
mod rights;
mod same;
mod speed;
mod travel;

use crate::Fixture;
use crate::page::{BrowserPage, ScreenKind};
use crate::serve::Served;

/// Starts a server with a conversation of the demo's agent. Also returns the address of the session's page.
fn conversation() -> (Served, Fixture, String) {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    for message in ["help", "Add two apples and a book", "My name is Ann", "Save a note: buy milk", "Add three pears"] {
        served.talk("demo", "ann", "s1", message);
    }
    let inspector = served.greeting["inspector"].as_str().unwrap();
    let url = format!("{inspector}/apps/demo/users/ann/sessions/s1");
    (served, fixture, url)
}

/// Starts a server that requires a token. Also returns the token for the user ann of the demo, and the address of her
/// session's page.
fn login(rights: &str) -> (Served, Fixture, String, String) {
    let (served, fixture, _) = conversation();
    assert_eq!(served.end("-TERM"), Some(0));
    let made = fixture.json(&["token", "new", "--name", "ann", "-a", "demo", "-u", "ann", "--rights", rights]);
    let file = fixture.path("tokens.toml");
    std::fs::write(&file, made["entry"].as_str().unwrap()).unwrap();
    let served = Served::new(&fixture, &["--tokens", file.to_str().unwrap()]);
    let session = format!("{}/apps/demo/users/ann/sessions/s1", served.greeting["inspector"].as_str().unwrap());
    (served, fixture, made["token"].as_str().unwrap().to_owned(), session)
}

#[tokio::test]
async fn the_pages_fit_a_phone() {
    let (served, _fixture, session) = conversation();
    let url = served.greeting["url"].as_str().unwrap();
    let page = BrowserPage::on(ScreenKind::Phone, "phone", &format!("{url}/docs")).await;
    page.see("h1", "scratchbook API").await;
    assert_eq!(page.run::<i64>("return innerWidth").await, 400);
    for (name, address, css, text) in [
        ("docs", format!("{url}/docs"), "h1", "scratchbook API"),
        ("apps", format!("{url}/"), "a.card", "demo"),
        ("sessions", format!("{url}/inspector/apps/demo"), "table.list", "s1"),
        ("session", session.clone(), "#state", "cart"),
        ("key", format!("{session}?at=12&key=cart"), "#history", "apples"),
    ] {
        page.go(&address).await;
        page.see(css, text).await;
        page.picture(name).await;
        assert_eq!(page.beside_the_screen().await, 0, "{name}");
        // Text that is longer than a line wraps, or scrolls in a box of its own.
        let wide = "return [...document.querySelectorAll('main *')].filter(e => \
            !e.closest('pre') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))";
        assert_eq!(page.run::<Vec<String>>(wide).await, Vec::<String>::new(), "{name}");
    }
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

//! In Chromium, on a phone's screen and on a wide one.

use crate::Fixture;
use crate::google_adk::page::{Page, Screen};
use crate::serve::Served;

/// A server with a conversation of the demo's agent, and the address of its session's page.
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

#[tokio::test]
async fn the_pages_fit_a_phone() {
    let (served, _fixture, session) = conversation();
    let url = served.greeting["url"].as_str().unwrap();
    let page = Page::on(Screen::Phone, "phone", &format!("{url}/docs")).await;
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
        // What is longer than a line wraps, or scrolls in its own box.
        let wide = "return [...document.querySelectorAll('main *')].filter(e => \
            !e.closest('pre') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))";
        assert_eq!(page.run::<Vec<String>>(wide).await, Vec::<String>::new(), "{name}");
    }
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_person_finds_who_set_a_value_and_when() {
    let (served, _fixture, session) = conversation();
    for (screen, name) in [(Screen::Light, "inspector-light"), (Screen::Dark, "inspector-dark")] {
        let page = Page::on(screen, name, served.greeting["url"].as_str().unwrap()).await;
        page.see("a.card", "demo").await;
        page.picture("1-apps").await;
        page.click("a.card", "demo").await;
        page.see("table.list", "s1").await;
        page.picture("2-sessions").await;
        page.click("td.name a", "s1").await;
        page.see("#live.on", "live").await;
        page.picture("3-session").await;

        // Travel back by an arrow key and by a click; the address says where.
        let last: u64 = page.run("return lastSeq()").await;
        page.run::<()>("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}))")
            .await;
        page.see("#state", &format!("state at event {}", last - 1)).await;
        assert!(page.run::<String>("return location.search").await.contains(&format!("at={}", last - 1)));
        page.click("a.seq", "12").await;
        page.see("#state", "state at event 12").await;
        page.picture("4-travelled").await;
        page.click("#state a.key", "cart").await;
        page.see("#history", "writes to cart").await;
        page.picture("5-history").await;
        let address: String = page.run("return location.href").await;
        assert!(address.contains("at=12") && address.contains("key=cart"), "{address}");
        page.go(&address).await;
        page.see("#state", "state at event 12").await;
        page.see("#history", "writes to cart").await;
        page.go(&format!("{session}?at={last}&with=2")).await;
        page.see("#state", "changed since event 2").await;
        page.picture("6-compared").await;
        assert_eq!(page.complaints().await, Vec::<String>::new());
        page.close().await;
    }
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_commit_appears_in_an_open_page() {
    let (served, _fixture, session) = conversation();
    let page = Page::on(Screen::Light, "inspector-live", &session).await;
    page.see("#live.on", "live").await;
    served.talk("demo", "ann", "s1", "Add seven melons");
    page.see("article.event.new", "melons").await;
    page.see("#state", "melons").await;
    page.picture("1-new").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

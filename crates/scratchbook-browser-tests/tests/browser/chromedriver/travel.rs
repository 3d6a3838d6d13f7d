//! A person goes from the start page to a value, and through the earlier states of a session.

use thirtyfour::Key;

use super::conversation;
use crate::page::{BrowserPage, ScreenKind};
use crate::serve::Served;

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_person_finds_who_set_a_value_and_when() {
    let (served, _fixture, session) = conversation();
    for (screen, name) in [(ScreenKind::Light, "inspector-light"), (ScreenKind::Dark, "inspector-dark")] {
        let page = BrowserPage::on(screen, name, served.greeting["url"].as_str().unwrap()).await;
        page.see("a.card", "demo").await;
        page.picture("1-apps").await;
        page.click("a.card", "demo").await;
        page.see("table.list", "s1").await;
        page.picture("2-sessions").await;
        page.click("td.name a", "s1").await;
        page.see("#live.on", "live").await;
        page.picture("3-session").await;

        // An arrow key and a click go back in time. The address contains the place.
        let last: u64 = page.run("return lastSeq()").await;
        page.press("body", Key::Left).await;
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
async fn the_slider_and_the_keys_travel_and_the_browser_goes_back() {
    let (_served, _fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-slider", &session).await;
    page.see("#live.on", "live").await;
    let last: u64 = page.run("return lastSeq()").await;
    page.press("#slider", Key::Home).await;
    page.see("#state", "state at the start").await;
    page.press("#slider", Key::PageDown).await;
    page.see("#state", "state at event 10").await;
    page.press("#slider", Key::Right).await;
    page.see("#state", "state at event 11").await;
    page.see("article.event[aria-current]", "11").await;
    page.click("a.step", "‹").await;
    page.see("#state", "state at event 10").await;
    page.click("a.now", "Now").await;
    page.see("#state", "state now").await;
    page.run::<()>("history.back()").await;
    page.see("#state", "state at event 10").await;
    // The form of the slider compares two points.
    page.write("input[name=with]", "2").await;
    page.click("#travel button", "Show").await;
    page.see("#state", "changed since event 2").await;
    page.picture("compared").await;
    assert!(last > 12 && page.complaints().await.is_empty());
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_session_is_found_by_its_title_label_and_id() {
    let (served, fixture, _) = conversation();
    let of = |session: &'static str| ["-a", "demo", "-u", "ann", "-s", session];
    for (session, title, label) in [("s1", "Weekly groceries", "team=food"), ("s2", "Holidays", "team=travel")] {
        if session != "s1" {
            served.talk("demo", "ann", session, "Add a tent");
        }
        fixture.text(&[&["sessions", "update"], &of(session)[..], &["--title", title, "--label", label]].concat());
    }
    let url = served.greeting["inspector"].as_str().unwrap();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-search", &format!("{url}/apps/demo")).await;
    page.see("table.list", "Holidays").await;
    for (search, found, other) in [
        ("groceries", "Weekly groceries", "Holidays"),
        ("team=travel", "Holidays", "Weekly"),
        ("s1", "Weekly", "Holidays"),
    ] {
        page.write("form input[type=search]", search).await;
        page.click("form.search button", "Search").await;
        page.see("table.list", found).await;
        page.miss("table.list", other).await;
    }
    page.picture("found").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_run_is_a_timeline_and_the_server_an_overview() {
    let (served, fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-run", &session).await;
    page.click(".run-head a", "Timeline").await;
    page.see("table.timeline", "shopping_assistant").await;
    page.picture("1-timeline").await;
    page.go(&session).await;
    page.run::<()>("[...document.querySelectorAll('.run-head a')].at(-2).click()").await;
    page.see("table.timeline", "add_to_cart").await;
    page.picture("2-with-a-tool").await;
    page.go(&format!("{}/overview", served.greeting["inspector"].as_str().unwrap())).await;
    page.see("#plots figure", "Appends per second").await;
    page.see("#plots table", "append").await;
    page.picture("3-overview").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;

    // After a restart, the page shows the times between events and says why.
    assert_eq!(served.end("-TERM"), Some(0));
    let served = Served::new(&fixture, &[]);
    let path = session.split_once("/inspector").unwrap().1;
    let again = format!("{}{path}", served.greeting["inspector"].as_str().unwrap());
    let page = BrowserPage::on(ScreenKind::Light, "inspector-run", &again).await;
    page.click(".run-head a", "Timeline").await;
    page.see("main", "before a restart").await;
    page.picture("4-after-a-restart").await;
    page.close().await;
}

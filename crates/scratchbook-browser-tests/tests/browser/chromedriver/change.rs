//! A person changes data, and some changes ask for confirmation first.

use serde_json::Value;

use super::conversation;
use crate::page::{BrowserPage, ScreenKind};

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_value_is_mended_and_a_conflict_shows_both_values() {
    let (_served, fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-change", &format!("{session}?key=cart")).await;
    page.click("#history summary", "Change").await;
    page.write("form.change textarea", "{\"apples\": }").await;
    page.picture("1-editing").await;
    page.click("form.change button", "Set").await;
    page.see("[role=alert]", "This is not JSON").await;
    page.picture("2-mistake").await;
    page.write("form.change textarea", "{\"apples\": 1}").await;
    fixture.text(&["state", "set", "-a", "demo", "-u", "ann", "-s", "s1", r#"cart={"pears": 9}"#]);
    page.click("form.change button", "Set").await;
    page.see("h1", "Somebody else has changed cart").await;
    page.see("pre", "pears").await;
    page.picture("3-conflict").await;
    page.click("form.change button", "Set").await;
    page.see("#state", "{\"apples\":1}").await;
    page.see("article.event", "inspector").await;
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn what_destroys_something_asks_first_and_a_fork_is_opened() {
    let (served, _fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-ask", &format!("{session}?at=7")).await;
    page.click("form.fork button", "Fork at event 7").await;
    page.see("#state", "state now").await;
    let fork: String = page.run("return location.pathname").await;
    assert!(!fork.ends_with("/s1"), "{fork}");
    page.click(".tools a", "Title and labels").await;
    page.write("input[name=title]", "A copy").await;
    page.picture("1-details").await;
    page.click("form button", "Save").await;
    page.see("h1", "A copy").await;
    page.click(".tools a", "Prune").await;
    page.see(".ask", "events").await;
    page.picture("2-prune").await;
    page.run::<()>("history.back()").await;
    page.run::<()>("document.querySelector('.rewind').click()").await;
    page.see(".ask", "The rewind is an event of its own").await;
    page.picture("3-rewind").await;
    page.run::<()>("history.back()").await;
    page.click(".tools a", "Delete").await;
    page.see(".ask", "events").await;
    page.picture("4-delete").await;
    page.click(".ask button", "Delete").await;
    page.see("table.list, .empty", "").await;
    let left: Value = serde_json::from_str(&served.get("/apps/demo/users/ann/sessions").1).unwrap();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    page.go(&format!("{}/apps/demo/users/ann/erase", served.greeting["inspector"].as_str().unwrap())).await;
    page.picture("5-erase").await;
    page.click(".ask button", "Erase").await;
    page.see("h1", "Sessions").await;
    assert_eq!(served.get("/apps/demo/users/ann/sessions").1, "[]");
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

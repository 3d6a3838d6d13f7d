//! In Chromium, on a phone's screen and on a wide one.

use crate::Fixture;
use crate::google_adk::page::{Page, Screen};
use crate::serve::Served;

#[tokio::test]
async fn the_pages_fit_a_phone() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    let url = served.greeting["url"].as_str().unwrap();

    let page = Page::on(Screen::Phone, "docs", &format!("{url}/docs")).await;
    page.see("h1", "scratchbook API").await;
    page.picture("phone").await;
    assert_eq!(page.run::<i64>("return innerWidth").await, 400);
    assert_eq!(page.beside_the_screen().await, 0);
    // What is longer than a line scrolls in its own box.
    let wide = "return [...document.querySelectorAll('main *')].filter(e => \
        !e.closest('pre') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))";
    assert_eq!(page.run::<Vec<String>>(wide).await, Vec::<String>::new());
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

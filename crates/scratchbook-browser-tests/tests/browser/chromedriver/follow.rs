//! Commits of others appear, a person talks to agents and answers their questions.

use std::time::Duration;

use super::conversation;
use crate::Fixture;
use crate::models::{RecordedModel, gemini_text, serve};
use crate::page::{BrowserPage, ScreenKind};
use crate::serve::Served;

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_commit_of_any_process_appears_in_an_open_page() {
    let (served, fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-live", &session).await;
    page.see("#live.on", "live").await;
    served.talk("demo", "ann", "s1", "Add seven melons");
    page.see("article.event.new", "melons").await;
    page.see("#state", "melons").await;
    page.picture("1-new").await;
    fixture.text(&["state", "set", "-a", "demo", "-u", "ann", "-s", "s1", "weather=rain"]);
    page.see("article.event.new", "weather").await;
    page.see("#state", "rain").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn what_is_committed_while_a_page_loads_is_not_missed() {
    let (served, _fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-between", &session).await;
    page.see("#live.on", "live").await;
    let before: u64 = page.run("return lastSeq()").await;
    served.talk("demo", "ann", "s1", "Add seven melons");
    page.see("article.event", "Done. In your cart: 2 x apples, 1 x book, 3 x pears, 7 x melons.").await;
    // The page is made to look as if it was loaded before the run and its stream began after the run.
    let now: u64 = page.run("return lastSeq()").await;
    let made = format!("bar.dataset.last = {before}; document.querySelector('#conversation').replaceChildren();");
    page.run::<()>(&format!("{made} hear(null, {{ last: {now} }})")).await;
    page.see("article.event", "melons").await;
    page.see("#place", &now.to_string()).await;
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_lost_connection_is_said_and_resumed_from_its_place() {
    let (served, fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-lost", &session).await;
    page.see("#live.on", "live").await;
    let port = served.greeting["port"].to_string();
    assert_eq!(served.end("-TERM"), Some(0));
    page.see("#live.off", "connection lost").await;
    page.picture("1-lost").await;
    fixture.text(&["state", "set", "-a", "demo", "-u", "ann", "-s", "s1", "meanwhile=written"]);
    let _again = Served::of(fixture.command(&["--json", "serve", "--port", &port]));
    page.see("#live.on", "live").await;
    page.see("article.event.new", "meanwhile").await;
    page.see("#state", "written").await;
    page.picture("2-again").await;
    page.close().await;
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn questions_of_tools_are_answered_on_the_page() {
    let (_served, _fixture, session) = conversation();
    let page = BrowserPage::on(ScreenKind::Light, "inspector-questions", &session).await;
    page.write("form.say textarea", "Ask for a discount").await;
    page.click("form.say button", "Send").await;
    page.see("#conversation", "waits for an answer").await;
    page.see("#conversation", "The answer will come").await;
    page.write("form.question input[name=response]", "{\"percent\": 10}").await;
    page.picture("1-late-call").await;
    page.click("form.question button", "Answer").await;
    page.see("#conversation", "10").await;
    page.miss("form.question", "").await;
    page.write("form.say textarea", "Forget me").await;
    page.click("form.say button", "Send").await;
    page.see("form.question button", "Approve").await;
    page.picture("2-confirmation").await;
    page.click("form.question button", "Approve").await;
    page.see("#conversation", "I have forgotten who you are").await;
    page.miss("form.question", "").await;
    page.picture("3-answered").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

// The model has threads of its own. They cannot be ended inside the threads of an async test.
#[test]
#[ignore = "long: a browser, page by page"]
fn an_answer_streams_and_its_run_can_be_stopped() {
    let fixture = Fixture::empty();
    let slow = || gemini_text(&["One ", "two ", "three ", "four ", "five"]).slowly(Duration::from_secs(1));
    let model = RecordedModel::start([slow(), slow()]);
    let served = serve(&fixture, &model, &[]);
    tokio::runtime::Runtime::new().unwrap().block_on(stream_and_stop(&served));
}

async fn stream_and_stop(served: &Served) {
    let session = format!("{}/apps/helper/users/ann/sessions/s1", served.greeting["inspector"].as_str().unwrap());
    let page = BrowserPage::on(ScreenKind::Light, "inspector-talk", &session).await;
    page.write("form.say textarea", "Count").await;
    page.click("form.say button", "Send").await;
    page.see("article.piece", "One two").await;
    page.see("#live.on", "live").await;
    page.picture("1-streams").await;
    page.see("article.event:not(.piece)", "One two three four five").await;
    page.write("form.say textarea", "Again").await;
    page.click("form.say button", "Send").await;
    page.see("article.piece", "One").await;
    page.click(".note button", "Stop").await;
    page.miss("article.piece", "").await;
    page.miss(".note", "at work").await;
    page.picture("2-stopped").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    page.close().await;
}

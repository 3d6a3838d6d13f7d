//! ADK's dev interface in a browser: what a person sees of it, and does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use scratchbook_servers::ChromeDriver;
use thirtyfour::prelude::*;
use thirtyfour::stringmatch::StringMatch;
use thirtyfour::{ChromiumLikeCapabilities, Key, LoggingPrefsLogLevel};

/// How long a person would wait, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes down every text that the last answer has had.
const WATCH: &str = "
    window.answers = [];
    const last = () => [...document.querySelectorAll('app-event-row.bot .content-bubble')].at(-1)?.innerText ?? '';
    new MutationObserver(() => { if (answers.at(-1) !== last()) answers.push(last()); })
        .observe(document.body, {subtree: true, childList: true, characterData: true});";

/// A page that shows the interface.
pub(super) struct Page {
    browser: WebDriver,
    pictures: PathBuf,
    // Dropped last: it ends the browser.
    _driver: ChromeDriver,
}

impl Page {
    pub(super) async fn open(url: &str) -> Self {
        let driver = ChromeDriver::start().unwrap();
        let mut wishes = DesiredCapabilities::chrome();
        for wish in [
            "--headless=new",
            // It sees nothing but this server, and in a container it may have no other.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--window-size=1280,800",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        ] {
            wishes.add_arg(wish).unwrap();
        }
        wishes.set_browser_log_level(LoggingPrefsLogLevel::All).unwrap();
        let browser = WebDriver::new(driver.url(), wishes).await.unwrap();
        let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots");
        std::fs::create_dir_all(&pictures).unwrap();
        browser.goto(url).await.unwrap();
        Self { browser, pictures, _driver: driver }
    }

    /// What is shown with this text in it, as soon as it is.
    pub(super) async fn see(&self, css: &str, text: &str) -> WebElement {
        let found = self.shown(css, text).first_opt().await.unwrap();
        match found {
            Some(found) => found,
            None => {
                self.picture("failed").await;
                let all = self.browser.find(By::Css("body")).await.unwrap().text().await.unwrap();
                panic!("nothing at '{css}' shows '{text}'; the page shows: {all}")
            }
        }
    }

    /// Waits until nothing shows this text.
    pub(super) async fn miss(&self, css: &str, text: &str) {
        assert!(self.shown(css, text).not_exists().await.unwrap(), "'{css}' still shows '{text}'");
    }

    fn shown(&self, css: &str, text: &str) -> thirtyfour::extensions::query::ElementQuery {
        let shown = self.browser.query(By::Css(css)).and_displayed().wait(PATIENCE, Duration::from_millis(100));
        // No text is not found in no text.
        if text.is_empty() { shown } else { shown.with_text(StringMatch::new(text).partial().case_insensitive()) }
    }

    pub(super) async fn click(&self, css: &str, text: &str) {
        self.see(css, text).await.click_when_ready().await.unwrap();
    }

    /// Closes a menu.
    pub(super) async fn escape(&self) {
        self.see("[role=menu]", "").await.send_keys(Key::Escape + "").await.unwrap();
    }

    /// Says something to the agent.
    pub(super) async fn say(&self, text: &str) {
        let input = self.see("textarea.chat-input-box", "").await;
        // The first message of a session may still be in it.
        input.clear().await.unwrap();
        input.send_keys(text + Key::Enter).await.unwrap();
    }

    /// Opens a tab at the side, and waits for what it shows.
    pub(super) async fn tab(&self, name: &str, css: &str, text: &str) -> String {
        self.click("[role=tab]", name).await;
        self.see(css, text).await.text().await.unwrap()
    }

    /// Has the texts written down that the last answer has from now on.
    pub(super) async fn watch(&self) {
        self.browser.execute(WATCH, vec![]).await.unwrap();
    }

    pub(super) async fn watched(&self) -> Vec<String> {
        self.browser.execute("return answers", vec![]).await.unwrap().convert().unwrap()
    }

    pub(super) async fn picture(&self, name: &str) {
        self.browser.screenshot(&self.pictures.join(format!("dev-ui-{name}.png"))).await.unwrap();
    }

    /// What the browser has complained of.
    pub(super) async fn complaints(&self) -> Vec<String> {
        self.browser.browser_log().await.unwrap().into_iter().map(|entry| entry.message).collect()
    }

    pub(super) async fn close(self) {
        self.browser.quit().await.unwrap();
    }
}

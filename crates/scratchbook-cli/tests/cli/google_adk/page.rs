//! ADK's dev interface in a browser: what a person sees of it, and does.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scratchbook_servers::ChromeDriver;
use thirtyfour::prelude::*;
use thirtyfour::{ChromiumLikeCapabilities, Key, LoggingPrefsLogLevel};
use tokio::time::sleep;

/// How long a person would wait, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first of what a selector names that a person sees and that has a text in it, in upper or lower case.
const FIND: &str = "
    const [css, text] = arguments;
    return [...document.querySelectorAll(css)]
        .find(e => e.getClientRects().length && e.innerText.toLowerCase().includes(text)) ?? null;";

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
        // The client of WebDriver is built as the client of models is, which has a provider of its own; only one can be
        // the default.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let browser = WebDriver::new(driver.url(), wishes).await.unwrap();
        let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots");
        std::fs::create_dir_all(&pictures).unwrap();
        browser.goto(url).await.unwrap();
        Self { browser, pictures, _driver: driver }
    }

    /// What is shown with this text in it, as soon as it is.
    pub(super) async fn see(&self, css: &str, text: &str) -> WebElement {
        let start = Instant::now();
        loop {
            match self.find(css, text).await {
                Some(found) => return found,
                None => self.wait(start, &format!("nothing at '{css}' shows '{text}'")).await,
            }
        }
    }

    /// Waits until nothing shows this text.
    pub(super) async fn miss(&self, css: &str, text: &str) {
        let start = Instant::now();
        while self.find(css, text).await.is_some() {
            self.wait(start, &format!("'{css}' still shows '{text}'")).await;
        }
    }

    /// Clicks what shows this text, as soon as it can be clicked: it may be drawn anew, or come out from under another.
    pub(super) async fn click(&self, css: &str, text: &str) {
        let start = Instant::now();
        while self.see(css, text).await.click().await.is_err() {
            self.wait(start, &format!("'{text}' at '{css}' cannot be clicked")).await;
        }
    }

    /// Writes into a field, as soon as it takes text, in place of what is in it.
    pub(super) async fn write(&self, css: &str, text: &str) {
        let start = Instant::now();
        loop {
            let field = self.see(css, "").await;
            if field.clear().await.is_ok() && field.send_keys(text).await.is_ok() {
                return;
            }
            self.wait(start, &format!("'{css}' takes no text")).await;
        }
    }

    /// All the text of what shows this text. Both are read in one step: the page may redraw the element between two.
    async fn text(&self, css: &str, text: &str) -> Option<String> {
        let read = format!("const find = function() {{{FIND}}}; return find(...arguments)?.innerText ?? null;");
        self.browser.execute(read, vec![css.into(), text.to_lowercase().into()]).await.unwrap().convert().unwrap()
    }

    /// In one step, so that nothing is drawn anew in between.
    async fn find(&self, css: &str, text: &str) -> Option<WebElement> {
        let found = self.browser.execute(FIND, vec![css.into(), text.to_lowercase().into()]).await.unwrap();
        if found.json().is_null() { None } else { Some(found.element().unwrap()) }
    }

    async fn wait(&self, since: Instant, what: &str) {
        if since.elapsed() > PATIENCE {
            self.picture("failed").await;
            let all = self.browser.find(By::Css("body")).await.unwrap().text().await.unwrap();
            panic!("{what}; the page shows: {all}");
        }
        sleep(Duration::from_millis(100)).await;
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

    /// Opens a tab at the side, and returns what it shows once it shows this text.
    pub(super) async fn tab(&self, name: &str, css: &str, text: &str) -> String {
        self.click("[role=tab]", name).await;
        let start = Instant::now();
        loop {
            match self.text(css, text).await {
                Some(shown) => return shown,
                None => self.wait(start, &format!("the tab '{name}' does not show '{text}'")).await,
            }
        }
    }

    /// Has the texts written down that the last answer has from now on.
    pub(super) async fn watch(&self) {
        self.browser.execute(WATCH, vec![]).await.unwrap();
    }

    pub(super) async fn watched(&self) -> Vec<String> {
        self.browser.execute("return answers", vec![]).await.unwrap().convert().unwrap()
    }

    /// Whether a script of the page, or its address, can tell a text: of cookies, what pages keep, and where they were.
    pub(super) async fn tells(&self, text: &str) -> bool {
        let script = "return [document.cookie, location.href, document.referrer, JSON.stringify(localStorage), \
             JSON.stringify(sessionStorage), ...performance.getEntries().map(e => e.name)].join(' ')";
        let all: String = self.browser.execute(script, vec![]).await.unwrap().convert().unwrap();
        all.contains(text)
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

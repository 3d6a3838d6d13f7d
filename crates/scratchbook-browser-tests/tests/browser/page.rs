//! Pages in a browser, as a person uses them: ADK's dev interface and the server's own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scratchbook_test_servers::ChromeDriver;
use serde_json::json;
use thirtyfour::prelude::*;
use thirtyfour::{ChromiumLikeCapabilities, Key, LoggingPrefsLogLevel};
use tokio::time::sleep;

/// The timeout of each step, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Finds the first visible element of a selector that contains a text, ignoring case.
const FIND: &str = "
    const [css, text] = arguments;
    return [...document.querySelectorAll(css)]
        .find(e => e.getClientRects().length && e.innerText.toLowerCase().includes(text)) ?? null;";

/// Records every text of the last answer.
const WATCH: &str = "
    window.answers = [];
    const last = () => [...document.querySelectorAll('app-event-row.bot .content-bubble')].at(-1)?.innerText ?? '';
    new MutationObserver(() => { if (answers.at(-1) !== last()) answers.push(last()); })
        .observe(document.body, {subtree: true, childList: true, characterData: true});";

/// The screen and the colours that a page is shown on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScreenKind {
    Light,
    Dark,
    /// A screen with a width of 400 pixels, as on a phone.
    Phone,
    DarkPhone,
}

/// A browser page.
pub(crate) struct BrowserPage {
    browser: WebDriver,
    pictures: PathBuf,
    /// The beginning of the names of the page's pictures.
    name: &'static str,
    // It is dropped last, which ends the browser.
    _driver: ChromeDriver,
}

impl BrowserPage {
    pub(crate) async fn open(url: &str) -> Self {
        Self::on(ScreenKind::Light, "dev-ui", url).await
    }

    /// Opens a page on a screen; the names of its pictures begin with `name`.
    pub(crate) async fn on(screen: ScreenKind, name: &'static str, url: &str) -> Self {
        let driver = ChromeDriver::start().unwrap();
        let mut wishes = DesiredCapabilities::chrome();
        for wish in [
            "--headless=new",
            // A container may not support the browser's sandbox. The sandbox is not needed, because the browser opens
            // only this server's pages.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--window-size=1280,800",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        ] {
            wishes.add_arg(wish).unwrap();
        }
        if matches!(screen, ScreenKind::Phone | ScreenKind::DarkPhone) {
            let phone = json!({"deviceMetrics": {"width": 400, "height": 800, "pixelRatio": 1.0}});
            wishes.add_experimental_option("mobileEmulation", phone).unwrap();
        }
        let scheme = if matches!(screen, ScreenKind::Dark | ScreenKind::DarkPhone) { 0 } else { 1 };
        wishes.add_arg(&format!("--blink-settings=preferredColorScheme={scheme}")).unwrap();
        wishes.set_browser_log_level(LoggingPrefsLogLevel::All).unwrap();
        // The WebDriver client and the model client come with different providers for TLS; only one can be the default.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let browser = WebDriver::new(driver.url(), wishes).await.unwrap();
        let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots");
        std::fs::create_dir_all(&pictures).unwrap();
        browser.goto(url).await.unwrap();
        Self { browser, pictures, name, _driver: driver }
    }

    /// Waits until an element shows this text, and returns it.
    pub(crate) async fn see(&self, css: &str, text: &str) -> WebElement {
        let start = Instant::now();
        loop {
            match self.find(css, text).await {
                Some(found) => return found,
                None => self.wait(start, &format!("nothing at '{css}' shows '{text}'")).await,
            }
        }
    }

    /// Waits until no element shows this text.
    pub(crate) async fn miss(&self, css: &str, text: &str) {
        let start = Instant::now();
        while self.find(css, text).await.is_some() {
            self.wait(start, &format!("'{css}' still shows '{text}'")).await;
        }
    }

    /// Clicks the element that shows this text as soon as possible. The element may be redrawn or covered for a while.
    pub(crate) async fn click(&self, css: &str, text: &str) {
        let start = Instant::now();
        while self.see(css, text).await.click().await.is_err() {
            self.wait(start, &format!("'{text}' at '{css}' cannot be clicked")).await;
        }
    }

    /// Replaces the text of a field, as soon as it accepts text.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        let start = Instant::now();
        loop {
            let field = self.see(css, "").await;
            if field.clear().await.is_ok() && field.send_keys(text).await.is_ok() {
                return;
            }
            self.wait(start, &format!("'{css}' takes no text")).await;
        }
    }

    /// Presses a key at an element.
    pub(crate) async fn press(&self, css: &str, key: Key) {
        self.see(css, "").await.send_keys(key + "").await.unwrap();
    }

    /// Returns the whole text of the element that shows this text. The element is found and read in one step, because
    /// the page may redraw it.
    async fn text(&self, css: &str, text: &str) -> Option<String> {
        let read = format!("const find = function() {{{FIND}}}; return find(...arguments)?.innerText ?? null;");
        self.browser.execute(read, vec![css.into(), text.to_lowercase().into()]).await.unwrap().convert().unwrap()
    }

    /// Finds the element that shows this text. Runs in one step, so that nothing is redrawn in between.
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
    pub(crate) async fn escape(&self) {
        self.see("[role=menu]", "").await.send_keys(Key::Escape + "").await.unwrap();
    }

    /// Sends a message to the agent.
    pub(crate) async fn say(&self, text: &str) {
        let input = self.see("textarea.chat-input-box", "").await;
        // The field may still contain the first message of the session.
        input.clear().await.unwrap();
        input.send_keys(text + Key::Enter).await.unwrap();
    }

    /// Opens a side tab, waits until it shows this text, and returns all its text.
    pub(crate) async fn tab(&self, name: &str, css: &str, text: &str) -> String {
        self.click("[role=tab]", name).await;
        let start = Instant::now();
        loop {
            match self.text(css, text).await {
                Some(shown) => return shown,
                None => self.wait(start, &format!("the tab '{name}' does not show '{text}'")).await,
            }
        }
    }

    /// Begins to record the texts of the last answer.
    pub(crate) async fn watch(&self) {
        self.browser.execute(WATCH, vec![]).await.unwrap();
    }

    pub(crate) async fn watched(&self) -> Vec<String> {
        self.browser.execute("return answers", vec![]).await.unwrap().convert().unwrap()
    }

    /// Returns whether scripts of the page can see a text: in cookies, in storage, or in its address.
    pub(crate) async fn tells(&self, text: &str) -> bool {
        let script = "return [document.cookie, location.href, document.referrer, JSON.stringify(localStorage), \
             JSON.stringify(sessionStorage), ...performance.getEntries().map(e => e.name)].join(' ')";
        let all: String = self.browser.execute(script, vec![]).await.unwrap().convert().unwrap();
        all.contains(text)
    }

    pub(crate) async fn picture(&self, name: &str) {
        self.picture_at(&self.pictures.join(format!("{}-{name}.png", self.name))).await;
    }

    pub(crate) async fn picture_at(&self, path: &Path) {
        self.browser.screenshot(path).await.unwrap();
    }

    /// Goes to another page.
    pub(crate) async fn go(&self, url: &str) {
        self.browser.goto(url).await.unwrap();
    }

    /// Runs a script in the page, and returns its result.
    pub(crate) async fn run<T: serde::de::DeserializeOwned>(&self, script: &str) -> T {
        self.browser.execute(script, vec![]).await.unwrap().convert().unwrap()
    }

    /// Returns by how many pixels the page is wider than the screen. If this is more than 0, the page scrolls sideways.
    pub(crate) async fn beside_the_screen(&self) -> i64 {
        self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth").await
    }

    /// Returns the errors in the browser's log.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        self.browser.browser_log().await.unwrap().into_iter().map(|entry| entry.message).collect()
    }

    pub(crate) async fn close(self) {
        self.browser.quit().await.unwrap();
    }
}

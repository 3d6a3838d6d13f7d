//! The browser with which the tests drive ADK's dev interface.

use crate::packages;
use crate::servers::is_there;
use crate::step::Stop;

/// The word in the names of the tests that need the browser.
const WORD: &str = "chromium";
/// The names of the browser's program on different systems. The driver finds the program by itself.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// The name of the driver's program.
const DRIVER: &str = "chromedriver";

/// Runs the step `browser`.
pub(crate) fn install() -> Result<(), Stop> {
    packages::ensure(missing).map_err(|stop| match stop {
        Stop::LeftOut(why) => Stop::LeftOut(format!(
            "{why}. Any Chromium or Chrome does whose chromedriver is in PATH. Until then the tests with {WORD} in their \
             names are not run"
        )),
        failed => failed,
    })
}

/// Returns the word by which the tests that need the browser are skipped; `None` if it is installed.
pub(crate) fn skips() -> Option<String> {
    (!missing().is_empty()).then(|| WORD.to_owned())
}

fn missing() -> Vec<&'static str> {
    let needed = [("chromium", BROWSERS.into_iter().any(is_there)), ("chromium-driver", is_there(DRIVER))];
    needed.into_iter().filter(|(_, there)| !there).map(|(package, _)| package).collect()
}

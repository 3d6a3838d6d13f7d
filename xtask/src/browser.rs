//! The browser that the tests start, and the driver by which the tests of `gate` use pages.

use crate::packages;
use crate::servers::is_there;
use crate::step::Stop;

/// The names of the browser's program on different systems.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Runs the step `chromium`: installs the browser.
pub(crate) fn install() -> Result<(), Stop> {
    packages::ensure(|| if has_browser() { vec![] } else { vec!["chromium"] }).map_err(|stop| match stop {
        Stop::LeftOut(why) => {
            Stop::LeftOut(format!("{why}. Until then the tests in modules named chromium are not run"))
        }
        failed => failed,
    })
}

/// Runs the step `browser`: installs the browser and its driver.
pub(crate) fn install_driver() -> Result<(), Stop> {
    install()?;
    packages::ensure(|| if has_driver() { vec![] } else { vec!["chromium-driver"] }).map_err(|stop| match stop {
        Stop::LeftOut(why) => Stop::LeftOut(format!(
            "{why}. Any chromedriver in PATH does that fits the browser. Until then the tests in modules named \
             chromedriver are not run"
        )),
        failed => failed,
    })
}

/// Returns the modules whose tests are not run because a program is missing.
pub(crate) fn missing() -> Vec<&'static str> {
    match (has_browser(), has_driver()) {
        (true, true) => vec![],
        (true, false) => vec!["chromedriver"],
        (false, _) => vec!["chromium", "chromedriver"],
    }
}

fn has_browser() -> bool {
    BROWSERS.into_iter().any(is_there)
}

fn has_driver() -> bool {
    is_there("chromedriver")
}

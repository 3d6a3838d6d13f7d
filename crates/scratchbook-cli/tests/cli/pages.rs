//! A page of `scratchbook serve` in a browser. The package `scratchbook-browser-tests` uses all pages as a person does.
#![cfg(unix)]

mod chromium {
    use std::process::Command;

    use crate::Fixture;
    use crate::serve::Served;

    const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

    #[test]
    fn a_session_is_shown_and_the_scripts_of_its_page_run() {
        let fixture = Fixture::empty();
        let served = Served::new(&fixture, &[]);
        served.talk("demo", "ann", "s1", "Add two apples and a book");
        let page = format!("{}/apps/demo/users/ann/sessions/s1", served.greeting["inspector"].as_str().unwrap());
        let profile = format!("--user-data-dir={}", fixture.path("profile").display());
        // A container may not support the browser's sandbox, and only this server's page is opened.
        let options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"];
        let start = |browser| Command::new(browser).args(options).args([&profile, &page]).output().ok();
        let shown = BROWSERS.into_iter().find_map(start).expect("a browser is installed");
        let html = String::from_utf8_lossy(&shown.stdout);
        for text in ["<h1", "apples", r#"{"cart":{"apples":2,"book":1}}"#] {
            assert!(html.contains(text), "no {text} in {html}");
        }
        // The script for times marks those that it has written for this machine.
        assert!(html.contains("data-local"), "no script has run: {html}, {}", String::from_utf8_lossy(&shown.stderr));
    }
}

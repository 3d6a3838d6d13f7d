//! A person logs in with a token, and sees what the token may do.

use super::login;
use crate::page::{BrowserPage, ScreenKind};

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn a_reader_logs_in_and_sees_no_button_that_would_fail() {
    for (rights, changes) in [("read", false), ("read,write", true)] {
        let (served, _fixture, token, session) = login(rights);
        let page = BrowserPage::on(ScreenKind::Light, "inspector-rights", &session).await;
        page.write("input#token", &token).await;
        page.picture("1-login").await;
        page.click("form button", "Log in").await;
        page.see("#state", "cart").await;
        page.see("#live.on", "live").await;
        page.picture(if changes { "2-writer" } else { "2-reader" }).await;
        // Only a writer has buttons. Nobody here has the buttons of an administrator.
        for (css, is_there) in [
            ("form.fork", changes),
            ("form.say", changes),
            ("a[href*='/delete']", changes),
            ("a[href*='/rewind']", changes),
            ("a[href*='/prune']", false),
        ] {
            let found: u64 = page.run(&format!("return document.querySelectorAll(\"{css}\").length")).await;
            assert_eq!(found > 0, is_there, "{css} with the rights {rights}");
        }
        assert!(!page.tells(&token).await, "no script sees the token, and no address has it");
        page.click(".who button", "Log out").await;
        page.see("input#token", "").await;
        page.close().await;
        assert!(!served.logs().contains(&token));
    }
}

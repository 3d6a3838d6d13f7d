//! Every page meets WCAG 2.1 AA as far as axe-core can tell.

use std::fs;
use std::path::Path;

use super::{conversation, login};
use crate::page::{BrowserPage, ScreenKind};

/// Runs the rules of WCAG 2.1 A and AA. The result has a line for each element that breaks a rule.
const RUN: &str = "
    for (const folded of document.querySelectorAll('details')) folded.open = true;
    const rules = {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']};
    const found = await axe.run(document, {runOnly: rules, resultTypes: ['violations']});
    return found.violations.flatMap(({id, nodes}) => nodes.map(node => `${id}: ${node.html} ${node.failureSummary}`));";

/// The screens, each with the beginning of the names of its pictures.
const SCREENS: [(ScreenKind, &str); 4] = [
    (ScreenKind::Light, "axe-light"),
    (ScreenKind::Dark, "axe-dark"),
    (ScreenKind::Phone, "axe-phone-light"),
    (ScreenKind::DarkPhone, "axe-phone-dark"),
];

/// Returns the breaches of rules on the current page.
async fn violations(page: &BrowserPage) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/node/node_modules/axe-core/axe.min.js");
    let axe =
        fs::read_to_string(&file).unwrap_or_else(|_| panic!("{}: run `cargo xtask gate --step node`", file.display()));
    page.run(&format!("{axe};\nreturn (async () => {{{RUN}}})();")).await
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn no_page_breaks_a_rule_of_wcag_2_1_aa() {
    let (served, _fixture, session) = conversation();
    let url = served.greeting["inspector"].as_str().unwrap();
    let events = served.get("/apps/demo/users/ann/sessions/s1").1;
    let events: serde_json::Value = serde_json::from_str(&events).unwrap();
    let run = events["events"][4]["invocationId"].as_str().unwrap();
    let pages = [
        url.to_owned(),
        format!("{url}/overview"),
        format!("{url}/apps/demo"),
        format!("{url}/apps/demo?find=s"),
        format!("{url}/apps/demo?find=nothing-has-this"),
        format!("{url}/apps/demo/users"),
        format!("{url}/apps/demo/users/ann"),
        format!("{url}/apps/demo/users/ann/erase"),
        session.clone(),
        format!("{session}?at=12"),
        format!("{session}?at=12&key=cart"),
        format!("{session}?key=cart"),
        format!("{session}?at=12&with=3"),
        format!("{session}/runs?run={run}&at=5"),
        format!("{session}/details"),
        format!("{session}/prune"),
        format!("{session}/rewind?run={run}"),
        format!("{session}/delete"),
        format!("{session}x"),
        format!("{url}/nowhere"),
    ];
    for (screen, name) in SCREENS {
        let page = BrowserPage::on(screen, name, url).await;
        for (number, address) in pages.iter().enumerate() {
            page.go(address).await;
            page.see("h1, h2", "").await;
            page.picture(&format!("{number:02}")).await;
            assert_eq!(violations(&page).await, Vec::<String>::new(), "{address} on {screen:?}");
            assert_eq!(page.beside_the_screen().await, 0, "{address} on {screen:?}");
        }
        // The browser may report only the page that does not exist.
        let complaints = page.complaints().await;
        assert!(complaints.iter().all(|text| text.contains("404 (Not Found)")), "{complaints:#?}");
        page.close().await;
    }
}

#[tokio::test]
#[ignore = "long: a browser, page by page"]
async fn the_login_form_breaks_no_rule_of_wcag_2_1_aa() {
    let (served, _fixture, ..) = login("read");
    for (screen, name) in SCREENS {
        let page = BrowserPage::on(screen, name, served.greeting["inspector"].as_str().unwrap()).await;
        page.write("input#token", "nope").await;
        page.click("form button", "Log in").await;
        page.see("[role=alert]", "Nobody is let in by this").await;
        page.picture("login").await;
        assert_eq!(page.beside_the_screen().await, 0, "{screen:?}");
        assert_eq!(violations(&page).await, Vec::<String>::new(), "{screen:?}");
        page.close().await;
    }
}

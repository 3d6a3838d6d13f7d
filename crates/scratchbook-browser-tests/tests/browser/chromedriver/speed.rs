//! A session of 100,000 events in a browser.

use std::fmt::Write;
use std::fs;

use crate::Fixture;
use crate::page::{BrowserPage, ScreenKind};
use crate::serve::Served;

const EVENTS: u64 = 100_000;
const HEAD: &str = r#"{"type": "header", "format": "scratchbook-export", "version": 1}"#;

/// Returns the median of some times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::test]
#[ignore = "long: a session of 100,000 events"]
async fn a_session_of_100_000_events_opens_and_travels_at_once() {
    let fixture = Fixture::empty();
    let session = serde_json::json!({"type": "session", "id": "large", "state": {}, "events": EVENTS});
    let user = serde_json::json!({"type": "user", "appName": "shop", "userId": "ann", "state": {}});
    let mut lines = format!("{HEAD}\n{user}\n{session}\n");
    for n in 1..=EVENTS {
        let event = serde_json::json!({"type": "event", "seq": n, "event": {
            "id": format!("e{n}"), "author": "clerk", "invocationId": format!("run-{}", n / 10), "timestamp": 1e9 + n as f64,
            "content": {"role": "model", "parts": [{"text": format!("message {n}")}]},
            "actions": {"stateDelta": {"step": n, format!("key-{}", n % 50): n}}
        }});
        writeln!(lines, "{event}").unwrap();
    }
    let end = serde_json::json!({
        "type": "end", "apps": 0, "users": 1, "puts": 0, "sessions": 1, "events": EVENTS, "artifacts": 0
    });
    writeln!(lines, "{end}").unwrap();
    fs::write(fixture.path("large.jsonl"), lines).unwrap();
    fixture.text(&["import", "--from", "jsonl", fixture.path("large.jsonl").to_str().unwrap()]);
    let served = Served::new(&fixture, &[]);
    let session = format!("{}/apps/shop/users/ann/sessions/large", served.greeting["inspector"].as_str().unwrap());
    let page = BrowserPage::on(ScreenKind::Light, "inspector-large", &session).await;
    let mut opened = Vec::new();
    for _ in 0..9 {
        page.go(&session).await;
        page.see("#live.on", "live").await;
        opened.push(page.run::<f64>("return performance.getEntriesByType('navigation')[0].loadEventEnd").await);
    }
    // A step is the time from the move of the slider until the frame with the state at the event is painted.
    let step = "return (async () => {
        const times = [];
        for (let turn = 0; turn < 30; turn++) {
            const seq = 1 + Math.floor(Math.random() * lastSeq());
            const start = performance.now();
            slider.value = seq;
            slider.dispatchEvent(new Event('input', {bubbles: true}));
            do await new Promise(requestAnimationFrame);
            while (document.querySelector('#state').dataset.at !== String(seq));
            await new Promise(painted => setTimeout(painted));
            times.push(performance.now() - start);
        }
        return times;
    })()";
    let steps: Vec<f64> = page.run(step).await;
    page.picture("travelled").await;
    let (opened, stepped) = (median(opened), median(steps));
    eprintln!("opened in {opened:.0} ms, a step of the slider in {stepped:.0} ms");
    assert!(opened < 300.0, "opened in {opened} ms");
    assert!(stepped < 50.0, "a step took {stepped} ms");
    page.close().await;
}

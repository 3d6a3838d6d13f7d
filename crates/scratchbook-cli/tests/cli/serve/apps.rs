//! The hosted agents.

use std::fs;

use super::Served;
use crate::Fixture;

#[test]
fn a_newcomer_talks_to_the_demo() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    let events = served.talk("demo", "ann", "s1", "Add two apples, please");
    assert_eq!(events[3]["content"]["parts"][0]["text"], "Done. In your cart: 2 x apples.");
    let events = served.talk("story", "ann", "s1", "Tell me a story about a fox");
    assert!(events[1]["content"]["parts"][0]["text"].as_str().unwrap().contains("there was a fox"), "{events}");
}

#[test]
fn agents_come_from_a_folder_or_there_are_none() {
    let fixture = Fixture::empty();
    let folder = fixture.path("agents");
    for (app, text) in [
        ("mirror", "name: mirror_agent\nmodel: echo\n"),
        ("shop", "name: shop_agent\nmodel: shop\ntools:\n  - name: add_to_cart\n  - name: show_cart\n"),
    ] {
        fs::create_dir_all(folder.join(app)).unwrap();
        fs::write(folder.join(app).join("root_agent.yaml"), text).unwrap();
    }
    let served = Served::new(&fixture, &["--agents", folder.to_str().unwrap()]);
    assert_eq!(served.get("/list-apps").1, r#"["mirror","shop"]"#);
    let events = served.talk("mirror", "ann", "s1", "Good morning");
    assert_eq!(events[0]["content"]["parts"][0]["text"], "You said: Good morning");
    let events = served.talk("shop", "ann", "s1", "add a pear");
    assert_eq!(events[1]["content"]["parts"][0]["functionResponse"]["response"]["cart"]["pear"], 1);

    fs::write(folder.join("shop/root_agent.yaml"), "name: shop_agent\nmodel: gemini-2.5-flash\n").unwrap();
    let refused = fixture.fails(6, &["serve", "--port", "0", "--agents", folder.to_str().unwrap()]);
    assert!(refused.contains("gemini-2.5-flash") && refused.contains("GOOGLE_API_KEY"), "{refused}");
    assert_eq!(Served::new(&fixture, &["--no-demo"]).get("/list-apps").1, "[]");
}

#[test]
fn surfaces_are_switched_off_by_options_and_by_the_file() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &["--no-vertex", "--no-v1"]);
    assert_eq!(served.greeting["surfaces"], serde_json::json!(["adk"]));
    for (path, status) in [
        ("/health", 200),
        ("/list-apps", 200),
        ("/v1/apps/demo/sessions", 404),
        ("/docs", 200),
        ("/openapi.json", 200),
        ("/v1/reasoningEngines/demo/sessions", 404),
    ] {
        assert_eq!(served.get(path).0, status, "{path}");
    }
    let file = fixture.path("serve.toml");
    fs::write(&file, "no-adk = true\n").unwrap();
    let served = Served::new(&fixture, &["--config", file.to_str().unwrap()]);
    assert_eq!(served.greeting["surfaces"], serde_json::json!(["v1", "vertex"]));
    assert_eq!((served.get("/list-apps").0, served.get("/docs").0, served.get("/health").0), (404, 200, 200));
    let refused = fixture.fails(2, &["serve", "--port", "0", "--no-adk", "--no-v1", "--no-vertex"]);
    assert!(refused.contains("no surface"), "{refused}");
}

//! The agents that are hosted.

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

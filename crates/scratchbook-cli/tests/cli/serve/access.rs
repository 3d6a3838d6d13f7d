//! Access to a server is for everybody on this machine, or for clients with a token.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Served;
use crate::Fixture;

#[test]
fn others_are_served_who_log_in() {
    let fixture = Fixture::empty();
    let refused = fixture.fails(6, &["serve", "--host", "0.0.0.0", "--port", "0"]);
    assert!(refused.contains("can be reached by others") && refused.contains("--tokens"), "{refused}");

    let made = fixture.json(&["token", "new", "--name", "me"]);
    let (token, file) = (made["token"].as_str().unwrap(), fixture.path("tokens.toml"));
    fs::write(&file, made["entry"].as_str().unwrap()).unwrap();
    let served = Served::new(&fixture, &["--host", "0.0.0.0", "--tokens", file.to_str().unwrap()]);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(served.get("/list-apps").0, 401);
    assert_eq!(served.get("/health/ready").0, 200);
    assert_eq!(served.send("GET", "/list-apps", &bearer, "").0, 200);

    // Once a token is removed from the file, it gives no access.
    fs::write(&file, "").unwrap();
    served.signal("-HUP");
    let begun = Instant::now();
    while served.send("GET", "/list-apps", &bearer, "").0 != 401 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the token still opens");
        sleep(Duration::from_millis(20));
    }
    let logs = served.logs();
    assert!(!logs.contains(token), "{logs}");
}

#[test]
fn half_of_what_belongs_together_is_refused() {
    let fixture = Fixture::empty();
    for (args, said) in [
        (["--tls-cert", "tls.crt"], "give --tls-key"),
        (["--tls-key", "tls.key"], "give --tls-cert"),
        (["--jwt-audience", "shop"], "nobody can log in"),
    ] {
        let refused = fixture.fails(2, &[&["serve", "--port", "0"], &args[..]].concat());
        assert!(refused.contains(said), "{refused}");
    }
    let refused = fixture.fails(3, &["serve", "--port", "0", "--tokens", "no such file"]);
    assert!(refused.contains("no such file"), "{refused}");
}

//! Authentication, by the options of the command.

use std::fs;

use super::Served;
use crate::Fixture;

/// Creates a new token's header, and its entry for the file.
fn token(fixture: &Fixture, args: &[&str]) -> (String, String) {
    let made = fixture.json(&[&["token", "new"], args].concat());
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (format!("Authorization: Bearer {}\r\n", text("token")), text("entry"))
}

#[test]
fn strangers_are_served_when_they_log_in() {
    let fixture = Fixture::empty();
    let said = fixture.fails(6, &["serve", "--port", "0", "--host", "0.0.0.0"]);
    assert!(said.contains("nobody has to log in") && said.contains("--tokens FILE"), "{said}");

    let (alice, of_alice) = token(&fixture, &["--name", "alice", "--app", "demo", "--user", "alice"]);
    let (bob, of_bob) = token(&fixture, &["--name", "bob", "--app", "demo", "--user", "bob"]);
    let file = fixture.path("tokens.toml");
    fs::write(&file, format!("{of_alice}\n{of_bob}")).unwrap();
    let served = Served::new(&fixture, &["--host", "0.0.0.0", "--tokens", file.to_str().unwrap()]);
    let session = "/apps/demo/users/alice/sessions/s1";
    assert_eq!(served.get("/health").0, 200);
    assert_eq!(served.get("/list-apps").0, 401);
    assert_eq!(served.send("POST", session, &alice, "{}").0, 200);
    assert_eq!(served.send("GET", session, &alice, "").0, 200);
    assert_eq!(served.send("GET", session, &bob, "").0, 404);

    // Once a token is removed from the file, it gives no access. The log contains neither token.
    fs::write(&file, of_bob).unwrap();
    served.signal("-HUP");
    let gone = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        served.send("GET", session, &alice, "").0 == 401
    });
    assert!(gone, "the token still opens");
    assert_eq!(served.send("GET", session, &bob, "").0, 404);
    let logs = served.logs();
    assert!(logs.contains("unencrypted"), "{logs}");
    for secret in [&alice, &bob].map(|header| header.trim().rsplit(' ').next().unwrap()) {
        assert!(!logs.contains(secret), "{logs}");
    }
}

#[test]
fn a_file_without_a_token_is_logged() {
    let fixture = Fixture::empty();
    let file = fixture.path("tokens.toml");
    fs::write(&file, "").unwrap();
    let logs = Served::new(&fixture, &["--tokens", file.to_str().unwrap()]).logs();
    assert!(logs.contains("the file has no token"), "{logs}");
    assert!(!logs.contains("unencrypted"), "{logs}");
}

#[test]
fn what_is_wrong_with_a_login_is_said_at_the_start() {
    let fixture = Fixture::empty();
    let secret = fixture.path("secret");
    fs::write(&secret, "too short").unwrap();
    for (code, args, reason) in [
        (3, ["--tokens", "nowhere.toml"], "cannot read the tokens 'nowhere.toml'"),
        (2, ["--jwt-secret-file", secret.to_str().unwrap()], "has 9 bytes"),
        (2, ["--jwt-issuer", "https://login.example"], "nobody can log in"),
        (2, ["--tls-cert", "tls.crt"], "give --tls-key FILE"),
        (2, ["--allow-origins", "shop.example"], "with its scheme, got 'shop.example'"),
        (2, ["--allow-origins", "https://shop.example/chat"], "without a path, got 'https://shop.example/chat'"),
        (2, ["--url-prefix", "/agents/"], "the URL prefix must be a path such as /agents/shop"),
        (2, ["--allow-origins", "regex:("], "the allowed origin 'regex:(' is no regular expression: unclosed group"),
    ] {
        let said = fixture.fails(code, &[&["serve", "--port", "0"], &args[..]].concat());
        assert!(said.contains(reason) && !said.contains("\\n"), "{args:?}: {said}");
    }
}

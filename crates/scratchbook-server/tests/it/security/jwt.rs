//! JWTs. PyJWT, another implementation, has signed the tokens of `data/tokens.json` with the keys of `data/jwks.json`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use ring::hmac;
use scratchbook::ErrorKind;
use scratchbook_server::Login;
use serde_json::{Value, json};

use super::{At, LoginFiles, TextAnswer, bearer, demo, get, send, session, shared};

const ISSUER: &str = "https://login.example";
const JWKS: &str = include_str!("data/jwks.json");
/// A time at which the recorded tokens are valid.
const NOW: f64 = 1_950_000_000.0;

fn recorded() -> Value {
    serde_json::from_str(include_str!("data/tokens.json")).unwrap()
}

fn secret() -> String {
    recorded()["secret"].as_str().unwrap().to_owned()
}

fn recorded_token(name: &str) -> String {
    recorded()["tokens"][name].as_str().unwrap().to_owned()
}

/// Returns a token with these claims, signed with HS256.
fn signed(claims: &Value) -> String {
    signed_with(&json!({"alg": "HS256"}), claims, secret().as_bytes())
}

fn signed_with(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

struct JwtServer {
    router: axum::Router,
}

impl JwtServer {
    /// Creates a server that accepts both kinds of keys.
    async fn new(login: impl FnOnce(Login) -> Login, now: f64) -> Self {
        let files = LoginFiles::new();
        let base = Login::new()
            .with_jwks(files.write("jwks.json", JWKS))
            .with_jwt_secret(files.write("secret", secret() + "\n"));
        let (store, server) = demo().await;
        session(&store, "u1", "s-1").await;
        session(&store, "u2", "s-2").await;
        let server = server.login(login(base)).environment(shared(At(now))).build().unwrap();
        Self { router: server.router() }
    }

    /// Creates a server for the issuer and audience of the recorded tokens.
    async fn recorded() -> Self {
        Self::new(|login| login.with_jwt_issuer(ISSUER).with_jwt_audience("scratchbook"), NOW).await
    }

    async fn get(&self, token: &str, path: &str) -> TextAnswer {
        get(&self.router, path, &[("authorization", &bearer(token))]).await
    }

    /// Returns the status of a read of `u1`'s session.
    async fn status(&self, token: &str) -> u16 {
        self.get(token, "/apps/demo/users/u1/sessions/s-1").await.status
    }
}

#[tokio::test]
async fn tokens_of_another_implementation_are_taken() {
    let jwts = JwtServer::recorded().await;
    for name in ["hs256", "rs256", "eddsa", "eddsa_without_kid"] {
        // These tokens are for the app `shop`.
        let answer = jwts.get(&recorded_token(name), "/apps/shop/users/u1/sessions/x").await;
        assert_eq!((answer.status, answer.json()["detail"].as_str()), (404, Some("Session not found")), "{name}");
    }
}

#[tokio::test]
async fn an_algorithm_that_is_not_the_keys_is_refused() {
    let jwts = JwtServer::recorded().await;
    let claims = json!({"sub": "u1", "rights": ["read"], "exp": NOW + 60.0, "iss": ISSUER, "aud": "scratchbook"});
    assert_eq!(jwts.status(&signed(&claims)).await, 200);
    let modulus = serde_json::from_str::<Value>(JWKS).unwrap()["keys"][0]["n"].as_str().unwrap().to_owned();
    let mut wrong = vec![recorded_token("none"), recorded_token("rs512"), recorded_token("ps256")];
    wrong.push(recorded_token("eddsa_of_another_kid"));
    for algorithm in ["none", "None", "HS512", "RS256", "EdDSA", "hs256", ""] {
        wrong.push(signed_with(&json!({"alg": algorithm}), &claims, secret().as_bytes()));
    }
    // Tokens that are signed with a public key as the secret.
    for public in [JWKS.as_bytes().to_vec(), modulus.clone().into_bytes(), URL_SAFE_NO_PAD.decode(modulus).unwrap()] {
        wrong.push(signed_with(&json!({"alg": "HS256"}), &claims, &public));
        wrong.push(signed_with(&json!({"alg": "HS256", "kid": "rsa-1"}), &claims, &public));
    }
    let good = signed(&claims);
    let (message, signature) = good.rsplit_once('.').unwrap();
    wrong.extend([format!("{message}."), format!("{message}.AAAA"), format!("{message}.{signature}=")]);
    wrong.extend([format!("{good}."), format!(".{good}"), message.to_owned(), signed_with(&json!({}), &claims, b"")]);
    for crit in [json!(["exp"]), json!([]), json!(null), json!(""), json!({}), json!(false), json!(0)] {
        wrong.push(signed_with(&json!({"alg": "HS256", "crit": crit}), &claims, secret().as_bytes()));
    }
    for token in wrong {
        assert_eq!(jwts.status(&token).await, 401, "{token}");
    }
}

#[tokio::test]
async fn a_token_counts_in_its_time() {
    let jwts = JwtServer::new(|login| login, NOW).await;
    let with = |more: Value| {
        let mut claims = json!({"sub": "u1", "rights": "read"});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        signed(&claims)
    };
    for (claims, status) in [
        (json!({"exp": NOW + 1.0}), 200),
        (json!({"exp": NOW - 29.0}), 200),
        (json!({"exp": NOW - 30.0}), 401),
        (json!({"exp": 0}), 401),
        (json!({"exp": -1}), 401),
        (json!({"exp": 9_007_199_254_740_992_u64}), 200),
        (json!({"exp": 9_007_199_254_740_994_u64}), 401),
        (json!({"exp": 1e300}), 401),
        (json!({"exp": "1950000060"}), 401),
        (json!({"exp": null}), 401),
        (json!({}), 401),
        (json!({"exp": NOW + 60.0, "nbf": NOW + 29.0}), 200),
        (json!({"exp": NOW + 60.0, "nbf": NOW + 31.0}), 401),
    ] {
        assert_eq!(jwts.status(&with(claims.clone())).await, status, "{claims}");
    }
}

#[tokio::test]
async fn a_token_is_for_its_issuer_and_audience() {
    let jwts = JwtServer::recorded().await;
    let plain = JwtServer::new(|login| login, NOW).await;
    let token = |iss: Value, aud: Value| {
        let claims = json!({"sub": "u1", "rights": "read", "exp": NOW + 60.0, "iss": iss, "aud": aud});
        signed(&claims)
    };
    for (iss, aud, status, plain_status) in [
        (json!(ISSUER), json!("scratchbook"), 200, 401),
        (json!(ISSUER), json!(["x", "scratchbook"]), 200, 401),
        (json!(ISSUER), json!(["x"]), 401, 401),
        (json!(ISSUER), json!([]), 401, 401),
        (json!(ISSUER), Value::Null, 401, 200),
        (json!("https://other.example"), json!("scratchbook"), 401, 401),
        (Value::Null, json!("scratchbook"), 401, 401),
        (Value::Null, Value::Null, 401, 200),
    ] {
        let token = token(iss.clone(), aud.clone());
        assert_eq!(jwts.status(&token).await, status, "{iss} {aud}");
        assert_eq!(plain.status(&token).await, plain_status, "{iss} {aud}");
    }
}

#[tokio::test]
async fn claims_say_what_is_reached_and_what_may_be_done() {
    let jwts = JwtServer::new(|login| login, NOW).await;
    let (u1, u2) = ("/apps/demo/users/u1/sessions/s-1", "/apps/demo/users/u2/sessions/s-2");
    for (claims, first, second) in [
        (json!({"sub": "u1", "rights": ["read"]}), 200, 404),
        (json!({"sub": "someone", "user": "u2", "rights": ["read"]}), 404, 200),
        (json!({"user": "*", "rights": ["read"]}), 200, 200),
        (json!({"sub": "*", "rights": ["read"]}), 404, 404),
        (json!({"rights": ["read"]}), 401, 401),
        (json!({"user": "*", "app": "demo", "scope": "openid read"}), 200, 200),
        (json!({"user": "*", "app": "other", "scope": "read"}), 404, 404),
        (json!({"user": "*", "scope": "openid reader"}), 403, 403),
        (json!({"user": "*", "scope": "read", "rights": []}), 403, 403),
        (json!({"user": "*", "rights": ["write"]}), 403, 403),
        (json!({"user": "*"}), 403, 403),
        (json!({"user": 7, "sub": "u1", "rights": ["read"]}), 401, 401),
        (json!({"user": "*", "app": ["demo"], "rights": ["read"]}), 401, 401),
    ] {
        let mut whole = claims.clone();
        whole["exp"] = json!(NOW + 60.0);
        let token = signed(&whole);
        assert_eq!(jwts.get(&token, u1).await.status, first, "{claims}");
        assert_eq!(jwts.get(&token, u2).await.status, second, "{claims}");
    }
}

#[tokio::test]
async fn a_claim_said_twice_is_refused() {
    let jwts = JwtServer::new(|login| login, NOW).await;
    let claims = format!(r#"{{"sub":"u1","rights":["read"],"exp":{},"user":"u2","user":"u1"}}"#, NOW + 60.0);
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret().as_bytes()), message.as_bytes());
    assert_eq!(jwts.status(&format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))).await, 401);
}

#[tokio::test]
async fn a_zero_before_the_number_of_a_key_is_nothing() {
    let mut jwks: Value = serde_json::from_str(JWKS).unwrap();
    let key = jwks["keys"].as_array_mut().unwrap().iter_mut().find(|key| key["kty"] == "RSA").unwrap();
    let number = URL_SAFE_NO_PAD.decode(key["n"].as_str().unwrap()).unwrap();
    key["n"] = json!(URL_SAFE_NO_PAD.encode([&[0], number.as_slice()].concat()));
    let files = LoginFiles::new();
    let path = files.write("jwks.json", jwks.to_string());
    let login = |login: Login| login.with_jwks(path).with_jwt_issuer(ISSUER).with_jwt_audience("scratchbook");
    let answer = JwtServer::new(login, NOW).await.get(&recorded_token("rs256"), "/apps/shop/users/u1/sessions/x").await;
    assert_eq!(answer.status, 404, "{answer:?}");
}

#[tokio::test]
async fn keys_that_are_none_are_refused_with_the_reason() {
    let short = json!({"keys": [recorded()["short_rsa"]]}).to_string();
    let cases: [(bool, &str, &str); 11] = [
        (true, "", "EOF"),
        (true, "{}", "missing field `keys`"),
        (true, r#"{"keys": []}"#, "no key"),
        (true, r#"{"keys": [{"kty": "EC", "crv": "P-256"}]}"#, "no key"),
        (true, r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#, "is a secret"),
        (true, r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}]}"#, "3 bytes"),
        (true, r#"{"keys": [{"kty": "RSA", "n": "+", "e": "AQAB"}]}"#, "base64url"),
        (true, &short, "1024 bits"),
        (false, "short\n", "has 5 bytes"),
        (false, "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n", "public keys go into"),
        (false, JWKS, "public keys go into"),
    ];
    for (jwks, text, reason) in cases {
        let files = LoginFiles::new();
        let path = files.write("file", text);
        let login = if jwks { Login::new().with_jwks(path) } else { Login::new().with_jwt_secret(path) };
        let (_, server) = demo().await;
        let error = server.login(login).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
    let (_, server) = demo().await;
    assert!(server.login(Login::new().with_jwt_issuer(ISSUER)).build().is_err());
}

#[tokio::test]
async fn jwks_without_usable_keys_revokes_the_keys_that_it_had() {
    let of_another_algorithm = r#"{"keys": [{"kty": "EC", "crv": "P-256"}]}"#;
    for (emptied, status) in [(r#"{"keys": []}"#, 401), (of_another_algorithm, 401), ("{", 404)] {
        let files = LoginFiles::new();
        let login = Login::new().with_jwks(files.write("jwks.json", JWKS)).with_jwt_issuer(ISSUER);
        let (_, server) = demo().await;
        let server = server.login(login.with_jwt_audience("scratchbook")).environment(shared(At(NOW))).build().unwrap();
        let token = bearer(&recorded_token("rs256"));
        let status_now =
            async || get(&server.router(), "/apps/shop/users/u1/sessions/x", &[("authorization", &token)]).await.status;
        assert_eq!(status_now().await, 404, "the token is accepted");
        files.write("jwks.json", emptied);
        assert_eq!(server.reload().is_err(), status == 404, "{emptied}");
        assert_eq!(status_now().await, status, "{emptied}");
    }
}

#[tokio::test]
async fn no_secret_is_shown_by_debug() {
    let files = LoginFiles::new();
    let login = Login::new().with_jwt_secret(files.write("secret", secret()));
    let (_, server) = demo().await;
    let server = server.login(login).build().unwrap();
    let shown = format!("{server:?}");
    assert!(shown.contains("Reloaded") && !shown.contains(&secret()) && !shown.contains(&secret()[..12]), "{shown}");
}

/// Generates a text that is nearly a token.
fn near_token() -> impl Strategy<Value = String> {
    let header = prop_oneof![
        Just(r#"{"alg":"HS256"}"#.to_owned()),
        Just(r#"{"alg":"none"}"#.to_owned()),
        Just(r#"{"alg":"RS256","kid":"rsa-1"}"#.to_owned()),
        Just(r#"{"alg":"EdDSA","kid":"ed-1"}"#.to_owned()),
        any::<String>(),
    ];
    let claims = prop_oneof![
        any::<String>(),
        (any::<f64>(), any::<i64>()).prop_map(|(exp, nbf)| json!({"sub": "u1", "exp": exp, "nbf": nbf}).to_string()),
    ];
    let made = (header, claims, any::<bool>(), any::<Vec<u8>>()).prop_map(|(header, claims, sign, bytes)| {
        let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret().as_bytes());
        let signature = if sign { hmac::sign(&key, message.as_bytes()).as_ref().to_vec() } else { bytes };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    });
    let cut = (made.clone(), any::<prop::sample::Index>(), "[ -~]{0,3}").prop_map(|(token, at, more)| {
        let at = at.index(token.len());
        format!("{}{more}{}", &token[..at], &token[at..])
    });
    prop_oneof![made, cut, "[A-Za-z0-9_.=-]{0,80}", "[ -~]{0,80}"]
}

#[test]
fn no_text_is_a_token_by_accident_and_none_is_a_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let jwts = runtime.block_on(JwtServer::new(|login| login, NOW));
    let config = ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(token in near_token())| {
        let header = bearer(&token);
        let headers = [("authorization", header.as_str())];
        let path = "/apps/demo/users/u1/sessions/s-1";
        let answer = runtime.block_on(send(&jwts.router, axum::http::Method::GET, path, &headers, ""));
        // A signed token without rights is accepted, but may do nothing.
        prop_assert!([401, 403].contains(&answer.status), "{token}: {answer:?}");
    });
}

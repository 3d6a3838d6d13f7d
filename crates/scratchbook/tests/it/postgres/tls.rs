//! Encryption: what each mode accepts and what it refuses.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use scratchbook::ErrorKind;
use scratchbook::store::PostgresSessionService;
use scratchbook_test_servers::{Postgres, PostgresOptions};

use super::server::{TestSchema, everything};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/postgres/tls").join(name)
}

/// Starts a server that accepts only encrypted connections, with a certificate for `localhost`.
fn encrypted_server() -> Postgres {
    let server = Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap();
    let data = server.folder().join("data");
    give_certificate(&server, "server.pem", "server.key");
    let hba = "hostssl all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
    let conf = data.join("postgresql.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, format!("{text}\nssl = on\n")).unwrap();
    server.restart().unwrap();
    server
}

fn give_certificate(server: &Postgres, certificate: &str, key: &str) {
    let data = server.folder().join("data");
    let owner = std::fs::metadata(&data).unwrap();
    for (from, to) in [(certificate, "server.crt"), (key, "server.key")] {
        let to = data.join(to);
        std::fs::copy(fixture(from), &to).unwrap();
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
        chown(&to, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}

async fn open(uri: &str) -> Result<(), ErrorKind> {
    match PostgresSessionService::connect(uri).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let password = uri.split([':', '@']).nth(2).unwrap();
            assert!(!everything(&error).contains(password), "{error:?}");
            Err(error.kind())
        }
    }
}

#[tokio::test]
async fn each_mode_checks_what_it_says() {
    let server = encrypted_server();
    let by_address = server.uri();
    let by_name = by_address.replacen("127.0.0.1", "localhost", 1);
    let (right, wrong) = (fixture("authority.pem"), fixture("other_authority.pem"));
    let root = |uri: &str, mode: &str, file: &Path| format!("{uri}?sslmode={mode}&sslrootcert={}", file.display());
    let refused = Err(ErrorKind::FailedPrecondition);
    assert_eq!(open(&format!("{by_address}?sslmode=disable")).await, refused);
    for mode in ["prefer", "require"] {
        assert_eq!(open(&format!("{by_address}?sslmode={mode}")).await, Ok(()), "{mode}");
    }
    assert_eq!(open(&by_address).await, Ok(()), "the mode that holds unless another is given");
    assert_eq!(open(&root(&by_name, "verify-full", &right)).await, Ok(()));
    assert_eq!(open(&root(&by_address, "verify-full", &right)).await, refused, "not the host's name");
    assert_eq!(open(&root(&by_address, "verify-ca", &right)).await, Ok(()));
    for mode in ["verify-full", "verify-ca", "require"] {
        assert_eq!(open(&root(&by_name, mode, &wrong)).await, refused, "{mode}: not its authority");
    }
    assert_eq!(open(&format!("{by_name}?sslmode=verify-full")).await, refused, "no authority of the system's");
    assert_eq!(open(&root(&by_name, "verify-full", Path::new("/nowhere.pem"))).await, refused);
}

#[tokio::test]
async fn a_server_without_encryption_is_refused_where_it_is_required() {
    let schema = TestSchema::new();
    for mode in ["require", "verify-ca", "verify-full"] {
        let uri = schema.uri(&format!("&sslmode={mode}&sslrootcert={}", fixture("authority.pem").display()));
        assert_eq!(open(&uri).await, Err(ErrorKind::FailedPrecondition), "{mode}");
    }
    assert_eq!(open(&schema.uri("&sslmode=prefer")).await, Ok(()));
}

/// The certificates that `openssl x509 -req` and `openssl req -x509` make, which webpki refuses and libpq accepts.
#[tokio::test]
async fn certificates_of_version_1_and_authorities_of_their_own_are_accepted_as_by_libpq() {
    let server = encrypted_server();
    let uri = server.uri().replacen("127.0.0.1", "localhost", 1);
    let authority = fixture("openssl_authority.pem");
    let rooted = |mode: &str, root: &Path| format!("{uri}?sslmode={mode}&sslrootcert={}", root.display());
    let no_name = |error: scratchbook::Error| {
        let text = error.to_string();
        assert!(text.contains("subjectAltName=DNS:localhost") && text.contains("sslmode=verify-ca"), "{text}");
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    };
    for (certificate, protocol) in
        [("version_1.pem", "TLSv1.3"), ("version_1.pem", "TLSv1.2"), ("name_in_cn.pem", "TLSv1.3")]
    {
        give_certificate(&server, certificate, "openssl.key");
        let conf = server.folder().join("data/postgresql.conf");
        let text = std::fs::read_to_string(&conf).unwrap();
        std::fs::write(&conf, format!("{text}\nssl_max_protocol_version = '{protocol}'\n")).unwrap();
        server.restart().unwrap();
        for good in [
            uri.clone(),
            format!("{uri}?sslmode=prefer"),
            format!("{uri}?sslmode=require"),
            rooted("require", &authority),
            rooted("verify-ca", &authority),
        ] {
            assert_eq!(open(&good).await, Ok(()), "{certificate} {protocol} {good}");
        }
        let other = rooted("verify-ca", &fixture("other_authority.pem"));
        assert_eq!(open(&other).await, Err(ErrorKind::FailedPrecondition), "{certificate} {protocol}");
        no_name(PostgresSessionService::connect(&rooted("verify-full", &authority)).await.unwrap_err());
    }
    give_certificate(&server, "own_authority.pem", "openssl.key");
    server.restart().unwrap();
    let own = fixture("own_authority.pem");
    for mode in ["require", "verify-ca", "verify-full"] {
        assert_eq!(open(&rooted(mode, &own)).await, Ok(()), "{mode}");
        assert_eq!(open(&rooted(mode, &authority)).await, Err(ErrorKind::FailedPrecondition), "{mode}");
    }
    let elsewhere = rooted("verify-full", &own).replacen("localhost", "127.0.0.1", 1);
    let error = PostgresSessionService::connect(&elsewhere).await.unwrap_err().to_string();
    assert!(error.contains("another name") && error.contains("localhost"), "{error}");
}

//! One server for a whole process, or the one that the environment names.

use std::thread;

use crate::client::psql;

#[test]
fn all_of_a_process_share_one_postgres() {
    let uris =
        [0; 4].map(|_| thread::spawn(|| scratchbook_test_servers::postgres().unwrap())).map(|t| t.join().unwrap());
    assert!(uris.iter().all(|uri| *uri == uris[0]), "{uris:?}");
    assert_eq!(psql(&uris[0], "select 1").unwrap(), "1");
}

#[test]
fn all_of_a_process_share_one_mariadb() {
    let uris = [0; 4].map(|_| thread::spawn(|| scratchbook_test_servers::mysql().unwrap())).map(|t| t.join().unwrap());
    assert!(uris.iter().all(|uri| *uri == uris[0]), "{uris:?}");
    assert!(uris[0].starts_with("mysql"), "{uris:?}");
}

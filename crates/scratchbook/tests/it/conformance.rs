//! One test for every promise and every store.

use std::path::Path;

use scratchbook::conformance::{PROMISES, all};

for_each_store!(scratchbook::conformance::conformance_tests);

/// Promises are tested only for the capabilities that a store reports, so this checks that stores report all of them.
mod capabilities {
    macro_rules! all_are_there {
        ($store:ident, $open:path) => {
            mod $store {
                #[tokio::test]
                async fn all_are_there() {
                    let (store, _guard) = $open().await;
                    assert_eq!(store.sessions.capabilities(), scratchbook::session::Capabilities::all());
                }
            }
        };
    }

    for_each_store!(all_are_there);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_promises_are_kept_on_one_store() {
    let (store, ()) = crate::stores::memory().await;
    all(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_are_kept_side_by_side_on_one_store() {
    let (store, ()) = crate::stores::memory().await;
    let open = PROMISES.iter().filter(|promise| promise.theme != "closing");
    let tasks: tokio::task::JoinSet<_> = open.map(|promise| (promise.run)(store.clone())).collect();
    tasks.join_all().await;
}

/// Functions of the suite that test whole stores, or several stores that share a database.
const NO_PROMISES: [&str; 2] = ["all", "many_writers_are_followed"];

#[test]
fn every_promise_is_in_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scratchbook-conformance/src");
    let mut written = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let theme = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
        written.extend(names.filter(|name| !NO_PROMISES.contains(name)).map(|name| (theme.clone(), name.to_owned())));
    }
    let mut listed: Vec<_> = PROMISES.iter().map(|p| (p.theme.to_owned(), p.name.to_owned())).collect();
    written.sort();
    listed.sort();
    assert_eq!(written, listed, "written, and listed in promises.rs");
}

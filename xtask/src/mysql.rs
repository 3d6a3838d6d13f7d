//! Unpacks a MySQL server in the target folder, for the tests that start one.
//!
//! Debian has MySQL in its unstable suite only. apt fetches the packages with all that they depend on, from the Debian
//! mirror in the machine's own sources, and checks the signature with the machine's keyring. It works in a folder of
//! its own, so the machine's packages and lists of packages stay as they are, and this needs no rights.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{output, program, root, run};
use crate::step::Stop;

/// The modules whose tests need MySQL.
const MODULES: [&str; 2] = ["mysql", "own_mysql"];

const PACKAGES: [&str; 2] = ["mysql-server-core", "mysql-client-core"];

/// Unpacks every package below one folder into another. Only scripts need Perl.
const UNPACK: &str = r#"for package in "$1"/cache/archives/*.deb; do
    case ${package##*/} in *perl*) ;; *) dpkg -x "$package" "$2" || exit ;; esac
done"#;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Returns the modules whose tests are not run if there is no MySQL.
pub(crate) fn missing() -> Vec<&'static str> {
    if is_there() { Vec::new() } else { MODULES.into() }
}

fn is_there() -> bool {
    root().join("target/mysql/usr/sbin/mysqld").is_file()
}

/// Unpacks MySQL if it is not there. Where it cannot be had, prints a line: no distribution but Debian has these
/// packages, so this is no failure.
pub(crate) fn ensure() {
    if is_there() {
        return;
    }
    if let Err(Stop::Failed(why) | Stop::LeftOut(why)) = unpack() {
        println!("MySQL is left out, and the tests in modules named {} are not run: {why}", MODULES.join(" or "));
    }
}

fn unpack() -> Result<(), Stop> {
    let mirror = mirror()?;
    let folder = root().join("target/mysql-unpacked");
    let failed = |error: std::io::Error| Stop::Failed(format!("{}: {error}", folder.display()));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    let apt = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(part)).map_err(failed)?;
    }
    fs::write(apt.join("sources.list"), format!("deb [signed-by={KEYRING}] {mirror} sid main\n")).map_err(failed)?;
    // No package counts as installed, so that apt also fetches the C library.
    fs::write(apt.join("status"), "").map_err(failed)?;
    run(apt_get(&apt).arg("update"))?;
    run(apt_get(&apt).args(["install", "--download-only", "--no-install-recommends", "--yes"]).args(PACKAGES))?;
    run(program("sh").args(["-c", UNPACK, "sh"]).args([&apt, &folder]))?;
    fs::remove_dir_all(&apt).map_err(failed)?;
    fs::rename(&folder, root().join("target/mysql")).map_err(failed)
}

/// Returns the address of the Debian mirror in the machine's sources.
fn mirror() -> Result<String, Stop> {
    if !Path::new(KEYRING).is_file() {
        return Err(Stop::LeftOut(format!("there is no {KEYRING}")));
    }
    let listed = output(program("apt-get").args(["update", "--print-uris"]))?;
    mirror_in(&listed).ok_or_else(|| Stop::LeftOut("apt's sources have no Debian mirror".to_owned()))
}

/// Finds the mirror in what `apt-get update --print-uris` prints: `'MIRROR/debian/dists/SUITE/InRelease' FILE SIZE`.
fn mirror_in(listed: &str) -> Option<String> {
    listed.lines().find_map(|line| {
        let (mirror, _) = line.strip_prefix('\'')?.split_once("/dists/")?;
        mirror.ends_with("/debian").then(|| mirror.to_owned())
    })
}

/// Returns a call of `apt-get` that reads and writes only below this folder, besides the machine's own options.
fn apt_get(apt: &Path) -> Command {
    let mut command = program("apt-get");
    command.arg("--quiet=2");
    let place = apt.display();
    for option in [
        format!("Dir::Etc::sourcelist={place}/sources.list"),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        "Dir::Etc::preferences=/dev/null".to_owned(),
        "Dir::Etc::preferencesparts=/dev/null".to_owned(),
        format!("Dir::State={place}"),
        format!("Dir::State::lists={place}/lists"),
        format!("Dir::State::status={place}/status"),
        format!("Dir::Cache={place}/cache"),
        // The user that apt would otherwise change to may not write here.
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::http::Timeout=30".to_owned(),
    ] {
        command.args(["-o", &option]);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::mirror_in;

    #[test]
    fn the_mirror_is_the_address_of_debian_and_of_nobody_else() {
        let listed = "Reading package lists...\n\
            'https://packages.example/apt/dists/stable/InRelease' a 0 \n\
            'http://mirror.example/debian-security/dists/trixie-security/InRelease' b 0 \n\
            'http://mirror.example/debian/dists/trixie/InRelease' c 0 \n";
        assert_eq!(mirror_in(listed).as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(mirror_in("'http://archive.example/ubuntu/dists/noble/InRelease' a 0"), None);
    }
}

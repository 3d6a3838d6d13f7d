//! Names of hosts in headers, and whether they mean this machine.

use std::net::IpAddr;

/// Returns whether a host, with or without a port, means this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let name = bare(host);
    name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// Returns a host in lower case, without its port and the trailing dot. A text of another form is returned whole, so
/// that `127.0.0.1:80.evil.example` is not mistaken for this machine.
pub(super) fn bare(host: &str) -> String {
    without_port(host).to_lowercase().trim_end_matches('.').to_owned()
}

fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((address, "")) => address,
            Some((address, port)) if port.strip_prefix(':').is_some_and(is_port) => address,
            _ => host,
        };
    }
    match host.split_once(':') {
        Some((name, port)) if is_port(port) => name,
        // More than one colon means an IPv6 address.
        _ => host,
    }
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_this_machine() {
        let own = ["localhost", "LOCALHOST:80", "localhost.", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:80", "::1"];
        let others = ["", "evil.example", "127.0.0.1.evil.example", "127.0.0.1:80.evil.example", "[::1", "[::1]x"];
        for host in own {
            assert!(is_loopback(host), "{host}");
        }
        for host in others.into_iter().chain(["localhost:", "[::1]:x", "10.0.0.1", "0.0.0.0", "::"]) {
            assert!(!is_loopback(host), "{host}");
        }
    }
}

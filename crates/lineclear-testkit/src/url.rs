//! Parts of a `postgres://user@host:port/database?options` URL, exchanged as text.

use std::net::SocketAddr;

/// The same server, another database.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let (scheme, _, authority, options) = split(url);
    format!("{scheme}://{authority}/{database}{options}")
}

/// The same database and user, at another address.
pub(crate) fn with_address(url: &str, address: SocketAddr) -> String {
    let (scheme, database, authority, options) = split(url);
    let user = authority.rfind('@').map_or("", |at| &authority[..=at]);
    format!("{scheme}://{user}{address}/{database}{options}")
}

/// The server's address, with the usual port if none is given.
pub(crate) fn host_and_port(url: &str) -> String {
    let (_, _, authority, _) = split(url);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    // The colons in a bracketed IPv6 address do not separate a port.
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let usual = if url.starts_with("mysql") { 3306 } else { 5432 };
    if has_port { host.to_owned() } else { format!("{host}:{usual}") }
}

/// Scheme, database, `user@host:port`, and the options with their question mark.
fn split(url: &str) -> (&str, &str, &str, &str) {
    let Some((scheme, rest)) = url.split_once("://") else {
        panic!("a database URL begins with postgres://, this one does not: {url}")
    };
    let (rest, options) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    (scheme, database, authority, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_exchanged_and_the_rest_stays() {
        assert_eq!(with_database("postgres://u:p@h:5/a?x=/y", "b"), "postgres://u:p@h:5/b?x=/y");
        assert_eq!(with_database("postgresql://h", "b"), "postgresql://h/b");
    }

    #[test]
    fn the_port_is_found_or_assumed() {
        assert_eq!(host_and_port("postgres://u:p@h:5/a"), "h:5");
        assert_eq!(host_and_port("postgres://h"), "h:5432");
        assert_eq!(host_and_port("postgres://u@[::1]/a"), "[::1]:5432");
    }

    #[test]
    fn the_address_is_exchanged_and_the_rest_stays() {
        let address = "127.0.0.1:9".parse().unwrap();
        assert_eq!(with_address("postgres://u:p@h:5/a?x=y", address), "postgres://u:p@127.0.0.1:9/a?x=y");
        assert_eq!(with_address("postgres://h/a", address), "postgres://127.0.0.1:9/a");
    }
}

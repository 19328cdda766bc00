//! Who runs a command, as far as the system says. For the record; nobody is let in by it.

use std::os::unix::fs::MetadataExt;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The name of whoever it is, be they behind `sudo`.
pub(crate) fn person() -> String {
    let says = |name: &&str| std::env::var(name).ok().filter(|user| !user.is_empty());
    let user = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(says);
    // In a container and in a unit of systemd there may be none of these.
    let user = user.or_else(of_process).filter(|user| user.len() <= NAME_BYTES_MAX);
    user.unwrap_or_else(|| "somebody".to_owned())
}

/// The same, as the audit has it.
pub(crate) fn cli_person() -> String {
    format!("cli:{}", person())
}

/// The owner of this process.
fn of_process() -> Option<String> {
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(name_of(&uid, &users).unwrap_or_else(|| format!("uid-{uid}")))
}

fn name_of(uid: &str, users: &str) -> Option<String> {
    let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.find_map(|user| (user.get(2) == Some(&uid)).then(|| user[0].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_process_is_found_among_the_users() {
        let users = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nodd line\n";
        assert_eq!(name_of("1000", users).as_deref(), Some("ada"));
        assert_eq!(name_of("7", users), None);
        assert!(of_process().is_some_and(|name| !name.is_empty()));
    }
}

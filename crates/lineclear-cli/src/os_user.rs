//! The operating system's user that runs the command, for the audit log. It grants no rights.

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The user's name; behind `sudo`, that of the user who called it.
pub(crate) fn os_user() -> String {
    let variable = |name: &&str| std::env::var(name).ok().filter(|user| !user.is_empty());
    let user = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(variable);
    // Containers and systemd units may set none of these.
    let user = user.or_else(process_owner).filter(|user| user.len() <= NAME_BYTES_MAX);
    user.unwrap_or_else(|| "unknown".to_owned())
}

/// The name that the audit log records.
pub(crate) fn audit_name() -> String {
    format!("cli:{}", os_user())
}

fn process_owner() -> Option<String> {
    let uid = rustix::process::geteuid().as_raw().to_string();
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
        assert!(process_owner().is_some_and(|name| !name.is_empty()));
    }
}

//! Secrets among the words of a command line: `--password hunter2`, `--token=t`, `PGPASSWORD=x`, `-H 'Authorization: …'`,
//! and the `-pSECRET` of mysql.

use super::{MASK, is_secret_name};

/// Reads the strings of an array, one after the other.
#[derive(Default)]
pub(super) struct Words {
    previous: String,
    /// A program was named to which `-pSECRET` gives a password.
    takes_p: bool,
    /// `curl` was named, to which `-u user:password` gives one.
    takes_u: bool,
}

impl Words {
    /// The next word with dots in place of its secret; `None`: it has none.
    pub(super) fn next(&mut self, word: &str) -> Option<String> {
        let shown = self.masked(word).filter(|shown| shown != word);
        let program = word.rsplit('/').next().unwrap_or(word);
        self.takes_p |=
            program.starts_with("mysql") || program.starts_with("mariadb") || program == "sshpass";
        self.takes_u |= program == "curl";
        word.clone_into(&mut self.previous);
        shown
    }

    fn masked(&self, word: &str) -> Option<String> {
        let assigned = word.split_once('=').filter(|(name, value)| is_name(name) && !value.is_empty());
        if let Some((name, _)) = assigned.filter(|(name, _)| is_secret_name(name)) {
            return Some(format!("{name}={MASK}"));
        }
        let previous = self.previous.as_str();
        let is_flag = previous.starts_with('-') && !previous.contains('=');
        if is_flag && is_secret_name(previous) && !word.is_empty() && !word.starts_with("--") {
            return Some(MASK.to_owned());
        }
        let header = match previous {
            "-H" | "--header" => Some(word),
            _ => word.strip_prefix("-H"),
        };
        let named = header.and_then(|header| header.split_once(':'));
        if named.is_some_and(|(name, _)| is_secret_name(name)) {
            let from = word.find(':').unwrap_or(word.len());
            return Some(format!("{}: {MASK}", &word[..from]));
        }
        if self.takes_u && matches!(previous, "-u" | "--user" | "-U" | "--proxy-user") {
            let user = word.split_once(':').filter(|(_, password)| !password.is_empty());
            return user.map(|(user, _)| format!("{user}:{MASK}"));
        }
        match word.strip_prefix("-p") {
            Some(password) if self.takes_p && !password.is_empty() => Some(format!("-p{MASK}")),
            _ if self.takes_p && previous == "-p" => Some(MASK.to_owned()),
            _ => None,
        }
    }
}

/// The name of an option or a variable.
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether a word has dots in place of its secret.
pub(super) fn has_dots(word: &str) -> bool {
    let Some(before) = word.strip_suffix(MASK) else { return false };
    let header = before.strip_suffix(": ").map(|name| name.strip_prefix("-H").unwrap_or(name));
    before == "-p"
        || before.strip_suffix(['=', ':']).is_some_and(|name| !name.is_empty() && is_name(name))
        || header.is_some_and(|name| is_name(name) && is_secret_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> Vec<String> {
        let mut reader = Words::default();
        words.iter().map(|word| reader.next(word).unwrap_or_else(|| (*word).to_owned())).collect()
    }

    #[test]
    fn secrets_of_a_command_line_become_dots() {
        for (words, expected) in [
            (&["/bin/x", "--password", "hunter2", "y"][..], &["/bin/x", "--password", "•••", "y"][..]),
            (&["/bin/x", "--password=hunter2"], &["/bin/x", "--password=•••"]),
            (&["x", "--api-key", "k", "--token=t=u"], &["x", "--api-key", "•••", "--token=•••"]),
            (&["env", "PGPASSWORD=x", "psql"], &["env", "PGPASSWORD=•••", "psql"]),
            (&["/usr/bin/mysqldump", "-uroot", "-phunter2"], &["/usr/bin/mysqldump", "-uroot", "-p•••"]),
            (&["sudo", "mariadb", "-phunter2"], &["sudo", "mariadb", "-p•••"]),
            (&["sshpass", "-p", "hunter2", "ssh"], &["sshpass", "-p", "•••", "ssh"]),
            (
                &["curl", "-u", "ann:pw", "-H", "X-Api-Key: k"],
                &["curl", "-u", "ann:•••", "-H", "X-Api-Key: •••"],
            ),
            (&["curl", "-HAuthorization: Bearer t"], &["curl", "-HAuthorization: •••"]),
        ] {
            assert_eq!(shown(words), expected);
            assert_eq!(shown(expected), expected, "masked twice is masked once");
        }
    }

    #[test]
    fn other_words_stay() {
        for words in [
            &["/bin/x", "-p8080", "-p", "22", "--port=1"][..],
            &["x", "--password", "--verbose"],
            &["x", "--password="],
            &["x", "-u", "ann:pw"],
            &["x", "-H", "Accept: text/plain"],
            &["x", "https://h/?n=1", "a=b", "monkey=1"],
        ] {
            assert_eq!(shown(words), words);
        }
    }

    #[test]
    fn dots_that_come_back_are_known() {
        for word in
            ["--password=•••", "PGPASSWORD=•••", "-p•••", "ann:•••", "X-Api-Key: •••", "-HAuthorization: •••"]
        {
            assert!(has_dots(word), "{word}");
        }
        for word in ["see •••", "note: •••", "•••", "a = •••", "--password=x"] {
            assert!(!has_dots(word), "{word}");
        }
    }
}

//! Checks of SQLite.

use super::super::{Check, CheckName, a_few};

/// Free disk space below which a check warns.
const ROOM_BYTES: u64 = 256 * 1024 * 1024;

/// Network file systems, by their magic numbers in Linux. Locks and shared memory do not work across machines.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];
/// Any file system in user space, such as sshfs.
const FUSE: u64 = 0x6573_5546;

/// Facts about the database file.
#[derive(Clone, Debug)]
pub struct FileFacts {
    /// Its path.
    pub path: String,
    /// It uses a write-ahead log, according to the version numbers in its header.
    pub wal: bool,
    /// The magic number of its file system.
    pub file_system: Option<u64>,
    /// This process may write to it.
    pub writable: bool,
    /// Free bytes on its file system.
    pub room: Option<u64>,
}

/// Whether the file uses a write-ahead log, so that readers and writers do not block each other.
pub fn journal(facts: &FileFacts) -> Check {
    match facts.wal {
        true => Check::ok(CheckName::Journal, "the file uses a write-ahead log (WAL)"),
        false => Check::warning(
            CheckName::Journal,
            "the file does not use a write-ahead log (WAL): readers and writers wait for each other",
            "a node sets it when it opens the file; if it stays so, the file system cannot share memory: move the file to a local disk:",
        )
        .with_sql("PRAGMA journal_mode = WAL;"),
    }
}

/// Whether the file is on this machine, and has room to grow.
pub fn file_system(facts: &FileFacts) -> Check {
    let name = CheckName::FileSystem;
    let number = facts.file_system.unwrap_or(0);
    if let Some((_, word)) = NETWORK.iter().find(|(known, _)| *known == number) {
        let message = format!("{} is on {word}, a network file system: SQLite loses data there", facts.path);
        return Check::failure(
            name,
            message,
            "move it to a local disk; for more than one machine use PostgreSQL: --db postgres://…",
        );
    }
    if facts.room.is_some_and(|room| room < ROOM_BYTES) {
        let message =
            format!("only {} MB are left where {} is", facts.room.unwrap_or(0) / 1_000_000, facts.path);
        return Check::warning(name, message, "make room, or keep history for a shorter time");
    }
    if !facts.writable {
        let message =
            format!("{} cannot be written by this user; a server of this user could not work", facts.path);
        let remedy =
            format!("does another user run the server? otherwise: ls -l {}; chown or chmod it", facts.path);
        return Check::warning(name, message, remedy);
    }
    if number == FUSE {
        let message = format!("{} is on a FUSE file system, which may be remote", facts.path);
        return Check::warning(name, message, "if it is (sshfs, s3fs): move it to a local disk");
    }
    let room = facts.room.map(|room| format!(", with {} MB left", room / 1_000_000)).unwrap_or_default();
    Check::ok(name, format!("{} is on a local disk{room}", facts.path))
}

/// `exposed` are the files that users other than the owner can read or write: the database, its log, and copies beside it.
pub fn permissions(path: &str, exposed: &[String]) -> Check {
    let name = CheckName::Permissions;
    if exposed.is_empty() {
        return Check::ok(name, format!("only its owner can read {path}"));
    }
    let message =
        format!("other users of this machine can read {}, and so all inputs and outputs", a_few(exposed));
    let words: Vec<String> = exposed.iter().map(|path| shell_word(path)).collect();
    Check::warning(name, message, format!("chmod 600 {}", words.join(" ")))
}

/// A word that a shell takes as it is: another user may have chosen the name of a file.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-+".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// `said` is the answer of SQLite's quick check; `None`: the file is too large for it.
pub fn integrity(path: &str, said: Option<&str>) -> Check {
    let name = CheckName::Integrity;
    match said {
        None => Check::skipped(
            name,
            format!("{path} is too large to be checked here; sqlite3 {path} 'PRAGMA quick_check'"),
        ),
        Some("ok") => Check::ok(name, "the file is intact (quick_check)"),
        Some(other) => Check::failure(
            name,
            format!("the file is damaged: {other}"),
            format!(
                "stop the nodes, keep a copy, and restore a backup; or save what can be read: sqlite3 {path} .recover"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Finding;
    use super::*;

    #[test]
    fn a_file_that_others_can_read_has_a_remedy_that_is_safe_to_paste() {
        assert_eq!(permissions("a.db", &[]).finding, Finding::Ok);
        let exposed = ["a.db".to_owned(), "a.db.$(id)'s copy".to_owned()];
        let check = permissions("a.db", &exposed);
        assert_eq!(check.finding, Finding::Warning);
        assert_eq!(check.remedy.as_deref(), Some(r"chmod 600 a.db 'a.db.$(id)'\''s copy'"));
    }

    #[test]
    fn a_file_of_another_machine_is_a_failure() {
        let facts = FileFacts {
            path: "x.db".to_owned(),
            wal: true,
            file_system: Some(0xef53),
            writable: true,
            room: Some(1 << 40),
        };
        assert_eq!(file_system(&facts).finding, Finding::Ok);
        let nfs = file_system(&FileFacts { file_system: Some(0x6969), ..facts.clone() });
        assert!(nfs.finding == Finding::Failure && nfs.message.contains("NFS"), "{nfs:?}");
        assert_eq!(
            file_system(&FileFacts { file_system: Some(FUSE), ..facts.clone() }).finding,
            Finding::Warning
        );
        let locked = file_system(&FileFacts { writable: false, ..facts.clone() });
        assert!(
            locked.finding == Finding::Warning && locked.message.contains("cannot be written"),
            "{locked:?}"
        );
        assert_eq!(file_system(&FileFacts { room: Some(1), ..facts.clone() }).finding, Finding::Warning);
        assert_eq!(
            file_system(&FileFacts { file_system: None, room: None, ..facts.clone() }).finding,
            Finding::Ok
        );
        assert_eq!(journal(&FileFacts { wal: false, ..facts }).finding, Finding::Warning);
    }

    #[test]
    fn a_damaged_file_is_a_failure_and_a_large_one_is_not_read() {
        assert_eq!(integrity("x", Some("ok")).finding, Finding::Ok);
        assert_eq!(integrity("x", Some("row 1 missing from index y")).finding, Finding::Failure);
        assert_eq!(integrity("x", None).finding, Finding::Skipped);
    }
}

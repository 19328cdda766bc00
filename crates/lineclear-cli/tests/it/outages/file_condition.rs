//! A SQLite file is locked by another process, read-only, or on a full disk.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::Node;
use crate::commands::serve::ask;

/// Runs a command of the system; false if it is not permitted here.
fn did(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// A small file system of its own, which goes with this.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where mounting is not permitted.
    fn mount() -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap().to_owned();
        did("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs", &path]).then_some(SmallDisk(dir))
    }

    /// Writes until there is no room, and returns the file.
    fn fill(&self) -> std::path::PathBuf {
        let path = self.0.path().join("filler");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        did("umount", &["-l", self.0.path().to_str().unwrap()]);
    }
}

/// A file that cannot be written until this is gone.
struct Immutable(String);

impl Immutable {
    /// `None` where that is not permitted, or the file system cannot do it.
    fn make(file: &str) -> Option<Immutable> {
        did("chattr", &["+i", file]).then(|| Immutable(file.to_owned()))
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        did("chattr", &["-i", &self.0]);
    }
}

fn in_folder(folder: &Path) -> String {
    folder.join("jobs.db").to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named_and_jobs_are_accepted_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        return eprintln!("skipped: this user may not mount a small file system");
    };
    let node = Node::start(&in_folder(disk.0.path())).await;
    let filler = disk.fill();
    node.expect_named("full", "has no disk space left", false).await;
    let large = format!(r#"{{"kind": "a", "input": "{}"}}"#, "x".repeat(200_000));
    let refused = ask(&node.address, "POST /api/v1/jobs", &large);
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    std::fs::remove_file(filler).unwrap();
    node.expect_healthy().await;
    assert!(ask(&node.address, "POST /api/v1/jobs", &large).starts_with("HTTP/1.1 201"));
    node.expect_lines("the database has no disk space left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_process_locks_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = in_folder(dir.path());
    let node = Node::start(&file).await;
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("begin immediate").unwrap();
    node.expect_named("locked", "is locked by another session", false).await;
    holder.execute_batch("rollback").unwrap();
    node.expect_healthy().await;
    node.expect_lines("the database is locked by another session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_became_read_only_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = in_folder(dir.path());
    let node = Node::start(&file).await;
    let Some(immutable) = Immutable::make(&file) else {
        return eprintln!("skipped: this user or file system cannot make a file immutable");
    };
    node.expect_named("read_only", "is read-only", false).await;
    drop(immutable);
    node.expect_healthy().await;
    node.expect_lines("the database is read-only");
}

//! The SQLite file: journal mode, file system, permissions and integrity. Reads the header without SQLite, which would change the file when it
//! opens it.

use std::io::Read;
use std::path::Path;

use lineclear_model::doctor::database::{self, FileFacts};
use lineclear_model::doctor::{Check, CheckName};

use crate::db::{Session, Verb};
use crate::error::{WriteBlock, no_answer};
use crate::operate::doctor::or_failure;
use crate::store::{Store, StoreError, StoreResult};

/// Files up to this size get an integrity check, which takes some tenths of a second.
const INTEGRITY_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Entries of the folder that are looked at, and files that are named.
const ENTRIES_MAX: usize = 10_000;
const EXPOSED_MAX: usize = 20;
/// The write and read versions in the header: 2 is WAL.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// SQLite's integrity check.
struct QuickCheck;

impl Verb for QuickCheck {
    type Answer = String;

    async fn run(&self, session: &mut Session) -> StoreResult<String> {
        let rows = session.query("pragma quick_check(1)").await?;
        rows.first().ok_or_else(|| no_answer("quick_check"))?.get("quick_check")
    }
}

impl Store {
    pub(crate) async fn file_checks(&self) -> Vec<Check> {
        let Some(path) = self.options.file().map(Path::to_path_buf) else { return Vec::new() };
        let facts = match facts(&path) {
            Ok(facts) => facts,
            Err(error) => {
                let error = StoreError::CannotWrite { block: WriteBlock::Storage, source: Box::new(error) };
                return vec![crate::operate::doctor::failed(CheckName::FileSystem, &error)];
            }
        };
        let size = std::fs::metadata(&path).map_or(u64::MAX, |found| found.len());
        let integrity = match size <= INTEGRITY_BYTES_MAX {
            true => {
                self.db.read(QuickCheck).await.map(|result| database::integrity(&facts.path, Some(&result)))
            }
            false => Ok(database::integrity(&facts.path, None)),
        };
        let integrity = match integrity {
            // The file is too damaged to be checked.
            Err(StoreError::Corrupt { what }) => database::integrity(&facts.path, Some(&what)),
            other => or_failure(CheckName::Integrity, other),
        };
        let permissions = database::permissions(&facts.path, &self.exposed_files());
        vec![database::journal(&facts), database::file_system(&facts), permissions, integrity]
    }

    /// The SQLite file, its log, and copies beside it (`lineclear.db.bak`) that users other than the owner can read or write.
    pub fn exposed_files(&self) -> Vec<String> {
        self.options.file().map(exposed_files).unwrap_or_default()
    }
}

#[cfg(unix)]
fn exposed_files(path: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let is_ours = |entry: &std::fs::DirEntry| {
        let rest = entry.file_name().to_string_lossy().strip_prefix(name.as_str()).map(str::to_owned);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', '~']))
    };
    let is_exposed = |entry: &std::fs::DirEntry| {
        let found = std::fs::metadata(entry.path());
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o066 != 0)
    };
    let exposed = entries.take(ENTRIES_MAX).filter(|entry| is_ours(entry) && is_exposed(entry));
    let mut paths: Vec<String> = exposed
        .map(|entry| folder.map_or_else(|| entry.file_name().into(), |_| entry.path()).display().to_string())
        .take(EXPOSED_MAX)
        .collect();
    paths.sort();
    paths
}

#[cfg(not(unix))]
fn exposed_files(_: &Path) -> Vec<String> {
    Vec::new()
}

fn facts(path: &Path) -> std::io::Result<FileFacts> {
    let mut header = Vec::new();
    std::fs::File::open(path)?.take(VERSIONS.end as u64).read_to_end(&mut header)?;
    // An empty file gets WAL with its first table.
    let wal = header.is_empty() || header.get(VERSIONS) == Some(&[2, 2]);
    let (file_system, room) = file_system(path);
    // Opening a file without writing to it changes nothing.
    let writable = std::fs::OpenOptions::new().write(true).open(path).is_ok();
    Ok(FileFacts { path: path.display().to_string(), wal, file_system, writable, room })
}

/// Free bytes on the file system of a file, if they are known.
pub(crate) fn room(path: &Path) -> Option<u64> {
    file_system(path).1
}

/// Why a file that is open cannot be written: its file system or the file itself became read-only. Permissions are checked only when it is
/// opened.
#[cfg(target_os = "linux")]
pub(crate) fn read_only(path: &Path) -> Option<&'static str> {
    match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
        Err(rustix::io::Errno::ROFS) => Some("its file system is mounted read-only"),
        Err(rustix::io::Errno::PERM) => Some("the file is immutable"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn read_only(_: &Path) -> Option<&'static str> {
    None
}

#[cfg(target_os = "linux")]
fn file_system(path: &Path) -> (Option<u64>, Option<u64>) {
    let Ok(found) = rustix::fs::statfs(path) else { return (None, None) };
    let number = found.f_type as u64 & 0xffff_ffff;
    let size = u64::try_from(found.f_bsize).unwrap_or(0);
    (Some(number), Some(found.f_bavail.saturating_mul(size)))
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> (Option<u64>, Option<u64>) {
    (None, None)
}

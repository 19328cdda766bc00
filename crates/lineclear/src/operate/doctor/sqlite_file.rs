//! The file of a SQLite: how it writes, where it is, whether it is whole. Read beside SQLite, which would change it by opening it.

use std::io::Read;
use std::path::Path;

use lineclear_model::doctor::database::{self, FileFacts};
use lineclear_model::doctor::{Check, CheckName};

use crate::db::{Session, Verb};
use crate::error::no_answer;
use crate::operate::doctor::or_failure;
use crate::store::{Store, StoreError, StoreResult};

/// A file up to here is read whole, to see that it is: some tenths of a second.
const WHOLE_BYTES: u64 = 32 * 1024 * 1024;
/// Where the header says how the file is written and read: 2 is ahead of it.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// SQLite looks through its file.
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
                let error = StoreError::CannotWrite { source: Box::new(error) };
                return vec![crate::operate::doctor::failed(CheckName::FileSystem, &error)];
            }
        };
        let size = std::fs::metadata(&path).map_or(u64::MAX, |found| found.len());
        let integrity = match size <= WHOLE_BYTES {
            true => self.db.read(QuickCheck).await.map(|said| database::integrity(&facts.path, Some(&said))),
            false => Ok(database::integrity(&facts.path, None)),
        };
        let integrity = match integrity {
            // It is so broken that it cannot even be checked.
            Err(StoreError::Corrupt { what }) => database::integrity(&facts.path, Some(&what)),
            other => or_failure(CheckName::Integrity, other),
        };
        vec![database::journal(&facts), database::file_system(&facts), integrity]
    }
}

fn facts(path: &Path) -> std::io::Result<FileFacts> {
    let mut header = Vec::new();
    std::fs::File::open(path)?.take(VERSIONS.end as u64).read_to_end(&mut header)?;
    // An empty file becomes one that writes ahead with its first table.
    let wal = header.is_empty() || header.get(VERSIONS) == Some(&[2, 2]);
    let (file_system, room) = place(path);
    // Opened and not written to: that changes nothing.
    let writable = std::fs::OpenOptions::new().write(true).open(path).is_ok();
    Ok(FileFacts { path: path.display().to_string(), wal, file_system, writable, room })
}

#[cfg(target_os = "linux")]
fn place(path: &Path) -> (Option<u64>, Option<u64>) {
    let Ok(found) = rustix::fs::statfs(path) else { return (None, None) };
    let number = found.f_type as u64 & 0xffff_ffff;
    let size = u64::try_from(found.f_bsize).unwrap_or(0);
    (Some(number), Some(found.f_bavail.saturating_mul(size)))
}

#[cfg(not(target_os = "linux"))]
fn place(_: &Path) -> (Option<u64>, Option<u64>) {
    (None, None)
}

//! Where it is measured: the same server or disk, and nobody's jobs.

use lineclear::{Store, StoreOptions};
use tempfile::TempDir;

use crate::failure::Failure;

/// A bench whose node was heard of so lately may still be at work.
const LATELY_MICROS: i64 = 60_000_000;

pub(crate) struct Bed {
    pub(crate) options: StoreOptions,
    pub(crate) store: Store,
    /// The file's folder; gone with the bed.
    _dir: Option<TempDir>,
}

impl Bed {
    /// A store of its own beside the one that `options` names.
    pub(crate) async fn make(options: &StoreOptions) -> Result<Bed, Failure> {
        let (options, dir) = match options.is_postgres() {
            true => (options.clone().for_bench(), None),
            false => {
                let (options, dir) = beside(options)?;
                (options, Some(dir))
            }
        };
        let options = options.connections(8);
        if options.is_postgres() {
            clear(&options).await?;
        }
        let store = Store::open(options.clone()).await?;
        Ok(Bed { options, store, _dir: dir })
    }

    pub(crate) async fn remove(self) -> Result<(), Failure> {
        if self.options.is_postgres() {
            self.store.drop_bench().await?;
        }
        Ok(())
    }
}

/// A new file on the same disk.
fn beside(options: &StoreOptions) -> Result<(StoreOptions, TempDir), Failure> {
    let folder = options
        .file()
        .map(|file| file.parent().unwrap_or(file).to_owned())
        .unwrap_or_else(std::env::temp_dir);
    let folder = if folder.as_os_str().is_empty() { ".".into() } else { folder };
    let cannot = |why: String| Failure::failed(format!("cannot make a file in {}: {why}", folder.display()));
    let dir = tempfile::Builder::new().prefix(".lineclear-bench-").tempdir_in(&folder);
    let dir = dir.map_err(|error| cannot(error.to_string()))?;
    let file = dir.path().join("bench.db");
    let file = file.to_str().ok_or_else(|| cannot("its name is not UTF-8".to_owned()))?;
    Ok((StoreOptions::new(file)?, dir))
}

/// Removes what a bench left that was killed.
async fn clear(options: &StoreOptions) -> Result<(), Failure> {
    let store = Store::open(options.clone().connections(1).migrate(false)).await?;
    if store.migration_status().await?.applied == 0 {
        return Ok(store.drop_bench().await?);
    }
    let is_at_work =
        store.nodes(100).await?.iter().any(|node| node.now.get() - node.seen_at.get() < LATELY_MICROS);
    if is_at_work {
        return Err(Failure::coded(5, "somebody measures in this database at the moment")
            .hint("wait until it is over; what a killed one left is cleared away after a minute"));
    }
    Ok(store.drop_bench().await?)
}

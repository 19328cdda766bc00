//! Where it is measured: the same server or disk, and nobody's jobs.

use std::time::Duration;

use lineclear::{Store, StoreOptions};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::failure::Failure;

/// How often it says that it is at work.
const SAID: Duration = Duration::from_secs(10);

pub(crate) struct Bed {
    pub(crate) options: StoreOptions,
    pub(crate) store: Store,
    /// Says that it is in use.
    keeper: Option<JoinHandle<()>>,
    /// The file's folder; gone with the bed.
    _dir: Option<TempDir>,
}

impl Bed {
    /// A store of its own beside the one that `options` names.
    pub(crate) async fn make(options: &StoreOptions) -> Result<Bed, Failure> {
        if options.is_postgres() && *options.schema() == *options.clone().for_bench().schema() {
            return Err(Failure::usage(format!(
                "schema={} is where bench works, and no place for your jobs",
                options.schema()
            ))
            .hint("leave it out of --db, or name the schema of your jobs"));
        }
        let (options, dir) = match options.is_postgres() {
            true => (options.clone().for_bench(), None),
            false => {
                let (options, dir) = beside(options)?;
                (options, Some(dir))
            }
        };
        let options = options.connections(8);
        let store = Store::open(options.clone().migrate(false)).await?;
        if options.is_postgres() {
            store.make_bench().await?;
        }
        let keeper = options.is_postgres().then(|| keep(store.clone()));
        let bed = Bed { options, store, keeper, _dir: dir };
        match bed.store.migrate().await {
            Ok(_) => Ok(bed),
            Err(error) => {
                bed.remove().await?;
                Err(error.into())
            }
        }
    }

    pub(crate) async fn remove(self) -> Result<(), Failure> {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
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

fn keep(store: Store) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SAID).await;
            // What cannot be said now is said the next time.
            let _ = store.keep_bench().await;
        }
    })
}

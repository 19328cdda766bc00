//! A scratch database on the same server or disk, without your jobs.

use std::time::Duration;

use lineclear::{Store, StoreOptions};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::failure::Failure;

/// How often the schema is marked as in use.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);

pub(crate) struct ScratchDb {
    pub(crate) options: StoreOptions,
    pub(crate) store: Store,
    /// Marks the schema as in use.
    heartbeat: Option<JoinHandle<()>>,
    /// The folder of the SQLite file, removed on drop.
    _dir: Option<TempDir>,
}

impl ScratchDb {
    /// Creates a store beside the one that `options` names.
    pub(crate) async fn create(options: &StoreOptions) -> Result<ScratchDb, Failure> {
        if options.is_postgres() && *options.schema() == *options.clone().for_bench().schema() {
            return Err(Failure::usage(format!(
                "schema={} is the scratch schema of bench and must not hold your jobs",
                options.schema()
            ))
            .hint("remove it from --db, or name the schema of your jobs"));
        }
        let (options, dir) = match options.is_postgres() {
            true => (options.clone().for_bench(), None),
            false => {
                let (options, dir) = create_file_beside(options)?;
                (options, Some(dir))
            }
        };
        let options = options.connections(8);
        let store = Store::open(options.clone().migrate(false)).await?;
        if options.is_postgres() {
            store.make_bench().await?;
        }
        let heartbeat = options.is_postgres().then(|| mark_in_use(store.clone()));
        let db = ScratchDb { options, store, heartbeat, _dir: dir };
        match db.store.migrate().await {
            Ok(_) => Ok(db),
            Err(error) => {
                db.remove().await?;
                Err(error.into())
            }
        }
    }

    pub(crate) async fn remove(self) -> Result<(), Failure> {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.abort();
        }
        if self.options.is_postgres() {
            self.store.drop_bench().await?;
        }
        Ok(())
    }
}

/// Creates a file on the same disk.
fn create_file_beside(options: &StoreOptions) -> Result<(StoreOptions, TempDir), Failure> {
    let folder = options
        .file()
        .map(|file| file.parent().unwrap_or(file).to_owned())
        .unwrap_or_else(std::env::temp_dir);
    let folder = if folder.as_os_str().is_empty() { ".".into() } else { folder };
    let cannot =
        |why: String| Failure::failed(format!("cannot create a file in {}: {why}", folder.display()));
    let dir = tempfile::Builder::new().prefix(".lineclear-bench-").tempdir_in(&folder);
    let dir = dir.map_err(|error| cannot(error.to_string()))?;
    let file = dir.path().join("bench.db");
    let file = file.to_str().ok_or_else(|| cannot("its name is not UTF-8".to_owned()))?;
    Ok((StoreOptions::new(file)?, dir))
}

fn mark_in_use(store: Store) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(HEARTBEAT_EVERY).await;
            // A failure is made up for by the next mark.
            let _ = store.keep_bench().await;
        }
    })
}

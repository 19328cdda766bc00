//! A server with its node and its database, and waiting for a condition.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineclear::model::{Backoff, ExecutionOutcome, JobState, Name, Scopes};
use lineclear::node::Builder;
use lineclear::read::JobDetail;
use lineclear::store::{JobId, NewToken, StoreOptions};
use lineclear::{KindOptions, Lineclear, Node, NodeOptions, Store};
use lineclear_http::{HttpOptions, Server};
use lineclear_testkit::{PostgresDatabase, Template};
use lineclear_worker::{PullWorker, WorkerError};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Runs each scenario on both databases.
macro_rules! on_each_store {
    ($(async fn $name:ident($place:ident) $body:block)+) => { $(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn scenario($place: &$crate::kit::Place) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                scenario(&$crate::kit::Place::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                scenario(&$crate::kit::Place::postgres().await).await;
            }
        }
    )+ };
}

/// A database for one test.
pub(crate) struct Place {
    pub(crate) url: String,
    _database: Option<PostgresDatabase>,
    _folder: Option<TempDir>,
}

impl Place {
    pub(crate) async fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        template().sqlite(&file, async |path: PathBuf| migrate(path.to_str().unwrap()).await).await;
        Place { url: file.to_str().unwrap().to_owned(), _database: None, _folder: Some(folder) }
    }

    pub(crate) async fn postgres() -> Place {
        let database = template().postgres(async |url: String| migrate(&url).await).await;
        Place { url: database.url().to_owned(), _database: Some(database), _folder: None }
    }
}

fn template() -> Template {
    Template::of_folder("lineclear", concat!(env!("CARGO_MANIFEST_DIR"), "/../lineclear/migrations"))
}

async fn migrate(url: &str) {
    Store::open(StoreOptions::new(url).unwrap()).await.unwrap();
}

/// Retries at once.
pub(crate) fn impatient(retries: u32) -> KindOptions {
    let backoff = Backoff { delay: Duration::from_millis(1), ..Backoff::default() };
    KindOptions { retry: backoff.policy(retries), ..KindOptions::default() }
}

/// A node and its server.
pub(crate) struct Served {
    pub(crate) node: Node,
    pub(crate) address: SocketAddr,
    stop: Arc<Notify>,
    serving: JoinHandle<()>,
}

impl Served {
    /// A server whose workers pull the kind `work`, with leases of this length.
    pub(crate) async fn start(place: &Place, lease: Duration) -> Served {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        Served::start_at(place, lease, free, |builder| {
            builder.submit_to_with("pull", "work", impatient(5)).submit_to_with(
                "pull",
                "thumbnail",
                impatient(5),
            )
        })
        .await
    }

    pub(crate) async fn start_at(
        place: &Place,
        lease: Duration,
        bind: SocketAddr,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Served {
        Served::start_with(place, lease, HttpOptions { bind, ..HttpOptions::default() }, change).await
    }

    pub(crate) async fn start_with(
        place: &Place,
        lease: Duration,
        http: HttpOptions,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Served {
        let quick = Duration::from_millis(100);
        let options = NodeOptions {
            poll: quick,
            heartbeat: Duration::from_millis(250),
            lease,
            renewal: lease / 4,
            shutdown_grace: quick,
            ..NodeOptions::default()
        };
        let node = change(Lineclear::builder().store(&place.url).options(options)).start().await.unwrap();
        let server = Server::bind(http, node.client(), None).await.unwrap();
        let (address, stop) = (server.address(), Arc::new(Notify::new()));
        let stopped = stop.clone();
        let serving =
            tokio::spawn(async move { drop(server.run(async move { stopped.notified().await }).await) });
        Served { node, address, stop, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn enqueue(&self, kind: &str, input: impl serde::Serialize) -> JobId {
        self.node.enqueue(kind, &input).await.unwrap().id
    }

    pub(crate) async fn job(&self, job: JobId) -> JobDetail {
        self.node.store().job(job).await.unwrap().unwrap()
    }

    /// Waits until the job is in this state, and returns it.
    pub(crate) async fn until(&self, job: JobId, state: JobState) -> JobDetail {
        let deadline = Instant::now() + LONG;
        loop {
            let detail = self.job(job).await;
            if detail.job.state == state {
                return detail;
            }
            assert!(Instant::now() < deadline, "it is never {state:?}: {detail:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A new token for workers.
    pub(crate) async fn token(&self, name: &str, kinds: Option<&[&str]>) -> String {
        let kinds = kinds.map(|kinds| kinds.iter().map(|kind| Name::new(*kind).unwrap()).collect());
        let scopes = Scopes::parse("worker").unwrap();
        let name = Name::new(name).unwrap();
        let token = NewToken { name, scopes, kinds, lives: None, created_by: "a test".to_owned() };
        self.node.store().create_token(token).await.unwrap().1.expose().to_owned()
    }

    pub(crate) async fn stop(self) {
        self.stop.notify_one();
        drop(self.serving.await);
        self.node.stop().await;
    }
}

/// A pull worker that runs until it is stopped.
pub(crate) struct Pulling {
    stop: Arc<Notify>,
    running: JoinHandle<Result<(), WorkerError>>,
}

impl Pulling {
    pub(crate) fn start(worker: PullWorker) -> Pulling {
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let running = tokio::spawn(worker.run_until(async move { stopped.notified().await }));
        Pulling { stop, running }
    }

    pub(crate) async fn stop(self) -> Result<(), WorkerError> {
        self.stop.notify_one();
        self.ended().await
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(self) -> Result<(), WorkerError> {
        tokio::time::timeout(LONG, self.running).await.expect("it ends").unwrap()
    }
}

pub(crate) async fn until(what: &str, is: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn outcomes(detail: &JobDetail) -> Vec<ExecutionOutcome> {
    detail.executions.iter().map(|execution| execution.outcome).collect()
}

/// Counts calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<AtomicU32>);

impl Calls {
    pub(crate) fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Cargo builds examples beside tests: `target/debug/examples`, one folder up from `target/debug/deps`.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

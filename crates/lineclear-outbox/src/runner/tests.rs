//! Exchanges whose answers are late or lost.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear_lock::{Fence, LockError, LockOptions, Locks, Singleton, Term};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::deliver;
use crate::error::OutboxError;
use crate::events::Mark;
use crate::inspect::{Counts, MessageState, MessageView};
use crate::options::OutboxOptions;
use crate::sqlite::SqliteStore;
use crate::store::{BatchRequest, Fetched, Kept, Store, StoreFuture};
use crate::{Delivery, DeliveryError, Message, Outbox};

const SOON: Duration = Duration::from_secs(30);

/// What happens to the answer of an exchange.
enum Fate {
    Comes,
    /// It was committed, and the runner does not learn that.
    Lost,
    /// It comes when the token is cancelled.
    Late(CancellationToken),
}

type Decide = dyn Fn(&BatchRequest, &[Fetched]) -> Fate + Send + Sync;

/// A store in a file, and what happens to its answers.
struct Faulty {
    inner: SqliteStore,
    decide: Box<Decide>,
    is_away: AtomicBool,
    refused: AtomicU32,
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

impl Faulty {
    fn check(&self) -> Result<(), OutboxError> {
        if !self.is_away.load(Ordering::SeqCst) {
            return Ok(());
        }
        // The fence of the lock may be what could not be asked.
        match self.refused.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => Err(OutboxError::unavailable("on purpose")),
            _ => Err(OutboxError::Lock(LockError::unavailable("on purpose"))),
        }
    }
}

impl Store for Faulty {
    fn prepare(&self) -> StoreFuture<'_, ()> {
        self.inner.prepare()
    }
    fn exists(&self) -> StoreFuture<'_, bool> {
        self.inner.exists()
    }
    fn names(&self, most: i64) -> StoreFuture<'_, Vec<String>> {
        self.inner.names(most)
    }
    fn waits<'a>(&'a self, outbox: &'a str, low: i64) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            self.check()?;
            self.inner.waits(outbox, low).await
        })
    }
    fn settle_and_fetch<'a>(
        &'a self,
        fence: &'a Fence,
        request: &'a BatchRequest,
    ) -> StoreFuture<'a, Option<Vec<Fetched>>> {
        Box::pin(async move {
            self.check()?;
            let answer = self.inner.settle_and_fetch(fence, request).await?;
            match (self.decide)(request, answer.as_deref().unwrap_or_default()) {
                Fate::Comes => {}
                Fate::Lost => return Err(OutboxError::unavailable("on purpose")),
                Fate::Late(comes) => comes.cancelled().await,
            }
            Ok(answer)
        })
    }
    fn complete<'a>(
        &'a self,
        request: &'a BatchRequest,
        drawn: [i64; 2],
        mark: &'a mut Mark,
    ) -> StoreFuture<'a, i64> {
        self.inner.complete(request, drawn, mark)
    }
    fn clean<'a>(&'a self, outbox: &'a str, kept: Kept) -> StoreFuture<'a, u64> {
        self.inner.clean(outbox, kept)
    }
    fn counts<'a>(&'a self, outbox: &'a str, most: i64) -> StoreFuture<'a, Counts> {
        self.inner.counts(outbox, most)
    }
    fn list<'a>(
        &'a self,
        outbox: &'a str,
        state: MessageState,
        before: Option<i64>,
        most: i64,
    ) -> StoreFuture<'a, Vec<MessageView>> {
        self.inner.list(outbox, state, before, most)
    }
    fn show(&self, id: i64) -> StoreFuture<'_, Option<MessageView>> {
        self.inner.show(id)
    }
    fn dead_ids<'a>(&'a self, outbox: &'a str, after: i64, most: i64) -> StoreFuture<'a, Vec<i64>> {
        self.inner.dead_ids(outbox, after, most)
    }
    fn replay<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        self.inner.replay(outbox, ids)
    }
    fn discard<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        self.inner.discard(outbox, ids)
    }
}

struct Place {
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Place {
    async fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        Outbox::open(file.to_str().unwrap()).await.unwrap();
        Place { file, _folder: folder }
    }

    fn store(
        &self,
        decide: impl Fn(&BatchRequest, &[Fetched]) -> Fate + Send + Sync + 'static,
    ) -> Arc<Faulty> {
        let inner = SqliteStore::new(&self.file);
        let (is_away, refused) = (AtomicBool::new(false), AtomicU32::new(0));
        Arc::new(Faulty { inner, decide: Box::new(decide), is_away, refused })
    }

    /// Starts a runner, and waits for its term.
    async fn run<F>(
        &self,
        store: Arc<Faulty>,
        options: OutboxOptions,
        sink: impl Fn(Delivery) -> F + Send + Sync + 'static,
    ) -> Running
    where
        F: Future<Output = Result<(), DeliveryError>> + Send + 'static,
    {
        let url: Arc<str> = Arc::from(self.file.to_str().unwrap());
        let outbox = Outbox { url, name: Arc::from("main"), store };
        let locks = Locks::open_with(&outbox.url, LockOptions::with_ttl(SOON)).await.unwrap();
        let (singleton, stop) = (Singleton::new(&locks, "outbox-main"), CancellationToken::new());
        let (begins, mut begun) = mpsc::unbounded_channel();
        let (reports, sink) = (singleton.clone(), Arc::new(sink));
        let work = move |term: Term| {
            begins.send(term.clone()).ok();
            deliver(outbox.clone(), options.clone(), sink.clone(), reports.clone(), term)
        };
        let stopping = stop.clone();
        let task = tokio::spawn(async move { singleton.run(&stopping, work).await.unwrap() });
        let term = tokio::time::timeout(SOON, begun.recv()).await.unwrap().unwrap();
        Running { stop, task, term }
    }

    /// Messages of a key, with these numbers.
    fn write(&self, key: Option<&str>, numbers: std::ops::Range<i64>) {
        write(&self.file, key, numbers);
    }

    fn left(&self) -> i64 {
        connect(&self.file)
            .query_row("select count(*) from lineclear_outbox_message", [], |row| row.get(0))
            .unwrap()
    }
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    term: Term,
}

impl Running {
    /// Tells it to stop, and returns when it knows.
    async fn told_to_stop(self) -> JoinHandle<()> {
        self.stop.cancel();
        self.term.ending().cancelled().await;
        self.task
    }

    async fn stop(self) {
        soon(self.told_to_stop().await).await.unwrap();
    }
}

fn connect(file: &std::path::Path) -> Connection {
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(SOON).unwrap();
    connection
}

fn write(file: &std::path::Path, key: Option<&str>, numbers: std::ops::Range<i64>) {
    let message = |number: i64| {
        let message = Message::new("n", &number).unwrap();
        key.map(|key| message.clone().key(key)).unwrap_or(message)
    };
    let messages: Vec<Message> = numbers.map(message).collect();
    let store = Arc::new(SqliteStore::new(file));
    let outbox = Outbox { url: Arc::from(""), name: Arc::from("main"), store };
    let mut connection = connect(file);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    outbox.write_sqlite(&transaction, &messages).unwrap();
    transaction.commit().unwrap();
}

fn options() -> OutboxOptions {
    OutboxOptions { poll_interval: Duration::from_millis(20), ..OutboxOptions::default() }
}

fn number(delivery: &Delivery) -> i64 {
    delivery.payload().unwrap()
}

async fn soon<T>(waits: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, waits).await.expect("it happens soon")
}

async fn until(holds: impl Fn() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_with_an_answer_that_is_lost_is_not_passed_by_its_key() {
    let place = Place::new().await;
    place.write(Some("a"), 1..3);
    let (file, is_lost) = (place.file.clone(), AtomicBool::new(false));
    let store = place.store(move |_, fetched| {
        let reads_again = fetched.iter().any(|fetched| fetched.delivery.attempt == 2);
        if !reads_again || is_lost.swap(true, Ordering::SeqCst) {
            return Fate::Comes;
        }
        // The first two are ready again, and the runner does not know. A third one comes before it asks again.
        write(&file, Some("a"), 3..4);
        Fate::Lost
    });
    let got = Arc::new(Mutex::new(Vec::new()));
    let noted = got.clone();
    let running = place
        .run(store, options(), move |delivery| {
            let number = number(&delivery);
            noted.lock().unwrap().push(number);
            let fails = number == 1 && delivery.attempt == 1;
            let answer =
                if fails { Err(DeliveryError::retry_in("busy", Duration::from_millis(50))) } else { Ok(()) };
            std::future::ready(answer)
        })
        .await;
    until(|| got.lock().unwrap().len() >= 4).await;
    running.stop().await;
    assert_eq!(*got.lock().unwrap(), [1, 1, 2, 3]);
    assert_eq!(place.left(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_stops_begins_nothing_that_an_exchange_reads_and_records_what_arrives() {
    let place = Place::new().await;
    place.write(None, 0..10);
    let (comes, is_late) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let store = place.store({
        let (comes, is_late) = (comes.clone(), is_late.clone());
        move |request, fetched| {
            if request.settlement.is_empty() || is_late.swap(true, Ordering::SeqCst) {
                return Fate::Comes;
            }
            assert_eq!(fetched.len(), 2, "it reads further messages");
            Fate::Late(comes.clone())
        }
    });
    let (begun, arrive) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
    let sink = {
        let (begun, arrive) = (begun.clone(), arrive.clone());
        move |_| {
            begun.fetch_add(1, Ordering::SeqCst);
            let arrive = arrive.clone();
            async move {
                arrive.acquire().await.unwrap().forget();
                Ok(())
            }
        }
    };
    let running = place.run(store, OutboxOptions { window: 4, concurrency: 4, ..options() }, sink).await;
    until(|| begun.load(Ordering::SeqCst) == 4).await;
    arrive.add_permits(2);
    until(|| is_late.load(Ordering::SeqCst)).await;
    let stopped = running.told_to_stop().await;
    comes.cancel();
    arrive.add_permits(1);
    until(|| place.left() == 7).await;
    assert!(!stopped.is_finished(), "one is still on its way, and the others are recorded");
    arrive.add_permits(10);
    soon(stopped).await.unwrap();
    assert_eq!((begun.load(Ordering::SeqCst), place.left()), (4, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_for_a_moment_ends_no_delivery_that_is_on_its_way() {
    let place = Place::new().await;
    place.write(None, 1..2);
    let store = place.store(|_, _| Fate::Comes);
    let (got, arrive) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
    let sink = {
        let (got, arrive) = (got.clone(), arrive.clone());
        move |delivery: Delivery| {
            let (got, arrive) = (got.clone(), arrive.clone());
            async move {
                got.lock().unwrap().push(number(&delivery));
                if number(&delivery) == 1 {
                    arrive.acquire().await.unwrap().forget();
                }
                Ok(())
            }
        }
    };
    let running = place.run(store.clone(), options(), sink).await;
    until(|| got.lock().unwrap().len() == 1).await;
    store.is_away.store(true, Ordering::SeqCst);
    until(|| store.refused.load(Ordering::SeqCst) >= 4).await;
    store.is_away.store(false, Ordering::SeqCst);
    place.write(None, 2..3);
    until(|| got.lock().unwrap().len() == 2).await;
    arrive.add_permits(1);
    until(|| place.left() == 0).await;
    running.stop().await;
    assert_eq!(*got.lock().unwrap(), [1, 2], "each was sent once");
}

/// Nanoseconds that this thread has worked.
fn worked() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The runner, and nothing else, is on the thread of the test.
#[tokio::test]
async fn a_runner_that_waits_for_its_database_does_not_spin() {
    let place = Place::new().await;
    place.write(None, 0..2);
    let (comes, is_late) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let store = place.store({
        let (comes, is_late) = (comes.clone(), is_late.clone());
        move |request, _| match request.settlement.is_empty() || is_late.swap(true, Ordering::SeqCst) {
            true => Fate::Comes,
            false => Fate::Late(comes.clone()),
        }
    });
    let arrive = Arc::new(Semaphore::new(1));
    let arrives = arrive.clone();
    let sink = move |_| {
        let arrive = arrives.clone();
        async move {
            arrive.acquire().await.unwrap().forget();
            Ok(())
        }
    };
    let running = place.run(store, options(), sink).await;
    until(|| is_late.load(Ordering::SeqCst)).await;
    let before = worked();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let worked = Duration::from_nanos(worked() - before);
    assert!(worked < Duration::from_millis(100), "{worked:?} of a second");
    comes.cancel();
    arrive.add_permits(10);
    running.stop().await;
}

//! Many writers at once, whose transactions stay open for a while and commit out of order.

use std::sync::Arc;
use std::time::Duration;

use lineclear_outbox::{EventLog, NewEvent, Subscription, Swap};
use tokio::task::JoinSet;

use super::kit::{ANY, Projection, caught_up, event, log, quick};
use crate::kit::{SOON, TestStore, connect_postgres, until, until_within};

const WRITERS: i64 = 16;
/// Streams that all writers share, beside one of their own.
const SHARED: i64 = 4;

#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Of each writer.
    pub(crate) transactions: i64,
    /// Of each transaction.
    pub(crate) events: i64,
    /// How long transactions stay open after they appended, at most.
    pub(crate) open_ms: u64,
}

impl Load {
    fn stream(writer: i64, transaction: i64) -> String {
        match transaction % 3 {
            0 => format!("shared-{}", (writer + transaction) % SHARED),
            _ => format!("own-{writer}"),
        }
    }

    fn numbers(self, writer: i64, transaction: i64) -> Vec<NewEvent> {
        let first = (writer * self.transactions + transaction) * self.events;
        (first..first + self.events).map(event).collect()
    }

    /// Of ten transactions, one is rolled back.
    fn commits(writer: i64, transaction: i64) -> bool {
        (writer + transaction) % 10 != 9
    }

    /// Other lengths in another order for each writer.
    fn open(self, writer: i64, transaction: i64) -> Duration {
        let dice = u64::try_from(writer * 7_919 + transaction * 104_729).unwrap();
        Duration::from_millis(dice % (self.open_ms + 1))
    }

    fn committed(self) -> i64 {
        let all = (0..WRITERS).flat_map(|writer| (0..self.transactions).map(move |number| (writer, number)));
        let commits = all.filter(|(writer, number)| Load::commits(*writer, *number)).count();
        i64::try_from(commits).unwrap() * self.events
    }
}

async fn write_postgres(db: Arc<str>, log: EventLog, load: Load, writer: i64) {
    let mut client = connect_postgres(&db).await;
    for number in 0..load.transactions {
        let transaction = client.transaction().await.unwrap();
        let (stream, events) = (Load::stream(writer, number), load.numbers(writer, number));
        log.append_postgres(&transaction, &stream, ANY, &events).await.unwrap();
        tokio::time::sleep(load.open(writer, number)).await;
        if Load::commits(writer, number) {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
    }
}

fn write_sqlite(path: &str, log: &EventLog, load: Load, writer: i64) {
    let mut file = rusqlite::Connection::open(path).unwrap();
    file.busy_timeout(Duration::from_secs(120)).unwrap();
    for number in 0..load.transactions {
        let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let (stream, events) = (Load::stream(writer, number), load.numbers(writer, number));
        log.append_sqlite(&transaction, &stream, ANY, &events).unwrap();
        // One writer at a time: all others wait for it.
        std::thread::sleep(load.open(writer, number) / 16);
        if Load::commits(writer, number) {
            transaction.commit().unwrap();
        }
    }
}

fn start_writers(db: &TestStore, log: &EventLog, load: Load) -> JoinSet<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (log, url) = (log.clone(), Arc::<str>::from(&*db.url));
        if let Some(path) = db.url.strip_prefix("sqlite:") {
            let path = path.to_owned();
            writers.spawn_blocking(move || write_sqlite(&path, &log, load, writer));
        } else {
            writers.spawn(write_postgres(url, log, load, writer));
        }
    }
    writers
}

/// Each committed event has its effect in this version, once and in order.
async fn check(db: &TestStore, version: i32, committed: i64) {
    let table = format!("effect_{version}");
    assert_eq!(db.number("select count(*) from {t}event").await, committed);
    assert_eq!(db.number(&format!("select count(*) from {table}")).await, committed, "each is handled");
    let missing = format!(
        "select count(*) from {{t}}event e where not exists (select 1 from {table} f where f.position = e.position)"
    );
    assert_eq!(db.number(&missing).await, 0);
    let back = format!(
        "select count(*) from (select position - lag(position) over (order by id) as step from {table}) s where step <= 0"
    );
    assert_eq!(db.number(&back).await, 0, "in the order of the log");
    let versions = format!(
        "select count(*) from (select e.version - lag(e.version) over (partition by e.stream order by f.id) as step
         from {table} f join {{t}}event e on e.position = f.position) s where step <> 1"
    );
    assert_eq!(db.number(&versions).await, 0, "in the order of each stream, without gaps");
}

/// Writers write while subscriptions read: each committed event is handled once, and in order.
pub(crate) async fn writers_lose_nothing(db: &TestStore, load: Load, limit: Duration) {
    let (log, projection, outside) = (log(db).await, Projection::default(), Projection::default());
    let mut running: Vec<Subscription> = vec![projection.subscribe(&log, db, "orders", quick()).await];
    running.push(log.subscribe_with("mailer", quick(), outside.external()).await.unwrap());
    let mut writers = start_writers(db, &log, load);
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    for name in ["orders", "mailer"] {
        until_within(limit, name, async || log.wait_until_caught_up(name, Duration::ZERO).await.unwrap())
            .await;
    }
    for subscription in running {
        subscription.stop().await.unwrap();
    }
    let committed = load.committed();
    check(db, 1, committed).await;
    let positions: Vec<i64> = outside.got().iter().map(|event| event.position).collect();
    assert!(positions.is_sorted_by(|one, other| one < other), "once and in order without a transaction, too");
    assert_eq!(i64::try_from(positions.len()).unwrap(), committed);
}

pub(crate) async fn writers_at_once_lose_nothing_in_a_subscription(db: &TestStore) {
    let load = Load { transactions: 20, events: 4, open_ms: 15 };
    writers_lose_nothing(db, load, SOON).await;
}

/// The log never comes to rest, and yet the rebuild takes the place of the active version, with everything.
pub(crate) async fn a_rebuild_during_live_writes_is_whole(db: &TestStore) {
    let load = Load { transactions: 40, events: 2, open_ms: 15 };
    let (log, projection) = (log(db).await, Projection::default());
    let running = projection.subscribe(&log, db, "orders", quick()).await;
    let mut writers = start_writers(db, &log, load);
    until("some are handled", async || log.show("orders").await.unwrap().unwrap().handled > 50).await;
    log.rebuild("orders", Swap::WhenCaughtUp).await.unwrap();
    until("it is the active one", async || log.show("orders").await.unwrap().unwrap().version == 2).await;
    println!("{} of {WRITERS} writers were still at work", writers.len());
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    caught_up(&log, "orders").await;
    check(db, 2, load.committed()).await;
    assert_eq!(projection.swaps(), [(1, 2)]);
    running.stop().await.unwrap();
}

//! Nodes that are killed and frozen while they deliver.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lineclear_outbox::{Counts, Message, MessageState, inbox};
use lineclear_testkit::{Child, Program};

use crate::kit::{TestStore, until_within};

const TTL_MS: &str = "1000";
const CONCURRENCY: usize = 32;
/// Enough for one freeze and two kills.
const SHORT: Duration = Duration::from_secs(11);

pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name)
}

struct Cluster<'a> {
    db: &'a TestStore,
    folder: tempfile::TempDir,
    nodes: Vec<Child>,
    /// How long a receiver takes for each message.
    pause_ms: &'static str,
}

impl Cluster<'_> {
    fn starts(&self) -> PathBuf {
        self.folder.path().join("starts")
    }

    fn start(&self) -> Child {
        let starts = self.starts().display().to_string();
        Program::at(example("outbox_node"))
            .args([self.db.url.as_str(), TTL_MS, &starts, self.pause_ms])
            .start()
            .unwrap()
    }

    /// The node that runs, as it says itself.
    fn runner(&self) -> Option<usize> {
        let runs = |node: &Child| node.stdout().last().is_some_and(|line| line.starts_with("running"));
        self.nodes.iter().position(runs)
    }
}

/// Messages over 100 keys; the runner is killed again and again, and frozen once.
pub(crate) async fn nodes_that_are_killed_and_frozen_lose_and_repeat_nothing(
    db: &TestStore,
    messages: i64,
    kill_for: Duration,
) {
    let outbox = db.outbox().await;
    let (auto, inbox_table) = if db.url.starts_with("sqlite") {
        ("id integer primary key autoincrement", inbox::SCHEMA_SQLITE)
    } else if db.url.starts_with("mysql") {
        ("id bigint auto_increment primary key", inbox::SCHEMA_MYSQL)
    } else {
        ("id bigint generated always as identity primary key", inbox::SCHEMA_POSTGRES)
    };
    for table in ["effect", "again"] {
        db.sql(&format!("create table {table} ({auto}, k varchar(20) not null, n bigint not null)")).await;
    }
    db.sql(inbox_table).await;
    for part in 0..messages / 1_000 {
        let numbers = part * 1_000..(part + 1) * 1_000;
        let written: Vec<Message> =
            numbers.map(|n| Message::new("n", &n).unwrap().key(format!("k{}", n % 100))).collect();
        db.write(&outbox, &written, true).await.unwrap();
    }

    let pause_ms = if kill_for > SHORT { "0" } else { "150" };
    let mut cluster = Cluster { db, folder: tempfile::tempdir().unwrap(), nodes: Vec::new(), pause_ms };
    for _ in 0..3 {
        cluster.nodes.push(cluster.start());
    }
    let began = Instant::now();
    let (mut kills, mut frozen) = (0, None);
    while began.elapsed() < kill_for {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let Some(at) = cluster.runner() else { continue };
        if frozen.is_none() {
            // Past its lease. Another node takes over; then it goes on, and must notice.
            cluster.nodes[at].pause().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            cluster.nodes[at].resume().unwrap();
            frozen = Some(cluster.nodes[at].id());
            continue;
        }
        cluster.nodes.remove(at).kill().unwrap();
        kills += 1;
        cluster.nodes.push(cluster.start());
    }
    assert!(
        kills >= 2 && frozen.is_some(),
        "{kills} kills, frozen {frozen:?}: {:?}",
        cluster.nodes.iter().map(|node| (node.stdout(), node.stderr())).collect::<Vec<_>>()
    );
    until_within(Duration::from_secs(180), "all is delivered", async || {
        let mut all = vec![outbox.clone()];
        all.extend(outbox.partitions().await.unwrap());
        for one in all {
            if one.counts().await.unwrap() != Counts::default() {
                return false;
            }
        }
        true
    })
    .await;

    assert_eq!(db.number("select count(*) from effect").await, messages, "each has its effect, once");
    let out_of_order =
        "select count(*) from effect a join effect b on b.k = a.k and b.n = a.n + 100 where b.id < a.id";
    assert_eq!(db.number(out_of_order).await, 0);
    assert!(outbox.list(MessageState::Dead, None, 10).await.unwrap().is_empty(), "no kill was charged");
    let charged = "select count(*) from {t}outbox_delivered where attempts <> 1";
    assert_eq!(db.number(charged).await, 0);
    assert_eq!(
        db.number("select count(*) from {t}outbox_delivered").await,
        messages,
        "all of them were looked at"
    );

    // No runner began a message after its successor did. A process that is frozen just as it begins some is not to blame for these. Each
    // partition has runners of its own, which are told apart by their keys.
    let partitions = outbox.partitions().await.unwrap().len();
    let text = std::fs::read_to_string(cluster.starts()).unwrap();
    let mut starts: Vec<(u64, i64, u32, &str)> = text
        .lines()
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            let lock = if partitions > 0 { parts[3] } else { "" };
            (parts[0].parse().unwrap(), parts[1].parse().unwrap(), parts[2].parse().unwrap(), lock)
        })
        .collect();
    starts.sort_unstable();
    let (mut runners, mut highest, mut late) = (HashMap::new(), HashMap::new(), Vec::new());
    for start in starts {
        let runner = *runners.entry((start.3, start.1)).or_insert(start.2);
        assert_eq!(runner, start.2, "two processes have the number {} of a runner", start.1);
        let highest = highest.entry(start.3).or_insert(0);
        *highest = start.1.max(*highest);
        if start.1 < *highest {
            late.push(start);
        }
    }
    let on_their_way = CONCURRENCY * partitions.max(1);
    assert!(late.len() <= on_their_way && late.iter().all(|(_, _, pid, _)| Some(*pid) == frozen), "{late:?}");
    let again = db.number("select count(*) from again").await;
    println!("{messages} messages, {kills} kills: {again} came again, {} began late", late.len());
    drop(cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nodes_on_sqlite() {
    nodes_that_are_killed_and_frozen_lose_and_repeat_nothing(&TestStore::sqlite(), 2_000, SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nodes_on_mysql() {
    nodes_that_are_killed_and_frozen_lose_and_repeat_nothing(&TestStore::mysql().await, 2_000, SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nodes_on_postgres() {
    nodes_that_are_killed_and_frozen_lose_and_repeat_nothing(&TestStore::postgres().await, 2_000, SHORT)
        .await;
}

/// The nodes share four partitions, and each takes over those of one that dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nodes_with_partitions() {
    let db = TestStore::postgres().await;
    db.outbox().await.partitioned(4).await.unwrap();
    nodes_that_are_killed_and_frozen_lose_and_repeat_nothing(&db, 6_000, SHORT).await;
}

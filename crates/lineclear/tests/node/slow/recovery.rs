//! How long nothing completes after a fault, with three nodes, a lease of five seconds, and jobs that keep coming.
//!
//! Once in the suite, with bounds that a busy machine keeps; `make recovery` repeats each fault and prints the medians beside those of the
//! study that the engine has to keep up with.

use std::time::{Duration, Instant};

use lineclear::Store;
use lineclear_testkit::{Child, PrivatePostgres, Program};
use tokio_util::sync::CancellationToken;

use crate::children::{LONG, count, end, sleep, store, up};
use crate::documents::readme::example;
use crate::kit::{TestStore, until_within};
use lineclear::model::JobState;

const NODES: usize = 3;
const LEASE_MS: &str = "5000";
/// How long completions are watched after a fault.
const WATCHED: Duration = Duration::from_secs(8);
/// The longest pause that a busy machine may show, beside the time without PostgreSQL; the lease is 5 s.
const BOUND: Duration = Duration::from_secs(7);
/// How long PostgreSQL is down, if it does not start again at once.
const DOWN: Duration = Duration::from_secs(13);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    LeaderKilled,
    AllKilled,
    Terminated,
    Frozen,
    BackendsEnded,
    PostgresRestarted,
    PostgresDown,
}

const FAULTS: [Fault; 8] = [
    Fault::Killed,
    Fault::LeaderKilled,
    Fault::AllKilled,
    Fault::Terminated,
    Fault::Frozen,
    Fault::BackendsEnded,
    Fault::PostgresRestarted,
    Fault::PostgresDown,
];

impl Fault {
    /// What the study measured on an idle machine: median and worst, in seconds.
    fn studied(self) -> &'static str {
        match self {
            Fault::Killed => "0.6/0.8",
            Fault::LeaderKilled => "0.5/0.5",
            Fault::AllKilled => "2.5/3.9",
            Fault::Terminated => "0.5/0.6",
            Fault::Frozen => "not measured",
            Fault::BackendsEnded => "0.4/0.5",
            Fault::PostgresRestarted => "1.1/1.1",
            Fault::PostgresDown => "13.5/16.4",
        }
    }

    fn bound(self) -> Duration {
        match self {
            Fault::PostgresDown => DOWN + BOUND,
            _ => BOUND,
        }
    }
}

fn node(db: &TestStore) -> Program {
    let roles = "planner,workers,cleaner";
    let program = Program::at(example("child")).args([db.url.as_str(), roles, LEASE_MS]);
    program.args(["slots=8", "heartbeat=500", "plan=200"])
}

async fn nodes(db: &TestStore, many: usize) -> Vec<Child> {
    up((0..many).map(|_| node(db))).await
}

/// Enqueues forty jobs a second until it is told to stop; returns how many.
async fn keep_enqueuing(store: Store, stop: CancellationToken) -> usize {
    let (mut accepted, mut pace) = (0, tokio::time::interval(Duration::from_millis(50)));
    while !stop.is_cancelled() {
        pace.tick().await;
        // A connection that was ended may cost an answer; what was not acknowledged does not count.
        accepted += store.enqueue_many(vec![sleep(20); 2]).await.map_or(0, |jobs| jobs.len());
    }
    accepted
}

/// The node that planned last, or the first.
async fn leader(db: &TestStore, children: &[Child]) -> usize {
    let sql = "select coalesce((select pid::bigint from {t}lock_lease where lock_name = 'planner'), 0)";
    let pid = db.number(sql).await;
    children.iter().position(|child| i64::from(child.id()) == pid).unwrap_or(0)
}

/// The longest time without a completion from a moment of the database's clock, in microseconds, until now.
async fn longest_pause(db: &TestStore, since: i64) -> Duration {
    let sql = format!(
        "select coalesce(max(at - before), 0)::bigint from (
             select at, lag(at, 1, {since}::bigint) over (order by at) as before from (
                 select (extract(epoch from finished_at) * 1000000)::bigint as at from {{t}}execution where outcome = 'completed'
                 union all select (extract(epoch from clock_timestamp()) * 1000000)::bigint) ended
             where at >= {since}) pauses"
    );
    Duration::from_micros(u64::try_from(db.number(&sql).await).unwrap_or(0))
}

/// Does harm, and returns how long nothing completed.
async fn pause_after(
    server: &mut PrivatePostgres,
    db: &TestStore,
    fault: Fault,
    children: &mut Vec<Child>,
) -> Duration {
    let now = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
    let since = db.number(now).await;
    let mut frozen = None;
    match fault {
        Fault::Killed => {
            children.remove(0).kill().unwrap();
        }
        Fault::LeaderKilled => {
            let leader = leader(db, children).await;
            children.remove(leader).kill().unwrap();
        }
        Fault::AllKilled => {
            for mut child in children.drain(..) {
                child.kill().unwrap();
            }
            *children = nodes(db, NODES).await;
        }
        Fault::Terminated => children[0].terminate().unwrap(),
        Fault::Frozen => {
            children[0].pause().await.unwrap();
            frozen = Some(0);
        }
        Fault::BackendsEnded => {
            let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                       where datname = current_database() and application_name like 'lineclear%' and pid <> pg_backend_pid()";
            assert!(db.number(sql).await > 0, "connections of nodes");
        }
        Fault::PostgresRestarted => {
            server.stop();
            server.start_again().await.unwrap();
        }
        Fault::PostgresDown => {
            server.stop();
            tokio::time::sleep(DOWN).await;
            server.start_again().await.unwrap();
        }
    }
    tokio::time::sleep(WATCHED).await;
    let pause = longest_pause(db, since).await;
    if let Some(frozen) = frozen {
        children[frozen].resume().unwrap();
    }
    if let Fault::Terminated = fault {
        assert!(children.remove(0).wait_for_exit(LONG).await.unwrap().success());
    }
    let missing = NODES - children.len();
    children.extend(nodes(db, missing).await);
    pause
}

fn rounds() -> usize {
    let asked = std::env::var("LINECLEAR_TEST_RECOVERY_ROUNDS").ok();
    asked.map_or(1, |rounds| rounds.parse().expect("a number of rounds"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_soon_after_each_fault_and_no_job_is_lost() {
    // Commits survive a stop; test servers do not ensure that by default.
    let mut server = PrivatePostgres::start(&["synchronous_commit=on"]).await.unwrap();
    let db = TestStore::at(server.url());
    let store = store(&db).await;
    let mut children = nodes(&db, NODES).await;
    let stop = CancellationToken::new();
    let caller = tokio::spawn(keep_enqueuing(store.clone(), stop.clone()));
    let completed = async || count(&store, JobState::Completed).await;
    until_within(LONG, "jobs complete", async || completed().await > 20).await;
    for fault in FAULTS {
        let mut pauses = Vec::new();
        for _ in 0..rounds() {
            pauses.push(pause_after(&mut server, &db, fault, &mut children).await);
        }
        pauses.sort();
        let (median, worst) = (pauses[pauses.len() / 2], pauses[pauses.len() - 1]);
        println!(
            "{fault:?}: nothing completed for {:.1}/{:.1} s, median/worst of {} (study: {})",
            median.as_secs_f64(),
            worst.as_secs_f64(),
            pauses.len(),
            fault.studied()
        );
        assert!(worst < fault.bound(), "{fault:?}: nothing completed for {worst:?}");
    }
    stop.cancel();
    let accepted = caller.await.unwrap();
    let begun = Instant::now();
    until_within(LONG, "all are completed", async || completed().await >= accepted).await;
    println!("{accepted} jobs, the last of them {:.1?} after the end", begun.elapsed());
    let twice = "select count(*) from (select job_id from {t}execution where final group by job_id having count(*) > 1) twice";
    assert_eq!(db.number(twice).await, 0, "each ended once");
    assert_eq!(db.number("select count(*) from {t}dead_letter").await, 0);
    end(children).await;
}

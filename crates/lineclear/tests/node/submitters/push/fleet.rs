//! Three workers of which one hangs, one fails at random, and one is killed.

use std::time::{Duration, Instant};

use lineclear::model::{ExecutionOutcome, JobState};
use lineclear::store::JobId;
use lineclear::submitters::HttpPush;
use lineclear::{Input, Lineclear, Node, State};
use lineclear_testkit::{Child, Program};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{LONG, detail, outcomes};
use crate::documents::readme::example;
use crate::impatient;
use crate::kit::{TestStore, quick, until_within};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const JOBS: usize = 200;
/// How long a call to the worker that hangs takes.
const TIMEOUT: Duration = Duration::from_millis(1_500);
/// All of it; one job after the other would take much longer.
const BOUND: Duration = Duration::from_secs(90);
/// Jobs of another kind whose latency is measured.
const PROBES: usize = 40;
/// What a busy machine adds to their latency.
const NOISE: Duration = Duration::from_millis(100);

async fn worker(behaviour: &[&str]) -> (Child, String) {
    let child = Program::at(example("push_worker")).args([SECRET]).args(behaviour).start().unwrap();
    let line = child.wait_for_line("is up at", LONG).await.unwrap();
    let url = line.split("is up at ").nth(1).unwrap().to_owned();
    (child, url)
}

type Started = UnboundedSender<(usize, Instant)>;

async fn probe(Input(n): Input<usize>, started: State<Started>) {
    started.send((n, Instant::now())).ok();
}

/// The time from enqueue to the handler that nine of ten jobs do not exceed.
async fn latency(node: &Node, started: &mut UnboundedReceiver<(usize, Instant)>) -> Duration {
    let mut all = Vec::new();
    for n in 0..PROBES {
        let begun_at = Instant::now();
        node.enqueue("probe", &n).await.unwrap();
        let (probe, at) =
            tokio::time::timeout(LONG, started.recv()).await.expect("it starts").expect("a probe");
        assert_eq!(probe, n);
        all.push(at - begun_at);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    all.sort_unstable();
    all[PROBES * 9 / 10]
}

on_each_store! {
    async fn each_job_is_completed_once_although_workers_hang_fail_and_die(db) {
        let ((hangs, one), (fails, two), (mut dies, three)) =
            (worker(&["hang"]).await, worker(&["fail=40", "sleep=20"]).await, worker(&["sleep=1000"]).await);
        let push = HttpPush::to_any_of([one.as_str(), &two, &three]).unwrap().secrets([SECRET.parse().unwrap()]).timeout(TIMEOUT);
        let (sender, mut started) = unbounded_channel::<(usize, Instant)>();
        let node = Lineclear::builder().store(&db.url).options(quick()).state(sender).kind("probe", probe)
            .submitter("fleet", push).submit_to_with("fleet", "render", impatient(50)).start().await.unwrap();
        let before = latency(&node, &mut started).await;
        let begun_at = Instant::now();
        let mut jobs: Vec<JobId> = Vec::new();
        for n in 0..JOBS {
            jobs.push(node.enqueue("render", &n).await.unwrap().id);
        }
        dies.wait_for_lines("started", 3, LONG).await.unwrap();
        dies.kill().unwrap();
        let beside = latency(&node, &mut started).await;
        let completed = "select count(*) from {t}execution where kind = 'render' and outcome = 'completed'";
        until_within(BOUND, "all jobs are completed", async || db.number(completed).await >= JOBS as i64).await;
        let took = begun_at.elapsed();
        for job in jobs {
            let detail = detail(&node, job).await;
            let once = outcomes(&detail).iter().filter(|word| **word == ExecutionOutcome::Completed).count();
            assert_eq!((detail.job.state, once), (JobState::Completed, 1), "{detail:?}");
        }
        assert_eq!(db.number("select count(*) from {t}dead_letter").await, 0);
        for seen in ["outcome = 'timed_out'", "error_type = 'status_500'", "error_type = 'connection_lost'"] {
            let sql = format!("select count(*) from {{t}}execution where {seen}");
            assert!(db.number(&sql).await > 0, "{seen}");
        }
        println!("{JOBS} jobs in {took:?}; latency of another kind {before:?} before, {beside:?} beside");
        let had_jobs = |worker: &Child| worker.stdout().iter().any(|line| line.contains("started"));
        assert!([&hangs, &fails, &dies].into_iter().all(had_jobs), "each worker had its share");
        // A job of another kind that had to wait for a call would wait for the rest of that call.
        assert!(beside < before * 3 + NOISE, "{before:?} before, {beside:?} beside");
        node.stop().await;
    }
}

//! Workers that pull.

use std::time::Duration;

use lineclear::handler::IntoOutcome;
use lineclear::model::{ExecutionOutcome, JobState, Outcome};
use lineclear_http::{Access, HttpOptions};
use lineclear_worker::{
    Cancel, Ctx, Done, HandlerError, Input, JobInfo, Permanent, RetryIn, Snooze, State, Trust, Worker,
    WorkerError,
};

use crate::kit::{Calls, Pulling, Served, outcomes, until};

const LEASE: Duration = Duration::from_secs(30);

fn pulling(served: &Served, worker: &Worker) -> Pulling {
    Pulling::start(worker.pull(served.url(), None).name("mailer"))
}

on_each_store! {
    async fn a_handler_gets_what_a_node_gives_it_and_its_result_is_recorded(place) {
        async fn add(Input((a, b)): Input<(i64, i64)>, more: State<i64>, job: JobInfo, trust: Trust) -> Done<i64> {
            assert_eq!((job.kind.as_str(), job.claim_no, job.attempt), ("work", 1, 1));
            assert!(trust.left() > LEASE / 3, "{:?}", trust.left());
            Done(a + b + *more.0)
        }
        let served = Served::start(place, LEASE).await;
        let worker = pulling(&served, &Worker::builder().kind("work", add).state(100_i64).build().unwrap());
        let mut jobs = Vec::new();
        for n in 0..50 {
            jobs.push((n, served.enqueue("work", (n, 1)).await));
        }
        for (n, job) in jobs {
            let detail = served.until(job, JobState::Completed).await;
            assert_eq!(outcomes(&detail), [ExecutionOutcome::Completed]);
            assert_eq!(detail.executions[0].output, Some((n + 101).to_string()));
            assert_eq!(detail.executions[0].node_name.as_deref(), Some("mailer"));
        }
        worker.stop().await.unwrap();
        let nodes = served.node.store().nodes(10).await.unwrap();
        assert!(!nodes.iter().any(|node| node.name == "mailer"), "it has left: {nodes:?}");
        served.stop().await;
    }

    async fn each_way_to_end_is_told_to_the_server(place) {
        async fn work(Input(how): Input<String>, job: JobInfo) -> Result<(), HandlerError> {
            match (how.as_str(), job.claim_no) {
                ("error", 1) => Err("no luck".into()),
                ("retry in", 1) => Err(RetryIn::new(Duration::from_millis(1), "busy").into()),
                ("permanent", _) => Err(Permanent::new("no such customer").into()),
                ("panic", 1) => panic!("out of paper"),
                _ => Ok(()),
            }
        }
        async fn thumbnail(job: JobInfo) -> Outcome {
            if job.claim_no == 1 { Snooze(Duration::from_millis(1)).into_outcome() } else { ().into_outcome() }
        }
        use ExecutionOutcome::{Completed, Failed, Snoozed};
        let served = Served::start(place, LEASE).await;
        let worker = Worker::builder().kind("work", work).kind("thumbnail", thumbnail).build().unwrap();
        let worker = pulling(&served, &worker);
        for (how, state, expected, says) in [
            ("error", JobState::Completed, vec![Failed, Completed], Some("no luck")),
            ("retry in", JobState::Completed, vec![Failed, Completed], Some("busy")),
            ("permanent", JobState::Dead, vec![Failed], Some("no such customer")),
            ("panic", JobState::Completed, vec![Failed, Completed], Some("out of paper")),
        ] {
            let job = served.enqueue("work", how).await;
            let detail = served.until(job, state).await;
            assert_eq!((outcomes(&detail), detail.executions[0].error_message.as_deref()), (expected, says), "{how}");
        }
        let unreadable = served.enqueue("work", 7).await;
        let detail = served.until(unreadable, JobState::Dead).await;
        assert_eq!(detail.executions[0].error_type.as_deref(), Some("input"));
        let snoozed = served.enqueue("thumbnail", ()).await;
        let detail = served.until(snoozed, JobState::Completed).await;
        assert_eq!(outcomes(&detail), [Snoozed, Completed]);
        worker.stop().await.unwrap();
        served.stop().await;
    }

    async fn a_finished_step_is_not_repeated_and_progress_is_shown(place) {
        async fn work(ctx: Ctx, charged: State<Calls>, cancel: Cancel, job: JobInfo) -> Result<Done<u32>, HandlerError> {
            let charge = ctx.step("charge", async { Ok(charged.add()) }).await?;
            let failing = ctx.step("mail", async { if job.attempt == 1 { Err("no answer".into()) } else { Ok(()) } });
            failing.await?;
            ctx.progress(0.5, "half");
            cancel.requested().await;
            Ok(Done(charge))
        }
        let served = Served::start(place, Duration::from_secs(3)).await;
        let charged = Calls::default();
        let worker = Worker::builder().kind("work", work).state(charged.clone()).build().unwrap();
        let worker = pulling(&served, &worker);
        let job = served.enqueue("work", ()).await;
        until("its progress is shown", async || {
            served.job(job).await.job.progress.is_some_and(|progress| progress.text == "half")
        }).await;
        served.node.store().cancel(job).await.unwrap();
        // The work was done nevertheless, and that counts.
        let detail = served.until(job, JobState::Completed).await;
        assert_eq!(outcomes(&detail), [ExecutionOutcome::Failed, ExecutionOutcome::Completed]);
        assert_eq!(detail.executions[1].output.as_deref(), Some("1"));
        assert_eq!(charged.count(), 1, "the second attempt took the result of the first");
        worker.stop().await.unwrap();
        served.stop().await;
    }

    async fn an_idle_worker_that_is_drained_takes_no_job_until_it_is_resumed(place) {
        async fn work() {}
        let served = Served::start(place, Duration::from_secs(3)).await;
        let worker = Pulling::start(
            Worker::builder().kind("work", work).build().unwrap().pull(served.url(), None).name("mailer"),
        );
        let (store, client) = (served.node.store(), served.node.client());
        let node = async || store.nodes(10).await.unwrap().into_iter().find(|node| node.name == "mailer");
        until("it has asked for jobs", async || node().await.is_some()).await;
        let worker_node = node().await.unwrap().id;
        assert!(store.drain_node(worker_node, "test").await.unwrap());
        until("the server knows it", async || client.is_draining(worker_node)).await;
        let job = served.enqueue("work", ()).await;
        let asks = || {
            let submitters = client.submitters();
            let pull = submitters.iter().find(|info| info.name == "pull").unwrap();
            !pull.status.target.ends_with("; 0 wait here")
        };
        until("it asks for no jobs for a second", async || {
            for _ in 0..20 {
                if asks() {
                    return false;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            true
        })
        .await;
        let seen_at = node().await.unwrap().seen_at;
        until("it lives all the same", async || node().await.unwrap().seen_at > seen_at).await;
        assert_eq!(served.job(job).await.job.state, JobState::Queued);
        assert!(store.resume_node(worker_node, "test").await.unwrap());
        served.until(job, JobState::Completed).await;
        worker.stop().await.unwrap();
        served.stop().await;
    }

    async fn a_cancelled_job_tells_its_handler_to_stop(place) {
        async fn work(cancel: Cancel, begun: State<Calls>) -> Result<(), HandlerError> {
            begun.add();
            cancel.requested().await;
            Err("told to stop".into())
        }
        let served = Served::start(place, Duration::from_secs(3)).await;
        let begun = Calls::default();
        let worker = pulling(&served, &Worker::builder().kind("work", work).state(begun.clone()).build().unwrap());
        let job = served.enqueue("work", ()).await;
        until("it runs", async || begun.count() == 1).await;
        served.node.store().cancel(job).await.unwrap();
        let detail = served.until(job, JobState::Cancelled).await;
        assert_eq!(outcomes(&detail), [ExecutionOutcome::Cancelled]);
        worker.stop().await.unwrap();
        served.stop().await;
    }

    async fn a_worker_that_stops_waits_for_its_handlers_and_gives_the_others_back(place) {
        async fn work(Input(millis): Input<u64>, cancel: Cancel, begun: State<Calls>) -> Result<(), HandlerError> {
            begun.add();
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(millis)) => Ok(()),
                () = cancel.requested() => Err("told to stop".into()),
            }
        }
        let served = Served::start(place, LEASE).await;
        let begun = Calls::default();
        let worker = Worker::builder().kind("work", work).state(begun.clone()).build().unwrap();
        let worker = Pulling::start(worker.pull(served.url(), None).slots(2).grace(Duration::from_secs(4)));
        let (short, long) = (served.enqueue("work", 1_500).await, served.enqueue("work", 3_600_000).await);
        until("both run", async || begun.count() == 2).await;
        let waiting = served.enqueue("work", 1).await;
        worker.stop().await.unwrap();
        let ended = served.job(short).await;
        assert_eq!((ended.job.state, outcomes(&ended)), (JobState::Completed, vec![ExecutionOutcome::Completed]));
        let given_back = served.job(long).await;
        assert_eq!((given_back.job.state, given_back.job.failures), (JobState::Queued, Some(0)), "{given_back:?}");
        assert_eq!(outcomes(&given_back), [ExecutionOutcome::Released]);
        let untouched = served.job(waiting).await;
        assert_eq!((untouched.job.state, outcomes(&untouched)), (JobState::Queued, vec![]), "it takes no more");
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_the_server_refuses_ends_with_the_reason() {
    async fn work() {}
    async fn here() {}
    let place = crate::kit::Place::sqlite().await;
    let bind = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let http = HttpOptions { bind, access: Access::Tokens, ..HttpOptions::default() };
    let served = Served::start_with(&place, LEASE, http, |builder| builder.kind("here", here)).await;
    let (all, bound) = (served.token("all", None).await, served.token("bound", Some(&["mail"])).await);
    for (kind, token, expected) in [
        ("work", "lct_wrong".to_owned(), (401, "unauthorized")),
        ("work", bound, (403, "kind_not_allowed")),
        ("here", all.clone(), (409, "kind_routed_elsewhere")),
    ] {
        let worker = Worker::builder().kind(kind, work).build().unwrap();
        let refused = Pulling::start(worker.pull(served.url(), token)).ended().await;
        let Err(WorkerError::Refused { status, code, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!((status, code.as_str()), expected, "{kind}");
    }
    let worker = Worker::builder().kind("work", work).build().unwrap();
    let worker = Pulling::start(worker.pull(served.url(), all));
    let job = served.enqueue("work", ()).await;
    served.until(job, JobState::Completed).await;
    worker.stop().await.unwrap();
    served.stop().await;
}

#[cfg(feature = "logs")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_logs_is_kept_with_its_execution() {
    use tracing_subscriber::prelude::*;
    async fn work() {
        tracing::info!(invoice = 7, "printing");
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        tracing::warn!("out of paper");
    }
    tracing_subscriber::registry().with(lineclear::logs::JobLogs::new()).init();
    let place = crate::kit::Place::sqlite().await;
    let served = Served::start(&place, LEASE).await;
    let worker = pulling(&served, &Worker::builder().kind("work", work).build().unwrap());
    let job = served.enqueue("work", ()).await;
    served.until(job, JobState::Completed).await;
    let lines = served.node.store().last_log(job, 10).await.unwrap().items;
    let lines: Vec<_> =
        lines.iter().map(|(claim, line)| (*claim, line.level.as_str(), line.message.as_str())).collect();
    assert_eq!(lines, [(1, "INFO", "printing invoice=7"), (1, "WARN", "out of paper")]);
    worker.stop().await.unwrap();
    served.stop().await;
}

//! The logs of handlers are kept with their execution.

use std::sync::{Mutex, Once};
use std::time::Duration;

use lineclear::logs::JobLogs;
use lineclear::model::{JobState, Manifest, Payload, Schedule};
use lineclear::store::{JobId, NewJob};
use lineclear::{Cancel, HandlerError, JobInfo, Lineclear, Node};
use tracing::Instrument;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

use super::impatient;
use crate::kit::{TestStore, name, quick, until};

fn keep_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::registry().with(JobLogs::new()).with(Own).init());
}

/// Lineclear's own log: messages of its events, and its spans with their fields.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn said(start: &str, what: &str) -> bool {
    SAID.lock().unwrap().iter().any(|line| line.starts_with(start) && line.contains(what))
}

struct Own;

impl<S: tracing::Subscriber> Layer<S> for Own {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut text = Text(span.metadata().name().to_owned());
        span.record(&mut text);
        SAID.lock().unwrap().push(text.0);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("lineclear") {
            let mut text = Text(event.metadata().level().to_string());
            event.record(&mut text);
            SAID.lock().unwrap().push(text.0);
        }
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

/// A job can be followed through the log by its id, its kind and its claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_execution_has_a_span_and_each_planning_cycle_its_lines() {
    async fn noop() {}
    keep_logs();
    let db = TestStore::sqlite().await;
    let every_second = Schedule::every(Duration::from_secs(1)).unwrap();
    let manifest = Manifest::new(name("clock"), name("spanned"), every_second);
    let node = Lineclear::builder().store(&db.url).options(quick()).kind("spanned", noop).manifest(manifest);
    let node = node.start().await.unwrap();
    let traced =
        NewJob { trace: Some("00-abc".to_owned()), ..NewJob::new(name("spanned"), Payload::empty()) };
    let job = node.client().enqueue_job(traced).await.unwrap().id;
    until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
    let span = format!(" job.id={job} job.kind=spanned claim.no=1 job.trace=\"00-abc\"");
    assert!(said("job", &span), "{span}");
    until("a tick was planned", async || said("DEBUG", "planning cycle completed")).await;
    assert!(said("DEBUG", "planning cycle started"));
    assert!(said("DEBUG", "message=settled"));
    assert!(said("DEBUG", "message=dispatched"));
    node.stop().await;
}

async fn lines(node: &Node, job: JobId) -> Vec<(u32, String, String)> {
    let page = node.store().log(job, None, 1_000).await.unwrap();
    page.items.into_iter().map(|(claim_no, line)| (claim_no, line.level, line.message)).collect()
}

on_each_store! {
    async fn what_a_handler_logs_is_there_when_its_job_is_over(db) {
        async fn talks(job: JobInfo) -> Result<(), HandlerError> {
            tracing::info!(rows = 3, file = "a.csv", "read");
            tracing::debug!("too quiet to be kept");
            let inner = tracing::info_span!("inner");
            inner.in_scope(|| tracing::warn!("from a span"));
            tokio::spawn(async { tracing::error!("from a future with the span") }.in_current_span()).await?;
            tokio::spawn(async { tracing::error!("from one without") }).await?;
            tracing::info!("a\0b");
            if job.attempt == 1 { Err("again".into()) } else { Ok(()) }
        }
        async fn silent() {}
        keep_logs();
        let node = Lineclear::builder().store(&db.url).options(quick())
            .kind_with("talks", impatient(1), talks).kind("silent", silent).start().await.unwrap();
        let before = lineclear::model::Micros::from(jiff::Timestamp::now());
        let (job, silent) = (node.enqueue("talks", &()).await.unwrap().id, node.enqueue("silent", &()).await.unwrap().id);
        for job in [job, silent] {
            until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        }
        let expected = [
            ("INFO", "read rows=3 file=\"a.csv\""), ("WARN", "from a span"), ("ERROR", "from a future with the span"), ("INFO", "a b"),
        ];
        let of = |claim_no: u32| expected.map(|(level, message)| (claim_no, level.to_owned(), message.to_owned()));
        assert_eq!(lines(&node, job).await, [of(1), of(2)].concat());
        assert_eq!(lines(&node, silent).await, []);
        let first = node.store().log(job, None, 1).await.unwrap().items.remove(0).1;
        assert_eq!((first.line_no, first.target.as_str()), (1, module_path!()));
        assert!(first.logged_at >= before);
        node.stop().await;
    }

    async fn a_log_can_be_read_while_the_job_runs(db) {
        async fn talks(cancel: Cancel) {
            tracing::info!("here I am");
            cancel.requested().await;
        }
        keep_logs();
        let node = Lineclear::builder().store(&db.url).options(quick()).kind("talks", talks).start().await.unwrap();
        let job = node.enqueue("talks", &()).await.unwrap().id;
        until("it shows", async || lines(&node, job).await.len() == 1).await;
        assert_eq!(db.state(&node, job).await, Some(JobState::Running));
        node.store().cancel(job).await.unwrap();
        until("it is over", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        node.stop().await;
    }

    async fn a_talkative_handler_fills_its_log_and_no_more(db) {
        async fn talks() {
            for n in 0..1_500 {
                tracing::info!("line {n}");
            }
        }
        keep_logs();
        let node = Lineclear::builder().store(&db.url).options(quick()).kind("talks", talks).start().await.unwrap();
        let job = node.enqueue("talks", &()).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        let kept = lines(&node, job).await;
        assert_eq!((kept.len(), kept[999].2.as_str()), (1_000, "line 999"));
        let rest = node.store().log(job, Some((1, 1_000)), 10).await.unwrap().items;
        assert_eq!(rest.iter().map(|(_, line)| line.message.as_str()).collect::<Vec<_>>(), ["500 more lines were dropped: the log is full"]);
        node.stop().await;
    }
}

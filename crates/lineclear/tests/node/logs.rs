//! What handlers log is kept with their execution.

use std::sync::Once;

use lineclear::logs::JobLogs;
use lineclear::model::JobState;
use lineclear::store::JobId;
use lineclear::{Cancel, HandlerError, JobInfo, Lineclear, Node};
use tracing::Instrument;
use tracing_subscriber::prelude::*;

use super::impatient;
use crate::kit::{Place, quick, until};

fn keep_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::registry().with(JobLogs::new()).init());
}

async fn lines(node: &Node, job: JobId) -> Vec<(u32, String, String)> {
    let page = node.store().log(job, None, 1_000).await.unwrap();
    page.items.into_iter().map(|(claim_no, line)| (claim_no, line.level, line.message)).collect()
}

on_each_store! {
    async fn what_a_handler_logs_is_there_when_its_job_is_over(place) {
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
        let node = Lineclear::builder().store(&place.url).options(quick())
            .kind_with("talks", impatient(1), talks).kind("silent", silent).start().await.unwrap();
        let before = lineclear::model::Micros::from(jiff::Timestamp::now());
        let (job, silent) = (node.enqueue("talks", &()).await.unwrap().id, node.enqueue("silent", &()).await.unwrap().id);
        for job in [job, silent] {
            until("it is completed", async || place.state(&node, job).await == Some(JobState::Completed)).await;
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

    async fn a_log_can_be_read_while_the_job_runs(place) {
        async fn talks(cancel: Cancel) {
            tracing::info!("here I am");
            cancel.requested().await;
        }
        keep_logs();
        let node = Lineclear::builder().store(&place.url).options(quick()).kind("talks", talks).start().await.unwrap();
        let job = node.enqueue("talks", &()).await.unwrap().id;
        until("it shows", async || lines(&node, job).await.len() == 1).await;
        assert_eq!(place.state(&node, job).await, Some(JobState::Running));
        node.store().cancel(job).await.unwrap();
        until("it is over", async || place.state(&node, job).await == Some(JobState::Completed)).await;
        node.stop().await;
    }

    async fn a_talkative_handler_fills_its_log_and_no_more(place) {
        async fn talks() {
            for n in 0..1_500 {
                tracing::info!("line {n}");
            }
        }
        keep_logs();
        let node = Lineclear::builder().store(&place.url).options(quick()).kind("talks", talks).start().await.unwrap();
        let job = node.enqueue("talks", &()).await.unwrap().id;
        until("it is completed", async || place.state(&node, job).await == Some(JobState::Completed)).await;
        let kept = lines(&node, job).await;
        assert_eq!((kept.len(), kept[999].2.as_str()), (1_000, "line 999"));
        let rest = node.store().log(job, Some((1, 1_000)), 10).await.unwrap().items;
        assert_eq!(rest.iter().map(|(_, line)| line.message.as_str()).collect::<Vec<_>>(), ["500 more lines were dropped: the log is full"]);
        node.stop().await;
    }
}

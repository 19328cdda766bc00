//! A node of the demo, in its own process. It prints its events as JSON lines, and ends when its standard input closes.

use std::time::Duration;

use clap::Args;
use lineclear::node::{Event, JobEvent};
use lineclear::outbox::{Jobs, Outbox, OutboxError, OutboxOptions};
use lineclear::{Lineclear, NodeOptions};
use serde::{Deserialize, Serialize};

use super::{kinds, orders};
use crate::failure::Failure;
use crate::output::print_json;
use crate::runtime::block_on_all_cores;

#[derive(Args)]
pub(crate) struct DemoNode {
    #[arg(long, env = "LINECLEAR_DEMO_DB", hide_env_values = true)]
    db: String,
    #[arg(long)]
    name: String,
}

/// An event of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DemoEvent {
    pub(super) job: String,
    pub(super) kind: String,
    /// `started`, `completed`, `failed` or `dead_letter`.
    pub(super) what: String,
    pub(super) claim_no: Option<u32>,
    pub(super) error: Option<String>,
}

impl DemoEvent {
    fn of(event: JobEvent) -> Option<DemoEvent> {
        let said = |what: &str, claim_no, error| {
            let what = what.to_owned();
            Some(DemoEvent {
                job: event.job.to_string(),
                kind: event.kind.to_string(),
                what,
                claim_no,
                error,
            })
        };
        match event.event {
            Event::Started { claim_no } => said("started", Some(claim_no), None),
            Event::Completed => said("completed", None, None),
            Event::Failed { ref error, retried: true } => said("failed", None, Some(error.clone())),
            Event::Failed { ref error, retried: false } => said("dead_letter", None, Some(error.clone())),
            _ => None,
        }
    }
}

impl DemoNode {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on_all_cores(self.run_node())
    }

    async fn run_node(self) -> Result<(), Failure> {
        // Short times, so that recovery takes seconds instead of half a minute.
        let options = NodeOptions {
            lease: Duration::from_secs(3),
            renewal: Duration::from_millis(800),
            heartbeat: Duration::from_millis(500),
            plan_interval: Duration::from_secs(1),
            poll: Duration::from_millis(200),
            shutdown_grace: Duration::from_secs(5),
            slots: 8,
            ..NodeOptions::default()
        };
        let print_event = |event: JobEvent| async {
            if let Some(event) = DemoEvent::of(event) {
                // The parent may have ended.
                let _ = print_json(&event);
            }
        };
        let node = Lineclear::builder()
            .store(self.db.as_str())
            .options(options)
            .name(self.name)
            .kind("heartbeat", kinds::heartbeat)
            .kind("flaky-import", kinds::flaky_import)
            .kind("slow-report", kinds::slow_report)
            .kind("extract", kinds::step)
            .kind("transform", kinds::step)
            .kind("load", kinds::step)
            .kind("office-hours", kinds::heartbeat)
            .kind("invoice", kinds::invoice)
            .kind(orders::TOPIC, kinds::send_email)
            .hook(print_event)
            .start()
            .await
            .map_err(|error| Failure::failed(error.to_string()))?;
        let failed = |error: OutboxError| Failure::failed(error.to_string());
        let outbox = Outbox::open_named(&self.db, orders::OUTBOX).await.map_err(failed)?;
        // The topic of a message is the kind of its job.
        let options = OutboxOptions { lock_ttl: Duration::from_secs(3), ..OutboxOptions::default() };
        let runner = outbox.start_with(options, Jobs::new(node.client())).await.map_err(failed)?;
        // The parent closes standard input to stop the node; its own end closes it, too.
        let _ =
            tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await;
        let stopped = runner.stop().await;
        node.stop().await;
        stopped.map_err(failed)
    }
}

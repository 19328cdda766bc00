//! Lineclear as a subject: a node that runs jobs, and a client without a node that enqueues, as a web server has it.
//!
//! With the best settings, the jobs of the latency are enqueued by the node that runs them, which it need not be told of.

use std::sync::Arc;

use anyhow::Result;
use lineclear::model::{Name, Payload};
use lineclear::store::NewJob;
use lineclear::{Client, Lineclear, Node, NodeOptions, Store, StoreOptions};
use peer_harness::{Bulk, INPUT, Peer, Request, Runs, Verb};
use tokio::sync::OnceCell;

const KIND: &str = "mail.send";
/// For many short jobs. The default, four per core, suits jobs that take a while.
const WIDE: u32 = 1_000;

pub(crate) struct OurQueue {
    client: Client,
    url: String,
    options: NodeOptions,
    job: NewJob,
    /// Whether the node enqueues, and its client.
    on_the_node: bool,
    of_node: OnceCell<Client>,
}

impl Peer for OurQueue {
    type Workers = Node;

    fn version() -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn describe(request: &Request) -> String {
        let Bulk { callers, batch } = Self::bulk(request);
        let slots = options(request).slots;
        let by = if request.best() { "the node itself" } else { "a client without a node" };
        format!(
            "one node, {slots} slots; bulk: `enqueue_jobs` with {batch} jobs, {callers} at a time; latency: enqueued by {by}"
        )
    }

    fn bulk(request: &Request) -> Bulk {
        Bulk { callers: if request.best() { 4 } else { 1 }, batch: 1_000 }
    }

    async fn connect(request: &Request) -> Result<OurQueue> {
        let store = Store::open(StoreOptions::new(&request.url)?).await?;
        Ok(OurQueue {
            client: Client::of_store(store)?,
            url: request.url.clone(),
            options: options(request),
            job: NewJob::new(Name::new(KIND)?, Payload::parse(INPUT)?),
            on_the_node: request.best() && request.verb == Verb::Latency,
            of_node: OnceCell::new(),
        })
    }

    async fn setup(&self) -> Result<()> {
        // Opening the store has created them.
        Ok(())
    }

    async fn enqueue(&self) -> Result<()> {
        self.of_node.get().unwrap_or(&self.client).enqueue_job(self.job.clone()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, jobs: usize) -> Result<()> {
        self.client.enqueue_jobs(vec![self.job.clone(); jobs]).await?;
        Ok(())
    }

    async fn start(&self, runs: Arc<Runs>) -> Result<Node> {
        let handler = move || {
            runs.begin();
            async {}
        };
        let builder = Lineclear::builder().store(&self.url).options(self.options.clone());
        let node = builder.kind(KIND, handler).start().await?;
        if self.on_the_node {
            self.of_node.set(node.client())?;
        }
        Ok(node)
    }

    async fn stop(node: Node) -> Result<()> {
        node.stop().await;
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        crate::server::number(
            &self.url,
            "select (select count(*) from lineclear.work_queue) + (select count(*) from lineclear.background_job)",
        )
        .await
    }
}

fn options(request: &Request) -> NodeOptions {
    let slots = if request.best() { WIDE } else { NodeOptions::default().slots };
    NodeOptions { slots, ..NodeOptions::default() }
}

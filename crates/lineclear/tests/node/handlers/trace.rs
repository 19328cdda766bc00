//! A trace continues from the caller that enqueues a job to its handler, and from there to the jobs that the handler enqueues.

use lineclear::model::{JobState, Payload};
use lineclear::store::NewJob;
use lineclear::{Client, HandlerError, Lineclear};
use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::Instrument;
use tracing_subscriber::prelude::*;

use crate::kit::{TestStore, name, quick, until};

/// Spans that have ended, by name.
fn span(exporter: &InMemorySpanExporter, name: &str) -> Option<SpanData> {
    exporter.get_finished_spans().unwrap().into_iter().find(|span| span.name == name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_goes_on_from_the_caller_to_the_handler_and_to_the_jobs_it_makes() {
    async fn first(client: Client) -> Result<(), HandlerError> {
        client.enqueue("second", &()).await?;
        Ok(())
    }
    async fn second() {}

    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    tracing_subscriber::registry().with(layer).init();

    let db = TestStore::sqlite().await;
    let node =
        Lineclear::builder().store(&db.url).options(quick()).kind("first", first).kind("second", second);
    let node = node.start().await.unwrap();
    let caller = tracing::info_span!("caller");
    let job = node.enqueue("first", &()).instrument(caller.clone()).await.unwrap().id;
    drop(caller);
    until("the second ran", async || span(&exporter, "job second").is_some()).await;

    let [caller, first, second] =
        ["caller", "job first", "job second"].map(|name| span(&exporter, name).unwrap());
    let trace = caller.span_context.trace_id();
    assert_eq!([&first, &second].map(|span| span.span_context.trace_id()), [trace; 2]);
    assert_eq!(first.parent_span_id, caller.span_context.span_id());
    assert_eq!(second.parent_span_id, first.span_context.span_id());
    until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;

    // One that was given a trace keeps it.
    exporter.reset();
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = NewJob { trace: Some(given.to_owned()), ..NewJob::new(name("second"), Payload::empty()) };
    node.client().enqueue_job(traced).instrument(tracing::info_span!("other")).await.unwrap();
    until("it ran", async || span(&exporter, "job second").is_some()).await;
    let ran = span(&exporter, "job second").unwrap();
    assert_eq!(ran.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(ran.parent_span_id, SpanId::from_hex("b7ad6b7169203331").unwrap());
    node.stop().await;
}

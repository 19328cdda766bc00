//! Traces, sent to a collector by OTLP over HTTP.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use crate::failure::Failure;

/// Sends the remaining spans when it is dropped.
pub(super) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        // A collector that does not respond must not delay the exit.
        let _ = self.0.shutdown_with_timeout(std::time::Duration::from_secs(3));
    }
}

/// A layer that sends spans to the collector at `endpoint`, such as `http://127.0.0.1:4318`.
pub(super) fn layer<S>(endpoint: &str) -> Result<(Traces, impl Layer<S> + use<S>), Failure>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .build()
        .map_err(|error| Failure::usage(format!("otlp: {error}")))?;
    let named = Resource::builder().with_service_name("lineclear").build();
    let provider = SdkTracerProvider::builder().with_resource(named).with_batch_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("lineclear")).with_filter(
        Targets::new()
            .with_target("lineclear", tracing::Level::INFO)
            // Output of commands is logged with their jobs only: it may be secret.
            .with_target(crate::kinds::TARGET, LevelFilter::OFF),
    );
    Ok((Traces(provider), layer))
}

//! Tracing: jobs continue the trace of the request that created them (`traceparent`).

use axum::extract::{FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;

/// Extracts the trace for the jobs of a request, unless the request has its own span.
pub(crate) struct TraceParent(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for TraceParent {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<TraceParent, Self::Rejection> {
        // If the request has its own span, the store uses that as the job's parent.
        let ours = cfg!(feature = "otel") && lineclear::trace::callers().is_some();
        Ok(TraceParent(if ours { None } else { traceparent(&parts.headers) }))
    }
}

/// An invalid `traceparent` is ignored, as W3C requires.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    lineclear::trace::is_traceparent(text).then(|| text.to_owned())
}

#[cfg(not(feature = "otel"))]
pub(crate) async fn span(request: Request, next: Next) -> Response {
    next.run(request).await
}

/// Creates a span for each API request; probes and metrics get none.
#[cfg(feature = "otel")]
pub(crate) async fn span(request: Request, next: Next) -> Response {
    use opentelemetry::trace::TraceContextExt;
    use tracing::Instrument;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    if !request.uri().path().starts_with("/api/") {
        return next.run(request).await;
    }
    let method = request.method().clone();
    let route = request.extensions().get::<axum::extract::MatchedPath>().map(|path| path.as_str().to_owned());
    let span = tracing::info_span!(
        target: "lineclear",
        "request",
        otel.kind = "server",
        http.request.method = %method,
        http.route = route,
        http.response.status_code = tracing::field::Empty,
    );
    if let Some(context) = traceparent(request.headers()).as_deref().and_then(lineclear::trace::context) {
        // Fails only without an OpenTelemetry layer.
        let _ = span.set_parent(context);
    }
    span.context().span().update_name(format!("{method} {}", route.as_deref().unwrap_or("?")));
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}

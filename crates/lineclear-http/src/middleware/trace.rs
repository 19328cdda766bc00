//! Traces: a request may say which one it is part of (`traceparent`), and the jobs that it makes go on with it.

use axum::extract::{FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;

/// The trace that jobs of this request are given, if the request's own span has none.
pub(crate) struct Trace(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Trace {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Trace, Self::Rejection> {
        // A span of ours lies between the caller's and the job's: then the store takes that.
        let ours = cfg!(feature = "otel") && lineclear::trace::callers().is_some();
        Ok(Trace(if ours { None } else { of(&parts.headers) }))
    }
}

/// What is no `traceparent` is ignored, as W3C has it: a broken tracer must not break its program.
fn of(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    lineclear::trace::is_traceparent(text).then(|| text.to_owned())
}

#[cfg(not(feature = "otel"))]
pub(crate) async fn span(request: Request, next: Next) -> Response {
    next.run(request).await
}

/// A span for the request. Probes and figures are asked for all day, and are not worth one.
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
    if let Some(context) = of(request.headers()).as_deref().and_then(lineclear::trace::context) {
        // Refused only if no layer of OpenTelemetry is there.
        let _ = span.set_parent(context);
    }
    span.context().span().update_name(format!("{method} {}", route.as_deref().unwrap_or("?")));
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}

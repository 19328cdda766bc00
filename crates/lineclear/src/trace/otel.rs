//! Both ends of a job's trace, in OpenTelemetry's terms.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::trace::is_traceparent;

/// The `traceparent` of the span that we are in; `None` outside of any, or if no layer of OpenTelemetry is there.
pub fn callers() -> Option<String> {
    let context = tracing::Span::current().context();
    let span = context.span();
    let of = span.span_context();
    let sampled = u8::from(of.is_sampled());
    of.is_valid().then(|| format!("00-{}-{}-{sampled:02x}", of.trace_id(), of.span_id()))
}

/// Makes the span of a job continue the job's trace.
pub(crate) fn go_on(span: &tracing::Span, trace: Option<&str>, kind: &str) {
    if let Some(context) = trace.and_then(context) {
        // Fails only if the subscriber has no OpenTelemetry layer, and then the parent is not needed.
        let _ = span.set_parent(context);
    }
    span.context().span().update_name(format!("job {kind}"));
}

/// The context of a `traceparent`; `None` if it is invalid.
pub fn context(traceparent: &str) -> Option<Context> {
    if !is_traceparent(traceparent) {
        return None;
    }
    let mut parts = traceparent.split('-').skip(1);
    let mut part = || parts.next();
    let (trace, span) = (TraceId::from_hex(part()?).ok()?, SpanId::from_hex(part()?).ok()?);
    let flags = TraceFlags::new(u8::from_str_radix(part()?, 16).ok()?) & TraceFlags::SAMPLED;
    let remote = SpanContext::new(trace, span, flags, true, TraceState::default());
    Some(Context::new().with_remote_span_context(remote))
}

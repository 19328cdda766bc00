//! Trace context, as a W3C `traceparent`: from the caller that enqueues a job to the handler that runs it.
//!
//! With the feature `otel`, and a layer of `tracing-opentelemetry` in the program's subscriber, this module does both
//! ends. Without it, a job carries the value of [`NewJob::trace`](crate::store::NewJob::trace), and its handler's span
//! records it.

use crate::store::NewJob;

#[cfg(feature = "otel")]
mod otel;

#[cfg(feature = "otel")]
pub(crate) use otel::go_on;
#[cfg(feature = "otel")]
pub use otel::{callers, context};

/// Gives jobs without a trace that of the caller.
pub(crate) fn carry(jobs: &mut [NewJob]) {
    jobs.iter_mut().for_each(|job| job.trace = or_callers(job.trace.take()));
}

/// The given trace, or else that of the caller.
pub(crate) fn or_callers(given: Option<String>) -> Option<String> {
    given.or_else(callers)
}

/// The `traceparent` of the span that we are in; without the feature `otel` there is none.
#[cfg(not(feature = "otel"))]
pub fn callers() -> Option<String> {
    None
}

/// Makes the span of a job continue the job's trace.
#[cfg(not(feature = "otel"))]
pub(crate) fn go_on(_: &tracing::Span, _: Option<&str>, _: &str) {}

/// Whether a text is a `traceparent`: version, trace, span and flags in lower-case hex, and neither id zero.
pub fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |text: &str, length: usize| is_hex(text, length) && text.bytes().any(|b| b != b'0');
    match parts.as_slice() {
        [version, trace, span, flags, more @ ..] => {
            // Later versions may have more parts, and ff is no version.
            is_hex(version, 2)
                && *version != "ff"
                && (*version != "00" || more.is_empty())
                && text.len() <= 128
                && is_id(trace, 32)
                && is_id(span, 16)
                && is_hex(flags, 2)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_traceparent() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_traceparent(good));
        assert!(is_traceparent(&good.replacen("00", "cc", 1)), "a version to come");
        assert!(is_traceparent(&format!("{}-more", good.replacen("00", "cc", 1))));
        for bad in [
            "",
            "00",
            "00-abc",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319ç-b7ad6b7169203331-01",
        ] {
            assert!(!is_traceparent(bad), "{bad}");
        }
    }
}

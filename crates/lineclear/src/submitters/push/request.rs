//! The call of a job, version 1.

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::outbound::{Secret, client};
use crate::submitters::SubmittedJob;
use crate::trace;

/// The version of calls, in the body and in the header `lineclear-version`.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Body<'a> {
    version: u32,
    job: Job<'a>,
    claim: Claim<'a>,
    /// Where the worker reports about this claim.
    callback: Option<String>,
}

#[derive(Serialize)]
struct Job<'a> {
    id: String,
    kind: &'a str,
    input: &'a RawValue,
    manifest: Option<&'a str>,
    tick_at: Option<String>,
    attempt: u32,
    trace: Option<&'a str>,
}

#[derive(Serialize)]
struct Claim<'a> {
    no: u32,
    lease_ms: u64,
    timeout_ms: u64,
    /// Authorizes callbacks.
    token: Option<&'a str>,
}

/// A call, which can be repeated: its id is the same for all calls of a claim, and no other claim of any cluster has it.
pub(super) struct Request {
    id: String,
    body: Vec<u8>,
    trace: Option<String>,
}

impl Request {
    /// The call of a job; `Err`: why it cannot be made.
    pub(super) fn new(
        job: &SubmittedJob,
        cluster: Option<&str>,
        callback: Option<&str>,
    ) -> Result<Request, String> {
        let input: &RawValue = serde_json::from_str(job.input.as_str()).map_err(|error| error.to_string())?;
        // The span of this call, or else that of the caller that enqueued the job.
        let trace = trace::callers().or_else(|| job.trace.clone());
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let body = Body {
            version: VERSION,
            job: Job {
                id: job.id.to_string(),
                kind: job.kind.as_str(),
                input,
                manifest: job.manifest.as_deref(),
                tick_at: job.tick_at.map(|tick| tick.to_string()),
                attempt: job.attempt,
                trace: trace.as_deref(),
            },
            claim: Claim {
                no: job.claim_no,
                lease_ms: millis(job.lease),
                timeout_ms: millis(job.timeout),
                token: job.token.as_deref().filter(|_| callback.is_some()),
            },
            callback: callback.map(|base| format!("{base}/api/v1/claims/{}/{}", job.id, job.claim_no)),
        };
        let body = serde_json::to_vec(&body).map_err(|error| error.to_string())?;
        let id = format!("{}-{}", client::call_id(cluster, job.id), job.claim_no);
        Ok(Request { id, body, trace })
    }

    /// The headers of a call that is made now.
    pub(super) fn headers(&self, secrets: &[Secret], timestamp: i64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("lineclear-version", HeaderValue::from(VERSION));
        if let Some(Ok(trace)) = self.trace.as_deref().map(HeaderValue::from_str) {
            headers.insert("traceparent", trace);
        }
        client::sign_headers(&mut headers, secrets, &self.id, timestamp, &self.body);
        headers
    }

    pub(super) fn body(&self) -> Vec<u8> {
        self.body.clone()
    }
}

//! An endpoint to which a server pushes jobs.

mod callback;
mod pushed;
mod reply;
mod runs;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use lineclear::outbound::{Secret, VERIFY_WINDOW, verify};
use lineclear::remote::Registry;

use crate::endpoint::callback::Callback;
use crate::endpoint::pushed::Pushed;
use crate::endpoint::reply::{Refusal, reply};
use crate::endpoint::runs::{Joined, Prepared, Runs};

/// Bytes of a call: the longest input, and more.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Jobs that run at once, by default.
const SLOTS: usize = 100;
/// When a call that found no free slot is to be repeated, in seconds.
const BUSY_SECONDS: &str = "1";

/// An endpoint for jobs that a server pushes; see [`Worker::router`](crate::Worker::router).
///
/// A call is answered when its job has ended. Calls that are not signed with one of the secrets, or are more than five minutes
/// old, are refused. A call that is repeated, because an answer was lost on its way, waits for the same run and gets the same
/// answer. When the server drops a call, because the job was cancelled or its lease is lost, the handler is told to stop.
pub struct Endpoint {
    registry: Registry,
    http: reqwest::Client,
    secrets: Vec<Secret>,
    slots: usize,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kinds, slots) = (self.registry.kinds(), self.slots);
        f.debug_struct("Endpoint").field("kinds", &kinds).field("slots", &slots).finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(crate) fn new(registry: Registry, http: reqwest::Client, secrets: Vec<Secret>) -> Endpoint {
        if secrets.is_empty() {
            tracing::error!("the endpoint has no secret, and refuses every call");
        }
        Endpoint { registry, http, secrets, slots: SLOTS }
    }

    /// How many jobs run at once; further calls get 503, and the server sends their jobs later, or elsewhere. Default: 100.
    pub fn slots(mut self, slots: usize) -> Endpoint {
        self.slots = slots;
        self
    }

    /// The endpoint, as `POST /`.
    pub fn router(self) -> axum::Router {
        let Endpoint { registry, http, secrets, slots } = self;
        let served = Arc::new(Served { registry, http, secrets, runs: Runs::new(slots) });
        axum::Router::new()
            .route("/", post(push))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(served)
    }
}

struct Served {
    registry: Registry,
    http: reqwest::Client,
    secrets: Vec<Secret>,
    runs: Runs,
}

async fn push(State(served): State<Arc<Served>>, headers: HeaderMap, body: Bytes) -> Response {
    let received_at = Instant::now();
    let call = match verify(&served.secrets, &headers, &body, VERIFY_WINDOW) {
        Ok(call) => call,
        Err(error) => {
            return Refusal::new(StatusCode::UNAUTHORIZED, "bad_signature", error.to_string())
                .into_response();
        }
    };
    let pushed = match Pushed::read(&body) {
        Ok(pushed) => pushed,
        Err(refusal) => return refusal.into_response(),
    };
    match served.runs.join(&call.id) {
        Joined::Running(run) => reply(run.outcome().await),
        Joined::Busy => busy(),
        Joined::New(new) => match served.prepare(pushed, received_at) {
            Ok(prepared) => reply(new.start(prepared).outcome().await),
            Err(refusal) => refusal.into_response(),
        },
    }
}

fn busy() -> Response {
    let detail = "all slots of this worker are taken; call again later";
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
    ([(header::RETRY_AFTER, BUSY_SECONDS)], refusal).into_response()
}

impl Served {
    fn prepare(&self, pushed: Pushed, received_at: Instant) -> Result<Prepared, Refusal> {
        let unreadable = |why: String| Refusal::new(StatusCode::BAD_REQUEST, "bad_job", why);
        let job = pushed.job.read(received_at).map_err(unreadable)?;
        let kind = job.kind.clone();
        let callback = Callback::new(&self.http, &pushed, job.lease);
        let Some((run, handler)) = self.registry.run(job, callback::steps(callback.as_ref())) else {
            // Not a refusal of the job: another worker, or the next release of this one, may have the handler.
            let detail = format!("this worker has no handler for kind {kind}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_kind", detail));
        };
        Ok(Prepared { run, handler, callback })
    }
}

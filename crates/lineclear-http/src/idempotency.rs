//! `Idempotency-Key`: a request that makes something may be sent again, and makes it once.
//!
//! The key is the client's; what it made and what it was answered are written in one transaction. A request that was refused
//! made nothing, so nothing is recorded, and the next one under its key is judged anew.

use std::time::Duration;

use axum::extract::{FromRequest, MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lineclear::Client;
use lineclear::store::{BatchId, Created, Creation, JobId, Once, OnceKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use crate::audit::{Note, made};
use crate::body;
use crate::problem::Problem;

/// How long an answer can be had again.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Longest key.
const KEY_BYTES_MAX: usize = 255;
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Where a key is taken. A POST elsewhere that carries one is refused: its client relies on a promise that nobody made.
const TAKEN_BY: &[&str] = &[
    "/api/v1/jobs",
    "/api/v1/jobs/batch",
    "/api/v1/jobs/{id}/retry",
    "/api/v1/batches",
    "/api/v1/manifests/{key}/run",
    "/api/v1/manifests/{key}/backfill",
    "/api/v1/groups/{name}/run",
];

/// The header, for the document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) struct KeyHeader {
    /// A key of your own, 1 to 255 printable ASCII characters: the same request with it again, within a day, makes nothing new
    /// and gets the same answer.
    #[param(rename = "Idempotency-Key")]
    key: Option<String>,
}

/// Who asks: keys of different clients do not meet. Whoever knows its clients puts this among the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Principal(pub(crate) String);

impl Default for Principal {
    /// Whoever reaches an open server.
    fn default() -> Principal {
        Principal("local".to_owned())
    }
}

/// A body, and the key under which the client may send it again.
pub(crate) struct Keyed<T> {
    pub(crate) once: Option<OnceKey>,
    pub(crate) body: T,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Keyed<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Keyed<T>, Problem> {
        let Some(key) = key(request.headers())? else {
            return Ok(Keyed { once: None, body: body::read(&body::bytes(request).await?)? });
        };
        let asked = format!("{} {}", request.method(), request.uri());
        if asked.len() > 1024 {
            return Err(Problem::malformed("path", "the path is too long to be kept with a key"));
        }
        let principal = request.extensions().get::<Principal>().cloned().unwrap_or_default().0;
        let bytes = body::bytes(request).await?;
        let body_hash = format!("{:x}", Sha256::digest(&bytes));
        let once = OnceKey { principal, key, request: asked, body_hash, keep: KEEP };
        Ok(Keyed { once: Some(once), body: body::read(&bytes)? })
    }
}

/// The key of a request; quotes around it, as the draft has them, are not part of it.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if text.is_empty() || text.len() > KEY_BYTES_MAX || !printable || given.next().is_some() {
        let detail =
            format!("one Idempotency-Key of 1 to {KEY_BYTES_MAX} printable ASCII characters, please");
        return Err(Problem::malformed("idempotency_key", detail));
    }
    Ok(Some(text.to_owned()))
}

/// Refuses keys where they would be ignored.
pub(crate) async fn check_key(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let is_ignored = request.method() == Method::POST && path.is_some_and(|path| !TAKEN_BY.contains(&path));
    if is_ignored && request.headers().contains_key(KEY) {
        let detail =
            "this request takes no Idempotency-Key; look at what became of it before you send it again";
        return Problem::malformed("idempotency_key", detail).into_response();
    }
    next.run(request).await
}

/// An answer as it can be kept.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    status: u16,
    /// The job that was made, if it was one.
    job: Option<i64>,
    /// The batch that was made.
    #[serde(default)]
    batch: Option<i64>,
    body: Box<RawValue>,
    #[serde(skip)]
    replayed: bool,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, job: Option<JobId>, body: &impl Serialize) -> Option<Reply> {
        let body = serde_json::value::to_raw_value(body).ok()?;
        Some(Reply { status: status.as_u16(), job: job.map(|job| job.0), batch: None, body, replayed: false })
    }

    /// Where a batch was made.
    pub(crate) fn of_batch(batch: BatchId, body: &impl Serialize) -> Option<Reply> {
        Some(Reply { batch: Some(batch.0), ..Reply::new(StatusCode::CREATED, None, body)? })
    }

    pub(crate) fn job(&self) -> Option<JobId> {
        self.job.map(JobId)
    }

    pub(crate) fn batch(&self) -> Option<BatchId> {
        self.batch.map(BatchId)
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.replayed
    }
}

/// Says that an answer was given before.
pub(crate) fn mark(response: &mut Response, replayed: bool) {
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
}

/// Where a job is.
pub(crate) fn location(job: JobId) -> HeaderValue {
    HeaderValue::from_str(&format!("/api/v1/jobs/{job}")).expect("digits")
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let json = HeaderValue::from_static("application/json");
        let (job, batch, replayed) = (self.job(), self.batch, self.replayed);
        let mut response =
            (status, [(header::CONTENT_TYPE, json)], Box::<str>::from(self.body).into_string())
                .into_response();
        if let Some(job) = job {
            response.headers_mut().insert(header::LOCATION, location(job));
        }
        if let Some(Ok(place)) = batch.map(|id| HeaderValue::from_str(&format!("/api/v1/batches/{id}"))) {
            response.headers_mut().insert(header::LOCATION, place);
        }
        mark(&mut response, replayed);
        response
    }
}

/// Makes something, once if there is a key. `reply` has none if what it was to be made of does not exist.
pub(crate) async fn make(
    client: &Client,
    once: Option<OnceKey>,
    creation: Creation,
    note: &Note,
    reply: fn(&Created) -> Option<Reply>,
) -> Result<Reply, Problem> {
    let missing = match &creation {
        Creation::Jobs(_) => "job".to_owned(),
        Creation::Retry(job, _) => format!("job {job}"),
        Creation::Batch(_) => "batch".to_owned(),
        Creation::Run(key, _) | Creation::Backfill { key, .. } => format!("manifest {key}"),
        Creation::RunGroup(group, _) => format!("group {group}"),
    };
    make_or(client, once, creation, note, move |created| {
        reply(created).ok_or_else(|| Problem::not_found(&missing))
    })
    .await
}

/// The same where `reply` says why nothing was made.
pub(crate) async fn make_or(
    client: &Client,
    once: Option<OnceKey>,
    creation: Creation,
    note: &Note,
    reply: impl Fn(&Created) -> Result<Reply, Problem> + Clone + Send + Sync + 'static,
) -> Result<Reply, Problem> {
    let Some(once) = once else {
        let created = plainly(client, creation).await?;
        note.say_with(|| made(&created));
        return reply(&created);
    };
    let answer = reply.clone();
    let record = move |created: &Created| serde_json::to_string(&answer(created).ok()?).ok();
    match client.create_once(once, creation, record).await? {
        Once::Now(created) => {
            note.say_with(|| made(&created));
            reply(&created)
        }
        Once::Before(text) => match serde_json::from_str::<Reply>(&text) {
            Ok(before) => {
                let job = before.job().map(|job| job.to_string());
                let batch = before.batch.map(|batch| batch.to_string());
                note.say(json!({"replayed": true, "job": job, "batch": batch}));
                Ok(Reply { replayed: true, ..before })
            }
            Err(_) => Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "stored_data",
                "the kept answer cannot be read; look at what became of the first request",
            )),
        },
    }
}

/// Without a key: a single job shares the commit of others.
async fn plainly(client: &Client, creation: Creation) -> Result<Created, Problem> {
    Ok(match creation {
        Creation::Jobs(mut jobs) => match jobs.pop() {
            Some(job) if jobs.is_empty() => Created::Jobs(vec![client.enqueue_job(job).await?]),
            last => {
                jobs.extend(last);
                Created::Jobs(client.enqueue_jobs(jobs).await?)
            }
        },
        Creation::Run(key, options) => Created::Run(client.trigger(key, options).await?),
        Creation::RunGroup(group, options) => Created::RunGroup(client.trigger_group(group, options).await?),
        Creation::Backfill { key, from, to, options } => {
            Created::Backfill(client.backfill(key, from, to, options).await?)
        }
        Creation::Retry(job, options) => Created::Retry(job, client.retry(job, options).await?),
        Creation::Batch(counted) => Created::Batch(client.store().begin_batch(*counted).await?),
    })
}

//! `Idempotency-Key`: a client may repeat a request that creates something, and it is created once.
//!
//! One transaction writes what was created and the response. A refused request records nothing, so its key stays free.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lineclear::Client;
use lineclear::store::{BulkOperationId, Created, Creation, IdempotencyKey, Idempotent, JobId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use crate::api::json_body::{self, JsonText};
use crate::audit::{AuditDetails, created_details};
use crate::problem::Problem;

/// How long a response is kept.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Longest key.
const KEY_BYTES_MAX: usize = 255;
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Routes that support a key. Others refuse it: their clients would rely on a promise that does not hold.
const SUPPORTED_PATHS: &[&str] = &[
    "/api/v1/jobs",
    "/api/v1/jobs/batch",
    "/api/v1/jobs/{id}/retry",
    "/api/v1/bulk-operations",
    "/api/v1/manifests/{key}/run",
    "/api/v1/manifests/{key}/backfill",
    "/api/v1/groups/{name}/run",
    "/api/v1/run/{kind}",
];

/// The header, for the API document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) struct IdempotencyKeyHeader {
    /// A key that the client chooses, 1 to 255 printable ASCII characters. The same request with the same key within a day creates
    /// nothing new and gets the same response.
    #[param(rename = "Idempotency-Key")]
    key: Option<String>,
}

/// The owner of a key: clients do not share keys. The guard sets it.
#[derive(Clone, Debug)]
pub(crate) struct KeyOwner(pub(crate) String);

impl Default for KeyOwner {
    /// The caller of an open server.
    fn default() -> KeyOwner {
        KeyOwner("local".to_owned())
    }
}

/// Extracts a JSON body and its idempotency key.
pub(crate) struct KeyedBody<T> {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) body: T,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for KeyedBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<KeyedBody<T>, Problem> {
        let (key, bytes) = key_and_bytes(request).await?;
        Ok(KeyedBody { key, body: json_body::read(&bytes)? })
    }
}

/// Extracts a JSON document and its idempotency key, for bodies that borrow from the document.
pub(crate) struct KeyedText {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) text: JsonText,
}

impl<S: Send + Sync> FromRequest<S> for KeyedText {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<KeyedText, Problem> {
        let (key, bytes) = key_and_bytes(request).await?;
        Ok(KeyedText { key, text: JsonText::check(&bytes)? })
    }
}

/// Extracts a JSON document that may be missing, and its idempotency key.
pub(crate) struct KeyedInput {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) text: Option<JsonText>,
}

impl<S: Send + Sync> FromRequest<S> for KeyedInput {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<KeyedInput, Problem> {
        let (key, bytes) = key_and_bytes(request).await?;
        let text = if bytes.is_empty() { None } else { Some(JsonText::check(&bytes)?) };
        Ok(KeyedInput { key, text })
    }
}

async fn key_and_bytes(request: Request) -> Result<(Option<IdempotencyKey>, Bytes), Problem> {
    let Some(key) = key(request.headers())? else {
        return Ok((None, json_body::bytes(request).await?));
    };
    let request_line = format!("{} {}", request.method(), request.uri());
    if request_line.len() > 1024 {
        return Err(Problem::malformed("path", "the path is too long for a request with an Idempotency-Key"));
    }
    let principal = request.extensions().get::<KeyOwner>().cloned().unwrap_or_default().0;
    let bytes = json_body::bytes(request).await?;
    let body_hash = format!("{:x}", Sha256::digest(&bytes));
    Ok((Some(IdempotencyKey { principal, key, request: request_line, body_hash, keep: KEEP }), bytes))
}

/// The key of a request, without the quotes that the IETF draft puts around it.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if text.is_empty() || text.len() > KEY_BYTES_MAX || !printable || given.next().is_some() {
        let detail = format!(
            "`Idempotency-Key` must be a single header of 1 to {KEY_BYTES_MAX} printable ASCII characters"
        );
        return Err(Problem::malformed("idempotency_key", detail));
    }
    Ok(Some(text.to_owned()))
}

/// Refuses keys where they would be ignored.
pub(crate) async fn reject_unsupported_key(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let is_ignored =
        request.method() == Method::POST && path.is_some_and(|path| !SUPPORTED_PATHS.contains(&path));
    if is_ignored && request.headers().contains_key(KEY) {
        let detail = "this operation does not support Idempotency-Key; remove the header";
        return Problem::malformed("idempotency_key", detail).into_response();
    }
    next.run(request).await
}

/// A response that can be stored and replayed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredReply {
    status: u16,
    /// The created job, if it is a single one.
    job: Option<i64>,
    /// The created bulk operation.
    #[serde(default)]
    bulk_operation: Option<i64>,
    body: Box<RawValue>,
    #[serde(skip)]
    replayed: bool,
}

impl StoredReply {
    pub(crate) fn new(status: StatusCode, job: Option<JobId>, body: &impl Serialize) -> Option<StoredReply> {
        let body = serde_json::value::to_raw_value(body).ok()?;
        Some(StoredReply {
            status: status.as_u16(),
            job: job.map(|job| job.0),
            bulk_operation: None,
            body,
            replayed: false,
        })
    }

    /// The response to a request that created a bulk operation.
    pub(crate) fn of_bulk_operation(id: BulkOperationId, body: &impl Serialize) -> Option<StoredReply> {
        Some(StoredReply { bulk_operation: Some(id.0), ..StoredReply::new(StatusCode::CREATED, None, body)? })
    }

    pub(crate) fn job(&self) -> Option<JobId> {
        self.job.map(JobId)
    }

    pub(crate) fn bulk_operation(&self) -> Option<BulkOperationId> {
        self.bulk_operation.map(BulkOperationId)
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.replayed
    }
}

/// Marks a replayed response.
pub(crate) fn mark_replayed(response: &mut Response, replayed: bool) {
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
}

/// The URL of a job.
pub(crate) fn job_location(job: JobId) -> HeaderValue {
    HeaderValue::from_str(&format!("/api/v1/jobs/{job}")).expect("digits")
}

impl IntoResponse for StoredReply {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let json = HeaderValue::from_static("application/json");
        let (job, bulk_operation, replayed) = (self.job(), self.bulk_operation, self.replayed);
        let mut response =
            (status, [(header::CONTENT_TYPE, json)], Box::<str>::from(self.body).into_string())
                .into_response();
        if let Some(job) = job {
            response.headers_mut().insert(header::LOCATION, job_location(job));
        }
        if let Some(Ok(location)) =
            bulk_operation.map(|id| HeaderValue::from_str(&format!("/api/v1/bulk-operations/{id}")))
        {
            response.headers_mut().insert(header::LOCATION, location);
        }
        mark_replayed(&mut response, replayed);
        response
    }
}

/// Creates something, once if there is a key. `reply` returns `None` if the job, manifest or group does not exist.
pub(crate) async fn create_idempotently(
    client: &Client,
    once: Option<IdempotencyKey>,
    creation: Creation,
    audit: &AuditDetails,
    reply: fn(&Created) -> Option<StoredReply>,
) -> Result<StoredReply, Problem> {
    let missing = match &creation {
        Creation::Jobs(_) => "job".to_owned(),
        Creation::Retry(job, _) => format!("job {job}"),
        Creation::BulkOperation(_) => "bulk operation".to_owned(),
        Creation::Run(key, _) | Creation::Backfill { key, .. } => format!("manifest {key}"),
        Creation::RunGroup(group, _) => format!("group {group}"),
    };
    create_idempotently_or(client, once, creation, audit, move |created| {
        reply(created).ok_or_else(|| Problem::not_found(&missing))
    })
    .await
}

/// Like [`create_idempotently`], with a `reply` that says why nothing was created.
pub(crate) async fn create_idempotently_or(
    client: &Client,
    once: Option<IdempotencyKey>,
    creation: Creation,
    audit: &AuditDetails,
    reply: impl Fn(&Created) -> Result<StoredReply, Problem> + Clone + Send + Sync + 'static,
) -> Result<StoredReply, Problem> {
    let Some(once) = once else {
        let created = create_unkeyed(client, creation).await?;
        audit.set_with(|| created_details(&created));
        return reply(&created);
    };
    let stored = reply.clone();
    let record = move |created: &Created| serde_json::to_string(&stored(created).ok()?).ok();
    match client.create_idempotent(once, creation, record).await? {
        Idempotent::Created(created) => {
            audit.set_with(|| created_details(&created));
            reply(&created)
        }
        Idempotent::Replayed(text) => match serde_json::from_str::<StoredReply>(&text) {
            Ok(before) => {
                let job = before.job().map(|job| job.to_string());
                let bulk_operation = before.bulk_operation.map(|id| id.to_string());
                audit.set(json!({"replayed": true, "job": job, "bulk_operation": bulk_operation}));
                Ok(StoredReply { replayed: true, ..before })
            }
            Err(_) => Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "stored_data",
                "the stored response cannot be read; check the result of the first request",
            )),
        },
    }
}

/// Without a key. A single job may share a commit with others.
async fn create_unkeyed(client: &Client, creation: Creation) -> Result<Created, Problem> {
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
        Creation::BulkOperation(counted) => {
            Created::BulkOperation(client.store().begin_bulk_operation(*counted).await?)
        }
    })
}

//! Enqueues jobs: one, or a batch.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{Created, Creation, EnqueueResult, Enqueued, Item, NewJob, OnConflict, UniqueKey};
use lineclear_model::Payload;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::detail::JobDetails;
use crate::App;
use crate::api::json_types::{Id, due, name_at, payload, unprocessable};
use crate::api::prefer_wait::{Prefer, PreferHeader};
use crate::audit::AuditDetails;
use crate::idempotency::{IdempotencyKeyHeader, KeyedText, StoredReply, create_idempotently};
use crate::middleware::trace::TraceParent;
use crate::problem::Problem;

/// Jobs in one request.
const JOBS_MAX: usize = 1_000;

/// A new job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJobBody<'a> {
    /// The kind: the registered name of the code that runs it.
    kind: String,
    /// The input of the handler: any JSON, up to 256 KiB.
    #[serde(default, borrow)]
    #[schema(value_type = Option<Object>)]
    input: Option<&'a RawValue>,
    /// The route; the default is `main`.
    route: Option<String>,
    /// The group, which must exist.
    group: Option<String>,
    /// 0 to 31; each step counts like ten minutes of waiting.
    #[serde(default)]
    #[schema(maximum = 31)]
    priority: u8,
    /// The earliest time to run; RFC 3339.
    due_at: Option<String>,
    /// The earliest time to run, in milliseconds from now.
    #[schema(minimum = 0)]
    in_ms: Option<i64>,
    /// At most one unfinished job has this key.
    unique_key: Option<String>,
    /// What to do if another job has the unique key.
    #[serde(default)]
    on_conflict: UniqueKeyConflict,
    /// At most one job with this key runs at a time, unless the key has another limit.
    limit_key: Option<String>,
    /// Tags, for searches: up to 16 names.
    #[serde(default)]
    #[schema(max_items = 16)]
    tags: Vec<String>,
    /// Attempts after the first one.
    retries: Option<u32>,
    /// The longest time that one attempt may run.
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
}

/// What to do if another job has the unique key.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UniqueKeyConflict {
    /// Return that job.
    #[default]
    Existing,
    /// Return that job if it has the same kind and input; otherwise 409.
    Same,
    /// 409.
    Refuse,
    /// Give that job this input, due time and priority, if it was never claimed.
    Replace,
}

impl NewJobBody<'_> {
    fn read(self, pointer: &str) -> Result<NewJob, Problem> {
        let at = |field: &str| format!("{pointer}/{field}");
        let input = match self.input {
            Some(raw) => payload(raw, &at("input"))?,
            None => Payload::empty(),
        };
        let due = due(self.due_at.as_deref(), self.in_ms, pointer)?;
        let named = |text: &Option<String>, field: &str| {
            text.as_deref().map(|text| name_at(text, &at(field))).transpose()
        };
        let tag = |(n, text): (usize, &String)| name_at(text, &at(&format!("tags/{n}")));
        let tags = self.tags.iter().enumerate().map(tag).collect::<Result<Vec<_>, _>>()?;
        let tags = lineclear_model::tag::text(&tags);
        let defaults = NewJob::new(name_at(&self.kind, &at("kind"))?, input);
        let on_conflict = match self.on_conflict {
            UniqueKeyConflict::Existing => OnConflict::Existing,
            UniqueKeyConflict::Same => OnConflict::Same,
            UniqueKeyConflict::Refuse => OnConflict::Refuse,
            UniqueKeyConflict::Replace => OnConflict::Replace,
        };
        let route = named(&self.route, "route")?;
        let job = NewJob {
            route: route.unwrap_or_else(|| defaults.route.clone()),
            group: named(&self.group, "group")?,
            priority: self.priority,
            due_at: due.at,
            delay: due.delay,
            unique_key: self.unique_key.map(|key| UniqueKey { key, keep: None, on_conflict }),
            limit_key: self.limit_key,
            tags,
            retries: self.retries,
            timeout: self.timeout_ms.map(std::time::Duration::from_millis),
            ..defaults
        };
        Ok(job)
    }
}

/// The pointer to the field that the store refused. `jobs` is the pointer to the list of jobs, or empty for a single one.
fn locate(problem: Problem, jobs: &str) -> Problem {
    problem.locate(|location| {
        let Item::Job(n) = &location.item else { return None };
        let field = if location.field == "timeout" { "timeout_ms" } else { location.field };
        Some(if jobs.is_empty() { format!("/{field}") } else { format!("{jobs}/{n}/{field}") })
    })
}

/// An enqueued job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnqueuedJob {
    /// The job that does the work.
    id: Id,
    /// `inserted`: it is new. `existing`: another job had the unique key. `replaced`: that job has the new input.
    placed: &'static str,
}

impl EnqueuedJob {
    fn of(enqueued: &Enqueued) -> EnqueuedJob {
        let placed = match enqueued.result {
            EnqueueResult::Inserted => "inserted",
            EnqueueResult::Existing => "existing",
            EnqueueResult::Replaced => "replaced",
        };
        EnqueuedJob { id: Id::of(enqueued.id), placed }
    }
}

/// The enqueued job, or with `Prefer: wait` the finished one.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) enum EnqueuedOrFinished {
    Enqueued(EnqueuedJob),
    Finished(Box<JobDetails>),
}

/// Enqueues a job.
#[utoipa::path(
    post, path = "/jobs", operation_id = "create_job", tag = "jobs", request_body = NewJobBody, params(IdempotencyKeyHeader, PreferHeader),
    security(("token" = ["operate"])),
    responses((status = 201, body = EnqueuedJob), (status = 200, body = EnqueuedOrFinished, description = "another job has the unique key; or with `Prefer: wait`: the job is over"),
              (status = 202, body = JobDetails, description = "with `Prefer: wait`: the job is not over yet"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create(
    state: State<App>,
    audit: AuditDetails,
    trace: TraceParent,
    prefer: Prefer,
    request: KeyedText,
) -> Result<Response, Problem> {
    let reply = enqueue_one(&state, &audit, trace, request).await?;
    prefer.reply(&state, reply).await
}

/// Enqueues one job, for the API and for the page.
pub(crate) async fn enqueue_one(
    state: &App,
    audit: &AuditDetails,
    trace: TraceParent,
    request: KeyedText,
) -> Result<StoredReply, Problem> {
    let job = NewJob { trace: trace.0, ..request.text.parse::<NewJobBody<'_>>()?.read("")? };
    let reply =
        create_idempotently(&state.client, request.key, Creation::Jobs(vec![job]), audit, |created| {
            let Created::Jobs(jobs) = created else { return None };
            let enqueued = jobs.first()?;
            let status =
                if enqueued.result == EnqueueResult::Inserted { StatusCode::CREATED } else { StatusCode::OK };
            StoredReply::new(status, Some(enqueued.id), &EnqueuedJob::of(enqueued))
        });
    reply.await.map_err(|problem| locate(problem, ""))
}

/// A batch of new jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobBatchBody<'a> {
    /// 1 to 1,000 jobs.
    #[schema(min_items = 1, max_items = 1000)]
    #[serde(borrow)]
    jobs: Vec<NewJobBody<'a>>,
}

/// The enqueued jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobBatchResponse {
    /// In the order of the request.
    jobs: Vec<EnqueuedJob>,
}

/// Enqueues a batch of jobs, all or none.
#[utoipa::path(
    post, path = "/jobs/batch", operation_id = "create_jobs", tag = "jobs", request_body = JobBatchBody, params(IdempotencyKeyHeader),
    security(("token" = ["operate"])),
    responses((status = 201, body = JobBatchResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create_many(
    state: State<App>,
    audit: AuditDetails,
    trace: TraceParent,
    request: KeyedText,
) -> Result<Response, Problem> {
    let JobBatchBody { jobs } = request.text.parse()?;
    if jobs.is_empty() {
        return Err(unprocessable("batch_empty", "`jobs` must contain at least one job").at("/jobs"));
    }
    if jobs.len() > JOBS_MAX {
        let detail = format!("`jobs` must contain at most {JOBS_MAX} jobs; it has {}", jobs.len());
        return Err(unprocessable("batch_max", detail).at("/jobs"));
    }
    let jobs = jobs.into_iter().enumerate().map(|(n, job)| {
        Ok::<_, Problem>(NewJob { trace: trace.0.clone(), ..job.read(&format!("/jobs/{n}"))? })
    });
    let jobs: Vec<NewJob> = jobs.collect::<Result<_, _>>()?;
    let creation = Creation::Jobs(jobs);
    let reply = create_idempotently(&state.client, request.key, creation, &audit, |created| {
        let Created::Jobs(jobs) = created else { return None };
        StoredReply::new(
            StatusCode::CREATED,
            None,
            &JobBatchResponse { jobs: jobs.iter().map(EnqueuedJob::of).collect() },
        )
    });
    Ok(reply.await.map_err(|problem| locate(problem, "/jobs"))?.into_response())
}

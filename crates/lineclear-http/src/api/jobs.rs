//! Jobs: made, looked at, cancelled.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::views::{ExecutionView, JobDetail, JobFilter, JobView, StepView};
use lineclear::store::{Cancelled, Enqueued, JobId, NewJob, Placed, UniqueKey, WhenTaken};
use lineclear_model::{JobState, Payload};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::page::{Page, Paging, cursor, limit};
use super::shape::{Asked, At, Id, due, id, name_at, time, unprocessable};
use crate::App;
use crate::body::Body;
use crate::problem::Problem;
use crate::trace::Trace;

/// Jobs that one request makes at most.
const JOBS_MAX: usize = 1_000;

/// A job to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJobBody {
    /// The kind of work.
    kind: String,
    /// What its handler gets: any JSON of at most 256 KiB.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// The lane it waits in; `main` if nothing is said.
    route: Option<String>,
    /// The group whose limit, priority and switch it shares.
    group: Option<String>,
    /// 0 to 31; each step is worth ten minutes of waiting.
    #[serde(default)]
    #[schema(maximum = 31)]
    priority: u8,
    /// Not before; RFC 3339.
    due_at: Option<String>,
    /// Not before so many milliseconds from now.
    #[schema(minimum = 0)]
    in_ms: Option<i64>,
    /// At most one job with this key lives at a time.
    unique_key: Option<String>,
    /// What happens if the key is taken.
    #[serde(default)]
    when_taken: Taken,
    /// At most one job with this key is active at a time.
    limit_key: Option<String>,
    /// Tries after the first.
    retries: Option<u32>,
    /// The longest run.
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
}

/// What happens to a job whose unique key another job has.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Taken {
    /// The answer is the job that has the key.
    #[default]
    Existing,
    /// The same if it has the same kind and input; otherwise 409.
    Same,
    /// 409.
    Refuse,
    /// That job gets this input, due time and priority, if it was never claimed.
    Replace,
}

impl NewJobBody {
    fn read(self, pointer: &str) -> Result<NewJob, Problem> {
        let at = |field: &str| format!("{pointer}/{field}");
        let input = match &self.input {
            Some(raw) => Payload::parse(raw.get())
                .map_err(|bad| unprocessable("input", bad.to_string()).at(at("input")))?,
            None => Payload::empty(),
        };
        let due_at = due(self.due_at.as_deref(), self.in_ms, pointer)?;
        let named = |text: &Option<String>, field: &str| {
            text.as_deref().map(|text| name_at(text, &at(field))).transpose()
        };
        let job = NewJob::new(name_at(&self.kind, &at("kind"))?, input);
        let when_taken = match self.when_taken {
            Taken::Existing => WhenTaken::Existing,
            Taken::Same => WhenTaken::Same,
            Taken::Refuse => WhenTaken::Refuse,
            Taken::Replace => WhenTaken::Replace,
        };
        Ok(NewJob {
            route: named(&self.route, "route")?.unwrap_or(job.route.clone()),
            group: named(&self.group, "group")?,
            priority: self.priority,
            due_at,
            unique_key: self.unique_key.map(|key| UniqueKey { key, keep: None, when_taken }),
            limit_key: self.limit_key,
            retries: self.retries,
            timeout: self.timeout_ms.map(std::time::Duration::from_millis),
            ..job
        })
    }
}

/// What became of a job that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Made {
    /// The job that does the work.
    id: Id,
    /// Whether it is a new one: `inserted`, `existing` or `replaced`.
    placed: &'static str,
}

impl Made {
    fn of(enqueued: &Enqueued) -> Made {
        let placed = match enqueued.placed {
            Placed::Inserted => "inserted",
            Placed::Existing => "existing",
            Placed::Replaced => "replaced",
        };
        Made { id: Id::of(enqueued.id), placed }
    }
}

/// Makes a job.
#[utoipa::path(
    post, path = "/jobs", operation_id = "create_job", tag = "jobs", request_body = NewJobBody,
    responses((status = 201, body = Made), (status = 200, body = Made, description = "its unique key was taken"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create(
    state: State<App>,
    trace: Trace,
    body: Body<NewJobBody>,
) -> Result<Response, Problem> {
    let job = NewJob { trace: trace.0, ..body.0.read("")? };
    let enqueued = state.client.enqueue_job(job).await?;
    let status = if enqueued.placed == Placed::Inserted { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, Json(Made::of(&enqueued))).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/jobs/{}", enqueued.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Many jobs to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManyBody {
    /// The jobs: 1,000 at most.
    jobs: Vec<NewJobBody>,
}

/// What became of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManyMade {
    /// In the order of the request.
    jobs: Vec<Made>,
}

/// Makes many jobs, all or none.
#[utoipa::path(
    post, path = "/jobs/batch", operation_id = "create_jobs", tag = "jobs", request_body = ManyBody,
    responses((status = 201, body = ManyMade), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create_many(
    state: State<App>,
    trace: Trace,
    body: Body<ManyBody>,
) -> Result<Response, Problem> {
    if body.0.jobs.len() > JOBS_MAX {
        let detail = format!("{} jobs; one request makes {JOBS_MAX} at most", body.0.jobs.len());
        return Err(unprocessable("batch_max", detail).at("/jobs"));
    }
    let jobs = body.0.jobs.into_iter().enumerate().map(|(n, job)| {
        Ok::<_, Problem>(NewJob { trace: trace.0.clone(), ..job.read(&format!("/jobs/{n}"))? })
    });
    let enqueued = state.client.enqueue_jobs(jobs.collect::<Result<_, _>>()?).await?;
    let made = ManyMade { jobs: enqueued.iter().map(Made::of).collect() };
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Job {
    id: Id,
    state: String,
    kind: String,
    manifest_id: Option<Id>,
    tick_at: Option<String>,
    origin: String,
    claim_no: u32,
    failures: Option<u32>,
    created_at: String,
    due_at: String,
    finished_at: Option<String>,
    node_id: Option<Id>,
    last_error: Option<String>,
}

impl Job {
    fn of(job: JobView) -> Job {
        Job {
            id: Id::of(job.id),
            state: job.state.as_str().to_owned(),
            kind: job.kind,
            manifest_id: job.manifest.map(Id::of),
            tick_at: job.tick_at.map(time),
            origin: job.origin.as_str().to_owned(),
            claim_no: job.claim_no,
            failures: job.failures,
            created_at: time(job.created_at),
            due_at: time(job.due_at),
            finished_at: job.finished_at.map(time),
            node_id: job.node.map(Id::of),
            last_error: job.last_error,
        }
    }
}

/// Which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// In one of these states, with commas between them.
    state: Option<String>,
    /// Of this kind.
    kind: Option<String>,
    /// How many at most: 1 to 1,000, and 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists jobs, newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "list_jobs", tag = "jobs", params(Which),
    responses((status = 200, body = Page<Job>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Which>) -> Result<Json<Page<Job>>, Problem> {
    let asked = asked.0;
    let states = asked.state.iter().flat_map(|states| states.split(','));
    let states = states.map(|word| {
        JobState::from_word(word)
            .ok_or_else(|| Problem::malformed("state", format!("{word:?} is no state of a job")))
    });
    let kind = asked.kind.as_deref().map(|kind| name_at(kind, "/kind")).transpose()?;
    let filter = JobFilter { states: states.collect::<Result<_, _>>()?, kind, manifest: None };
    let before = cursor(asked.cursor.as_deref(), |text| id(text, "").ok().map(JobId))?;
    let page = state.reading.jobs(&filter, before, limit(asked.limit)?).await?;
    Ok(Json(Page::new(page.items.into_iter().map(Job::of).collect(), page.next.map(|id| id.to_string()))))
}

/// A job with what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Detail {
    #[serde(flatten)]
    job: Job,
    /// What its handler gets or got.
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// Its ended claims, oldest first.
    executions: Vec<Execution>,
    /// The recorded steps of its handler.
    steps: Vec<Step>,
}

/// An ended claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Execution {
    claim_no: u32,
    is_final: bool,
    outcome: String,
    node_id: Option<Id>,
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    error_type: Option<String>,
    error_message: Option<String>,
    fingerprint: Option<String>,
    claimed_at: Option<String>,
    finished_at: String,
}

/// A recorded step.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Step {
    name: String,
    claim_no: u32,
    error: Option<String>,
    started_at: String,
    finished_at: String,
}

/// Stored text that was JSON when it was accepted; if somebody wrote something else, it is left out.
fn raw(text: Option<String>) -> Option<Box<RawValue>> {
    text.and_then(|text| RawValue::from_string(text).ok())
}

impl Detail {
    fn of(detail: JobDetail) -> Detail {
        let execution = |view: ExecutionView| Execution {
            claim_no: view.claim_no,
            is_final: view.is_final,
            outcome: view.outcome.as_str().to_owned(),
            node_id: view.node.map(Id::of),
            output: raw(view.output),
            error_type: view.error_type,
            error_message: view.error_message,
            fingerprint: view.fingerprint,
            claimed_at: view.claimed_at.map(time),
            finished_at: time(view.finished_at),
        };
        let step = |view: StepView| Step {
            name: view.name,
            claim_no: view.claim_no,
            error: view.error,
            started_at: time(view.started_at),
            finished_at: time(view.finished_at),
        };
        Detail {
            job: Job::of(detail.job),
            input: raw(detail.input),
            executions: detail.executions.into_iter().map(execution).collect(),
            steps: detail.steps.into_iter().map(step).collect(),
        }
    }
}

/// One job, with its input and what became of its claims.
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "get_job", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = Detail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, at: At) -> Result<Json<Detail>, Problem> {
    let found = state.reading.job(JobId(id(&at.0, "job")?)).await?;
    found
        .map(|detail| Json(Detail::of(detail)))
        .ok_or_else(|| Problem::not_found(format_args!("job {}", at.0)))
}

/// What became of a request to cancel.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelAnswer {
    /// `cancelled`, or `asked`: it runs, and its node was told to stop it.
    became: &'static str,
}

/// Cancels a job: one that waits is over at once, one that runs is told to stop.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = CancelAnswer), (status = 202, body = CancelAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(state: State<App>, at: At) -> Result<Response, Problem> {
    let job = JobId(id(&at.0, "job")?);
    let answer = |status, became| Ok((status, Json(CancelAnswer { became })).into_response());
    match state.client.store().cancel(job).await? {
        Cancelled::Over => answer(StatusCode::OK, "cancelled"),
        Cancelled::Asked(_) => answer(StatusCode::ACCEPTED, "asked"),
        Cancelled::Before(state) => {
            let detail = format!("job {job} is over: {}", state.as_str());
            Err(Problem::new(StatusCode::CONFLICT, "job_over", detail))
        }
        Cancelled::Unknown => Err(Problem::not_found(format_args!("job {job}"))),
        Cancelled::Moving => {
            Err(Problem::new(StatusCode::CONFLICT, "job_moving", "it is just being taken; ask again"))
        }
    }
}

/// A line of a job's log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Line {
    claim_no: u32,
    line_no: u32,
    logged_at: String,
    level: String,
    target: String,
    message: String,
}

/// What the handlers of a job logged, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", operation_id = "job_logs", tag = "jobs", params(("id" = String, Path), Paging),
    responses((status = 200, body = Page<Line>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn logs(
    state: State<App>,
    at: At,
    asked: Asked<Paging>,
) -> Result<Json<Page<Line>>, Problem> {
    let after = cursor(asked.0.cursor.as_deref(), |text| {
        let (claim, line) = text.split_once('.')?;
        Some((claim.parse().ok()?, line.parse().ok()?))
    })?;
    let page = state.reading.log(JobId(id(&at.0, "job")?), after, limit(asked.0.limit)?).await?;
    let lines = page.items.into_iter().map(|(claim_no, line)| Line {
        claim_no,
        line_no: line.line_no,
        logged_at: time(line.logged_at),
        level: line.level,
        target: line.target,
        message: line.message,
    });
    Ok(Json(Page::new(lines.collect(), page.next.map(|(claim, line)| format!("{claim}.{line}")))))
}

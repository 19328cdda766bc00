//! Jobs to be: one, or many at once.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{Created, Creation, Enqueued, NewJob, Placed, UniqueKey, WhenTaken};
use lineclear_model::{Name, Payload};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::detail::Detail;
use crate::App;
use crate::api::input::input;
use crate::api::shape::{Id, due, name_at, unprocessable};
use crate::api::wait::{Prefer, PreferHeader};
use crate::audit::Note;
use crate::once::{KeyHeader, Keyed, Reply, make};
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
    /// Words to find it by: 16 names at most.
    #[serde(default)]
    #[schema(max_items = 16)]
    tags: Vec<String>,
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
            Some(raw) => input(raw, &at("input"))?,
            None => Payload::empty(),
        };
        let due_at = due(self.due_at.as_deref(), self.in_ms, pointer)?;
        let named = |text: &Option<String>, field: &str| {
            text.as_deref().map(|text| name_at(text, &at(field))).transpose()
        };
        let tag = |(n, text): (usize, &String)| name_at(text, &at(&format!("tags/{n}")));
        let tags = self.tags.iter().enumerate().map(tag).collect::<Result<Vec<_>, _>>()?;
        let tags = lineclear_model::tag::text(&tags);
        let job = NewJob::new(name_at(&self.kind, &at("kind"))?, input);
        let when_taken = match self.when_taken {
            Taken::Existing => WhenTaken::Existing,
            Taken::Same => WhenTaken::Same,
            Taken::Refuse => WhenTaken::Refuse,
            Taken::Replace => WhenTaken::Replace,
        };
        let job = NewJob {
            route: named(&self.route, "route")?.unwrap_or(job.route.clone()),
            group: named(&self.group, "group")?,
            priority: self.priority,
            due_at,
            unique_key: self.unique_key.map(|key| UniqueKey { key, keep: None, when_taken }),
            limit_key: self.limit_key,
            tags,
            retries: self.retries,
            timeout: self.timeout_ms.map(std::time::Duration::from_millis),
            ..job
        };
        job.check().map_err(|bad| {
            let field = if bad.field == "timeout" { "timeout_ms" } else { bad.field };
            Problem::from(bad.error).at(at(field))
        })?;
        Ok(job)
    }
}

/// A group that is not there is that of the first job that names it.
fn placed(problem: Problem, groups: &[(String, Option<Name>)]) -> Problem {
    let at = groups.iter().find(|(_, group)| {
        group.as_ref().is_some_and(|group| problem.is_about("group_unknown", &format!("group {group};")))
    });
    match at {
        Some((pointer, _)) => problem.at(format!("{pointer}/group")),
        None => problem,
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

/// What was made, or with `Prefer: wait` what became of it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) enum MadeOrOver {
    Made(Made),
    Over(Box<Detail>),
}

/// Makes a job.
#[utoipa::path(
    post, path = "/jobs", operation_id = "create_job", tag = "jobs", request_body = NewJobBody, params(KeyHeader, PreferHeader),
    security(("token" = ["operate"])),
    responses((status = 201, body = Made), (status = 200, body = MadeOrOver, description = "its unique key was taken; or with `Prefer: wait`, it is over"),
              (status = 202, body = Detail, description = "with `Prefer: wait`, it is not over"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create(
    state: State<App>,
    note: Note,
    trace: Trace,
    prefer: Prefer,
    asked: Keyed<NewJobBody>,
) -> Result<Response, Problem> {
    let reply = one(&state, &note, trace, asked).await?;
    prefer.reply(&state, reply).await
}

/// One job, wherever it was asked for.
pub(crate) async fn one(
    state: &App,
    note: &Note,
    trace: Trace,
    asked: Keyed<NewJobBody>,
) -> Result<Reply, Problem> {
    let job = NewJob { trace: trace.0, ..asked.body.read("")? };
    let groups = [(String::new(), job.group.clone())];
    let reply = make(&state.client, asked.once, Creation::Jobs(vec![job]), note, |created| {
        let Created::Jobs(jobs) = created else { return None };
        let enqueued = jobs.first()?;
        let status = if enqueued.placed == Placed::Inserted { StatusCode::CREATED } else { StatusCode::OK };
        Reply::new(status, Some(enqueued.id), &Made::of(enqueued))
    });
    reply.await.map_err(|problem| placed(problem, &groups))
}

/// Many jobs to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManyBody {
    /// The jobs: 1 to 1,000.
    #[schema(min_items = 1, max_items = 1000)]
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
    post, path = "/jobs/batch", operation_id = "create_jobs", tag = "jobs", request_body = ManyBody, params(KeyHeader),
    security(("token" = ["operate"])),
    responses((status = 201, body = ManyMade), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create_many(
    state: State<App>,
    note: Note,
    trace: Trace,
    asked: Keyed<ManyBody>,
) -> Result<Response, Problem> {
    let jobs = asked.body.jobs;
    if jobs.is_empty() {
        return Err(unprocessable("batch_empty", "no job is said; one at least").at("/jobs"));
    }
    if jobs.len() > JOBS_MAX {
        let detail = format!("{} jobs; one request makes {JOBS_MAX} at most", jobs.len());
        return Err(unprocessable("batch_max", detail).at("/jobs"));
    }
    let jobs = jobs.into_iter().enumerate().map(|(n, job)| {
        Ok::<_, Problem>(NewJob { trace: trace.0.clone(), ..job.read(&format!("/jobs/{n}"))? })
    });
    let jobs: Vec<NewJob> = jobs.collect::<Result<_, _>>()?;
    let group = |(n, job): (usize, &NewJob)| (format!("/jobs/{n}"), job.group.clone());
    let groups: Vec<_> = jobs.iter().enumerate().map(group).collect();
    let creation = Creation::Jobs(jobs);
    let reply = make(&state.client, asked.once, creation, &note, |created| {
        let Created::Jobs(jobs) = created else { return None };
        Reply::new(StatusCode::CREATED, None, &ManyMade { jobs: jobs.iter().map(Made::of).collect() })
    });
    Ok(reply.await.map_err(|problem| placed(problem, &groups))?.into_response())
}

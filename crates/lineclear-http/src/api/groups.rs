//! Groups: the limit, priority and switch that manifests and jobs share.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::read::GroupView;
use lineclear::store::{Created, Creation, ExpectedVersion, GLOBAL_GROUP, JobId, TriggerOptions};
use lineclear_model::{GroupSpec, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::etag::{IfMatch, etag, seen};
use super::page::{Page, Paging, cursor, limit};
use super::shape::{Asked, At, Id, name};
use crate::App;
use crate::audit::Note;
use crate::body::Body;
use crate::once::{KeyHeader, Keyed, Reply, make};
use crate::problem::Problem;
use crate::trace::Trace;

/// A group.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Group {
    /// `*` is everybody's.
    name: String,
    /// How many of its jobs may be in the hands of workers at once.
    limit: Option<u32>,
    priority: u8,
    enabled: bool,
    /// Its jobs that are in the hands of workers now.
    active: u64,
}

impl Group {
    fn of(view: GroupView) -> Group {
        let GroupView { name, limit, priority, enabled, active, version: _ } = view;
        Group { name, limit, priority, enabled, active }
    }
}

/// Lists groups by name.
#[utoipa::path(
    get, path = "/groups", operation_id = "list_groups", tag = "groups", security(("token" = ["read"])), params(Paging),
    responses((status = 200, body = Page<Group>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Paging>) -> Result<Json<Page<Group>>, Problem> {
    let after = cursor(asked.0.cursor.as_deref(), |text| (!text.is_empty()).then(|| text.to_owned()))?;
    let page = state.reading.groups(after.as_deref(), limit(asked.0.limit)?).await?;
    Ok(Json(Page::new(page.items.into_iter().map(Group::of).collect(), page.next)))
}

/// A group as it shall be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupBody {
    /// None: no limit. 0: nothing is handed over, and ticks still become jobs that wait.
    limit: Option<u32>,
    #[serde(default)]
    #[schema(maximum = 31)]
    priority: u8,
    #[serde(default = "yes")]
    enabled: bool,
}

fn yes() -> bool {
    true
}

/// Writes a group: it is so from now on, whatever it was. With `If-Match`, only if it is still the one you have seen.
#[utoipa::path(
    put, path = "/groups/{name}", operation_id = "put_group", tag = "groups", security(("token" = ["admin"])), params(("name" = String, Path), IfMatch),
    request_body = GroupBody,
    responses((status = 204, headers(("etag" = String))), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn put(
    state: State<App>,
    note: Note,
    at: At,
    headers: HeaderMap,
    body: Body<GroupBody>,
) -> Result<Response, Problem> {
    if at.0 != GLOBAL_GROUP {
        name(&at.0, "group")?;
    }
    let GroupBody { limit, priority, enabled } = body.0;
    let after = GroupSpec { limit, priority, enabled };
    let before = state.reading.group(&at.0).await?.map(|group| spec_of(&group));
    note.say(serde_json::json!({"before": before, "after": after}));
    edit(&state, &at.0, after, seen(&headers)).await
}

/// Writes it; the answer has its new tag.
async fn edit(
    state: &App,
    name: &str,
    spec: GroupSpec,
    seen: Option<ExpectedVersion>,
) -> Result<Response, Problem> {
    let fields = [("priority", "/priority"), ("limit", "/limit")];
    let written = state.client.store().edit_group(name, spec, seen).await;
    let version = written.map_err(|error| Problem::of_field(error, &fields))?;
    Ok((StatusCode::NO_CONTENT, [(header::ETAG, etag(version))]).into_response())
}

fn spec_of(group: &GroupView) -> GroupSpec {
    GroupSpec { limit: group.limit, priority: group.priority, enabled: group.enabled }
}

async fn find(state: &App, name: &str) -> Result<GroupView, Problem> {
    let found = state.reading.group(name).await?;
    found.ok_or_else(|| Problem::not_found(format_args!("group {name:?}")))
}

/// One group.
#[utoipa::path(
    get, path = "/groups/{name}", operation_id = "get_group", tag = "groups", params(("name" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Group, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, at: At) -> Result<Response, Problem> {
    let view = find(&state, &at.0).await?;
    Ok(([(header::ETAG, etag(view.version))], Json(Group::of(view))).into_response())
}

/// What is to change of a group; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupPatch {
    /// `null`: no limit.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<u32>)]
    limit: Option<Option<u32>>,
    #[schema(maximum = 31)]
    priority: Option<u8>,
    enabled: Option<bool>,
}

/// A field that is there, be it `null`.
fn said<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(field).map(Some)
}

/// Changes some of a group. What somebody else changes at the same moment is not undone: then it is refused (412), as with
/// `If-Match`.
#[utoipa::path(
    patch, path = "/groups/{name}", operation_id = "patch_group", tag = "groups", params(("name" = String, Path), IfMatch),
    request_body = GroupPatch,
    security(("token" = ["admin"])),
    responses((status = 204, headers(("etag" = String))), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn patch(
    state: State<App>,
    note: Note,
    at: At,
    headers: HeaderMap,
    body: Body<GroupPatch>,
) -> Result<Response, Problem> {
    let before = find(&state, &at.0).await?;
    let GroupPatch { limit, priority, enabled } = body.0;
    let spec = GroupSpec {
        limit: limit.unwrap_or(before.limit),
        priority: priority.unwrap_or(before.priority),
        enabled: enabled.unwrap_or(before.enabled),
    };
    note.say(serde_json::json!({"before": spec_of(&before), "after": spec}));
    // What was read here is what is changed, whatever else may do.
    let seen = match seen(&headers) {
        Some(ExpectedVersion::Versions(seen)) if !seen.contains(&before.version) => {
            ExpectedVersion::Versions(seen)
        }
        _ => ExpectedVersion::from(before.version),
    };
    edit(&state, &at.0, spec, Some(seen)).await
}

/// Jobs of a group that was run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupRun {
    jobs: Vec<GroupJob>,
}

/// A job, and the manifest it is of.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupJob {
    manifest: String,
    id: Id,
}

/// Nothing can be said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Runs all enabled manifests of a group once.
#[utoipa::path(
    post, path = "/groups/{name}/run", operation_id = "run_group", tag = "groups", security(("token" = ["operate"])), params(("name" = String, Path), KeyHeader),
    responses((status = 201, body = GroupRun), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn run(
    state: State<App>,
    note: Note,
    at: At,
    trace: Trace,
    asked: Keyed<Option<Nothing>>,
) -> Result<Response, Problem> {
    let group = name(&at.0, "group")?;
    let creation = Creation::RunGroup(group, TriggerOptions { trace: trace.0, ..TriggerOptions::default() });
    let reply = make(&state.client, asked.once, creation, &note, |created| {
        let Created::RunGroup(Some(jobs)) = created else { return None };
        let job = |(key, job): &(Name, JobId)| GroupJob { manifest: key.to_string(), id: Id::of(job) };
        Reply::new(StatusCode::CREATED, None, &GroupRun { jobs: jobs.iter().map(job).collect() })
    });
    Ok(reply.await?.into_response())
}

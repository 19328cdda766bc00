//! Groups: a limit, a priority and a pause switch that manifests and jobs share.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::read::GroupView;
use lineclear::store::{Created, Creation, ExpectedVersion, GLOBAL_GROUP, JobId, TriggerOptions};
use lineclear_model::{GroupSpec, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::api::etag::{IfMatch, etag, expected_version};
use crate::api::json_body::JsonBody;
use crate::api::json_types::{Id, PathParam, QueryParams, name};
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::audit::AuditDetails;
use crate::idempotency::{IdempotencyKeyHeader, KeyedBody, StoredReply, create_idempotently};
use crate::middleware::trace::TraceParent;
use crate::problem::Problem;

/// A group.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Group {
    /// The name; `*` is the global group.
    name: String,
    /// How many of its jobs workers may hold at once; null for no limit.
    limit: Option<u32>,
    priority: u8,
    enabled: bool,
    /// How many of its jobs workers hold now.
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
    get, path = "/groups", operation_id = "list_groups", tag = "groups", security(("token" = ["read"])), params(PageParams),
    responses((status = 200, body = Page<Group>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<Group>>, Problem> {
    let after = cursor(params.0.cursor.as_deref(), |text| (!text.is_empty()).then(|| text.to_owned()))?;
    let page = state.reading.groups(after.as_deref(), limit(params.0.limit)?).await?;
    Ok(Json(Page::new(page.items.into_iter().map(Group::of).collect(), page.next)))
}

/// A group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupBody {
    /// Null for no limit. With 0, no job is dispatched; ticks still become waiting jobs.
    limit: Option<u32>,
    #[serde(default)]
    #[schema(maximum = 31)]
    priority: u8,
    #[serde(default = "enabled_by_default")]
    enabled: bool,
}

fn enabled_by_default() -> bool {
    true
}

/// Creates or replaces a group. With `If-Match`, only if it has not changed since.
#[utoipa::path(
    put, path = "/groups/{name}", operation_id = "put_group", tag = "groups", security(("token" = ["admin"])), params(("name" = String, Path), IfMatch),
    request_body = GroupBody,
    responses((status = 204, headers(("etag" = String))), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn put(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    headers: HeaderMap,
    body: JsonBody<GroupBody>,
) -> Result<Response, Problem> {
    if path.0 != GLOBAL_GROUP {
        name(&path.0, "group")?;
    }
    let GroupBody { limit, priority, enabled } = body.0;
    let after = GroupSpec { limit, priority, enabled };
    let before = state.reading.group(&path.0).await?.map(|group| spec_of(&group));
    audit.set(serde_json::json!({"before": before, "after": after}));
    edit(&state, &path.0, after, expected_version(&headers)).await
}

/// Writes a group; the response has its new `ETag`.
async fn edit(
    state: &App,
    name: &str,
    spec: GroupSpec,
    expected: Option<ExpectedVersion>,
) -> Result<Response, Problem> {
    let fields = [("priority", "/priority"), ("limit", "/limit")];
    let written = state.client.store().edit_group(name, spec, expected).await;
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

/// Returns a group.
#[utoipa::path(
    get, path = "/groups/{name}", operation_id = "get_group", tag = "groups", params(("name" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Group, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, path: PathParam) -> Result<Response, Problem> {
    let view = find(&state, &path.0).await?;
    Ok(([(header::ETAG, etag(view.version))], Json(Group::of(view))).into_response())
}

/// Changes to a group; absent fields stay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupPatch {
    /// `null` for no limit.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>)]
    limit: Option<Option<u32>>,
    #[schema(maximum = 31)]
    priority: Option<u8>,
    enabled: Option<bool>,
}

/// A field that is present, possibly `null`.
fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(field).map(Some)
}

/// Changes fields of a group. A concurrent change is never lost: the request is refused (412), as with `If-Match`.
#[utoipa::path(
    patch, path = "/groups/{name}", operation_id = "patch_group", tag = "groups", params(("name" = String, Path), IfMatch),
    request_body = GroupPatch,
    security(("token" = ["admin"])),
    responses((status = 204, headers(("etag" = String))), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn patch(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    headers: HeaderMap,
    body: JsonBody<GroupPatch>,
) -> Result<Response, Problem> {
    let before = find(&state, &path.0).await?;
    let GroupPatch { limit, priority, enabled } = body.0;
    let spec = GroupSpec {
        limit: limit.unwrap_or(before.limit),
        priority: priority.unwrap_or(before.priority),
        enabled: enabled.unwrap_or(before.enabled),
    };
    audit.set(serde_json::json!({"before": spec_of(&before), "after": spec}));
    // The change applies to the version that was read above.
    let expected = match expected_version(&headers) {
        Some(ExpectedVersion::Versions(seen)) if !seen.contains(&before.version) => {
            ExpectedVersion::Versions(seen)
        }
        _ => ExpectedVersion::from(before.version),
    };
    edit(&state, &path.0, spec, Some(expected)).await
}

/// The jobs of a group run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupRun {
    jobs: Vec<GroupJob>,
}

/// A job and its manifest.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupJob {
    manifest: String,
    id: Id,
}

/// A body without fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmptyBody {}

/// Runs all enabled manifests of a group once.
#[utoipa::path(
    post, path = "/groups/{name}/run", operation_id = "run_group", tag = "groups", security(("token" = ["operate"])), params(("name" = String, Path), IdempotencyKeyHeader),
    responses((status = 201, body = GroupRun), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn run(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    trace: TraceParent,
    request: KeyedBody<Option<EmptyBody>>,
) -> Result<Response, Problem> {
    let group = name(&path.0, "group")?;
    let creation = Creation::RunGroup(group, TriggerOptions { trace: trace.0, ..TriggerOptions::default() });
    let reply = create_idempotently(&state.client, request.key, creation, &audit, |created| {
        let Created::RunGroup(Some(jobs)) = created else { return None };
        let job = |(key, job): &(Name, JobId)| GroupJob { manifest: key.to_string(), id: Id::of(job) };
        StoredReply::new(StatusCode::CREATED, None, &GroupRun { jobs: jobs.iter().map(job).collect() })
    });
    Ok(reply.await?.into_response())
}

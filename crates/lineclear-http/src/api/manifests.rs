//! Manifests: list, read, write, delete.

pub(crate) mod apply;
pub(super) mod backfill;
mod body;
pub(super) mod next;
pub(super) mod pause;
pub(super) mod run;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::read::ManifestView;
use lineclear::store::Written;
use lineclear_model::secret::Secrets;
use lineclear_model::{Manifest, Name, Payload};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

use super::etag::{IfMatch, etag, expected_version};
use super::json_body::{JsonBody, parse};
use super::json_types::{Id, PathParam, QueryParams, name, time, unprocessable};
use super::pagination::{Page, PageParams, cursor, limit};
use crate::App;
use crate::audit::{AuditDetails, changed_fields};
use crate::auth::Caller;
use crate::problem::Problem;
use body::{KeyedManifest, ManifestBody};

/// A manifest and its state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManifestResponse {
    id: Id,
    key: String,
    /// The manifest, in the form of a manifest file; null if the stored one cannot be read.
    #[schema(value_type = Option<KeyedManifest>)]
    manifest: Option<Manifest>,
    /// Why the stored manifest cannot be read.
    unreadable: Option<String>,
    /// It fires again when its dead letter is resolved.
    held: bool,
    next_due_at: Option<String>,
    last_success_at: Option<String>,
    last_success_job_id: Option<Id>,
}

impl ManifestResponse {
    fn of(view: ManifestView) -> ManifestResponse {
        let (manifest, unreadable) = match view.manifest {
            Ok(manifest) => (Some(without_secrets(manifest)), None),
            Err(why) => (None, Some(why)),
        };
        ManifestResponse {
            id: Id::of(view.id),
            key: view.key.to_string(),
            manifest,
            unreadable,
            held: view.held,
            next_due_at: view.next_due_at.map(time),
            last_success_at: view.last_success_at.map(time),
            last_success_job_id: view.last_success_job.map(Id::of),
        }
    }
}

/// The manifest with masked secrets.
fn without_secrets(manifest: Manifest) -> Manifest {
    let shown = Secrets::marked(&manifest.secret).mask(manifest.input.as_str());
    let input = shown.and_then(|text| Payload::parse_within(&text, usize::MAX).ok()).unwrap_or_default();
    Manifest { input, ..manifest }
}

/// Lists manifests by key.
#[utoipa::path(
    get, path = "/manifests", operation_id = "list_manifests", tag = "manifests", security(("token" = ["read"])), params(PageParams),
    responses((status = 200, body = Page<ManifestResponse>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<ManifestResponse>>, Problem> {
    let after = cursor(params.0.cursor.as_deref(), |text| Name::new(text).ok())?;
    let page = state.reading.manifests(after.as_ref(), limit(params.0.limit)?).await?;
    let items = page.items.into_iter().map(ManifestResponse::of).collect();
    Ok(Json(Page::new(items, page.next.map(|key| key.to_string()))))
}

async fn find(state: &App, key: &str) -> Result<ManifestView, Problem> {
    let key = name(key, "manifest")?;
    let found = state.reading.manifest(&key).await?;
    found.ok_or_else(|| Problem::not_found(format_args!("manifest {key}")))
}

/// Returns a manifest.
#[utoipa::path(
    get, path = "/manifests/{key}", operation_id = "get_manifest", tag = "manifests", security(("token" = ["read"])), params(("key" = String, Path)),
    responses((status = 200, body = ManifestResponse, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, path: PathParam) -> Result<Response, Problem> {
    let view = find(&state, &path.0).await?;
    let tag = etag(view.version);
    Ok(([(header::ETAG, tag)], Json(ManifestResponse::of(view))).into_response())
}

/// The result of writing a manifest.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManifestWritten {
    key: String,
    /// `created`, `updated` or `unchanged`.
    became: &'static str,
}

/// Creates or replaces a manifest. With `If-Match`, only if it has not changed since.
#[utoipa::path(
    put, path = "/manifests/{key}", operation_id = "put_manifest", tag = "manifests", security(("token" = ["admin"])), params(("key" = String, Path), IfMatch), request_body = ManifestBody,
    responses((status = 200, body = ManifestWritten, headers(("etag" = String))), (status = 201, body = ManifestWritten, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn put(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    headers: HeaderMap,
    body: JsonBody<BTreeMap<String, Box<RawValue>>>,
) -> Result<Response, Problem> {
    let key = name(&path.0, "manifest")?;
    let manifest = read(&key, body.0)?;
    let checked = state.client.check_input(&manifest.kind, &manifest.input);
    checked.map_err(|error| Problem::from(error).at("/input"))?;
    let before = state.reading.manifest(&key).await?;
    // As the store will keep it.
    let after = Manifest { overlap: Some(manifest.overlap()), ..manifest.clone() };
    let fields = before.as_ref().and_then(|view| Some(changed_fields(view.manifest.as_ref().ok()?, &after)));
    let edited = state.client.store().edit_manifest(manifest, expected_version(&headers)).await;
    let edited = edited.map_err(|error| {
        Problem::from(error)
            .locate(|location| Some(field_pointer(location.field)).filter(|at| !at.is_empty()))
    })?;
    let (status, became) = match edited.became {
        Written::Created => (StatusCode::CREATED, "created"),
        Written::Updated => (StatusCode::OK, "updated"),
        Written::Unchanged => (StatusCode::OK, "unchanged"),
    };
    let before = before.map(|view| view.version);
    audit.set(serde_json::json!({"version_before": before, "became": became, "fields": fields}));
    let answer = Json(ManifestWritten { key: key.to_string(), became });
    Ok((status, [(header::ETAG, etag(edited.version))], answer).into_response())
}

/// The JSON pointer to a field of a manifest, such as `schedule.after`; empty for the whole manifest.
fn field_pointer(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("/{}", field.replace('.', "/")) }
}

/// Deletes a manifest. Its waiting scheduled jobs are cancelled; running and triggered jobs continue, and its history, ticks and dead
/// letters remain. Refused (409) while other manifests depend on it. With `If-Match`, only if it has not changed since.
#[utoipa::path(
    delete, path = "/manifests/{key}", operation_id = "delete_manifest", tag = "manifests", params(("key" = String, Path), IfMatch),
    security(("token" = ["admin"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn delete(
    state: State<App>,
    audit: AuditDetails,
    caller: Caller,
    path: PathParam,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let key = name(&path.0, "manifest")?;
    let before = state.reading.manifest(&key).await?.map(|view| view.version);
    audit.set(serde_json::json!({"version_before": before}));
    let removed = state
        .client
        .store()
        .remove_manifest(key.clone(), expected_version(&headers), &caller.0.audit_name())
        .await?;
    found(if removed { vec![key.clone()] } else { Vec::new() }, &key)
}

/// Reads a manifest whose key is in the path. The input stays as it was written.
fn read(key: &Name, mut body: BTreeMap<String, Box<RawValue>>) -> Result<Manifest, Problem> {
    let given = body.insert("key".to_owned(), to_raw_value(key.as_str()).expect("a string is JSON"));
    if given.is_some_and(|given| serde_json::from_str(given.get()).ok() != Some(key.to_string())) {
        return Err(unprocessable("key", "`key` must be the key in the path, or absent").at("/key"));
    }
    let text = serde_json::to_string(&body).expect("a map of JSON is JSON");
    let manifest: Manifest =
        parse(&text).map_err(|(why, pointer)| unprocessable("manifest", why).at(pointer))?;
    manifest
        .check()
        .map_err(|bad| unprocessable("manifest", bad.message.clone()).at(field_pointer(bad.field)))?;
    Ok(manifest)
}

/// 204, or 404 if the manifest does not exist.
pub(super) fn found(found: Vec<Name>, key: &Name) -> Result<StatusCode, Problem> {
    let is_there = found.contains(key);
    is_there
        .then_some(StatusCode::NO_CONTENT)
        .ok_or_else(|| Problem::not_found(format_args!("manifest {key}")))
}

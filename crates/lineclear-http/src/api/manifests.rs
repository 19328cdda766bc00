//! Manifests: declared by key, looked at, run, paused.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::read::ManifestView;
use lineclear::store::{BackfillOptions, Created, Creation, TriggerOptions, Written};
use lineclear_model::secret::Secrets;
use lineclear_model::{Manifest, Micros, Name, Payload, preview};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::{IntoParams, ToSchema};

use super::etag::{IfMatch, etag, seen};
use super::input::input as read_input;
use super::jobs::detail::Detail;
use super::manifest_body::{KeyedManifest, ManifestBody};
use super::page::{Page, Paging, cursor, limit};
use super::shape::{Asked, At, Id, due, moment, name, time, unprocessable};
use super::wait::{Prefer, PreferHeader};
use crate::App;
use crate::access::Who;
use crate::audit::{Note, differing};
use crate::body::{Body, parse};
use crate::once::{KeyHeader, Keyed, Reply, make};
use crate::problem::Problem;
use crate::trace::Trace;

/// A manifest, and how it fares.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManifestShape {
    id: Id,
    key: String,
    /// What it says, in the form of a manifest file; none if what is stored cannot be read.
    #[schema(value_type = Option<KeyedManifest>)]
    manifest: Option<Manifest>,
    /// Why it cannot be read.
    unreadable: Option<String>,
    /// It waits for a person to look at its dead letter.
    held: bool,
    next_due_at: Option<String>,
    last_success_at: Option<String>,
    last_success_job_id: Option<Id>,
}

impl ManifestShape {
    fn of(view: ManifestView) -> ManifestShape {
        let (manifest, unreadable) = match view.manifest {
            Ok(manifest) => (Some(without_secrets(manifest)), None),
            Err(why) => (None, Some(why)),
        };
        ManifestShape {
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

/// With dots in place of secrets.
fn without_secrets(manifest: Manifest) -> Manifest {
    let shown = Secrets::marked(&manifest.secret).mask(manifest.input.as_str());
    let input = shown.and_then(|text| Payload::parse_within(&text, usize::MAX).ok()).unwrap_or_default();
    Manifest { input, ..manifest }
}

/// Lists manifests by key.
#[utoipa::path(
    get, path = "/manifests", operation_id = "list_manifests", tag = "manifests", security(("token" = ["read"])), params(Paging),
    responses((status = 200, body = Page<ManifestShape>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    asked: Asked<Paging>,
) -> Result<Json<Page<ManifestShape>>, Problem> {
    let after = cursor(asked.0.cursor.as_deref(), |text| Name::new(text).ok())?;
    let page = state.reading.manifests(after.as_ref(), limit(asked.0.limit)?).await?;
    let items = page.items.into_iter().map(ManifestShape::of).collect();
    Ok(Json(Page::new(items, page.next.map(|key| key.to_string()))))
}

async fn find(state: &App, key: &str) -> Result<ManifestView, Problem> {
    let key = name(key, "manifest")?;
    let found = state.reading.manifest(&key).await?;
    found.ok_or_else(|| Problem::not_found(format_args!("manifest {key}")))
}

/// One manifest.
#[utoipa::path(
    get, path = "/manifests/{key}", operation_id = "get_manifest", tag = "manifests", security(("token" = ["read"])), params(("key" = String, Path)),
    responses((status = 200, body = ManifestShape, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, at: At) -> Result<Response, Problem> {
    let view = find(&state, &at.0).await?;
    let tag = etag(view.version);
    Ok(([(header::ETAG, tag)], Json(ManifestShape::of(view))).into_response())
}

/// What became of a manifest that was written.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WrittenAnswer {
    key: String,
    /// `created`, `updated` or `unchanged`.
    became: &'static str,
}

/// Writes a manifest: it is so from now on, whatever it was. With `If-Match`, only if it is still the one you have seen.
#[utoipa::path(
    put, path = "/manifests/{key}", operation_id = "put_manifest", tag = "manifests", security(("token" = ["admin"])), params(("key" = String, Path), IfMatch), request_body = ManifestBody,
    responses((status = 200, body = WrittenAnswer, headers(("etag" = String))), (status = 201, body = WrittenAnswer, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn put(
    state: State<App>,
    note: Note,
    at: At,
    headers: HeaderMap,
    body: Body<BTreeMap<String, Box<RawValue>>>,
) -> Result<Response, Problem> {
    let key = name(&at.0, "manifest")?;
    let manifest = read(&key, body.0)?;
    let checked = state.client.check_input(&manifest.kind, &manifest.input);
    checked.map_err(|error| Problem::from(error).at("/input"))?;
    let before = state.reading.manifest(&key).await?;
    // As it will be stored.
    let after = Manifest { overlap: Some(manifest.overlap()), ..manifest.clone() };
    let fields = before.as_ref().and_then(|view| Some(differing(view.manifest.as_ref().ok()?, &after)));
    let edited = state.client.store().edit_manifest(manifest, seen(&headers)).await;
    let edited = edited.map_err(|error| Problem::of_field(error, &RULES))?;
    let (status, became) = match edited.became {
        Written::Created => (StatusCode::CREATED, "created"),
        Written::Updated => (StatusCode::OK, "updated"),
        Written::Unchanged => (StatusCode::OK, "unchanged"),
    };
    let before = before.map(|view| view.version);
    note.say(serde_json::json!({"version_before": before, "became": became, "fields": fields}));
    let answer = Json(WrittenAnswer { key: key.to_string(), became });
    Ok((status, [(header::ETAG, etag(edited.version))], answer).into_response())
}

/// Which field of a manifest a rule of the store is about.
pub(super) const RULES: [(&str, &str); 4] = [
    ("group_unknown", "/group"),
    ("parent_unknown", "/schedule/after"),
    ("manifest_cycle", "/schedule/after"),
    ("manifest_owner", "/owner"),
];

/// Removes a manifest. Jobs that wait because it was due are cancelled; those that run, or that somebody asked for, go on, and its history,
/// ledger and dead letters stay. Refused (409) while others wait for it. With `If-Match`, only if it is still the one you have seen.
#[utoipa::path(
    delete, path = "/manifests/{key}", operation_id = "delete_manifest", tag = "manifests", params(("key" = String, Path), IfMatch),
    security(("token" = ["admin"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn delete(
    state: State<App>,
    note: Note,
    by: Who,
    at: At,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let key = name(&at.0, "manifest")?;
    let before = state.reading.manifest(&key).await?.map(|view| view.version);
    note.say(serde_json::json!({"version_before": before}));
    let removed = state.client.store().remove_manifest(key.clone(), seen(&headers), &by.0.who()).await?;
    found(if removed { vec![key.clone()] } else { Vec::new() }, &key)
}

/// The manifest of a body whose key the path has. Its input is never parsed: it is kept as it was written.
fn read(key: &Name, mut body: BTreeMap<String, Box<RawValue>>) -> Result<Manifest, Problem> {
    let said = body.insert("key".to_owned(), to_raw_value(key.as_str()).expect("a text is JSON"));
    if said.is_some_and(|said| serde_json::from_str(said.get()).ok() != Some(key.to_string())) {
        return Err(unprocessable("key", "the path names another manifest").at("/key"));
    }
    let text = serde_json::to_string(&body).expect("a map of JSON is JSON");
    let manifest: Manifest =
        parse(&text).map_err(|(why, pointer)| unprocessable("manifest", why).at(pointer))?;
    manifest.check().map_err(|bad| {
        unprocessable("manifest", bad.message.clone()).at(format!("/{}", bad.field.replace('.', "/")))
    })?;
    Ok(manifest)
}

/// How to run a manifest once.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBody {
    /// Another input for this job.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// Not before; RFC 3339.
    due_at: Option<String>,
    /// Not before so many milliseconds from now.
    in_ms: Option<i64>,
}

/// The job that a manifest was run as.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunAnswer {
    id: Id,
}

/// Runs a manifest once, now or later, beside its schedule.
#[utoipa::path(
    post, path = "/manifests/{key}/run", operation_id = "run_manifest", tag = "manifests", security(("token" = ["operate"])), params(("key" = String, Path), KeyHeader, PreferHeader), request_body = Option<RunBody>,
    responses((status = 201, body = RunAnswer), (status = 200, body = Detail, description = "with `Prefer: wait`, it is over"),
              (status = 202, body = Detail, description = "with `Prefer: wait`, it is not over"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn run(
    state: State<App>,
    note: Note,
    at: At,
    trace: Trace,
    prefer: Prefer,
    asked: Keyed<Option<RunBody>>,
) -> Result<Response, Problem> {
    let key = name(&at.0, "manifest")?;
    let RunBody { input, due_at, in_ms } = asked.body.unwrap_or_default();
    let input = input.map(|raw| read_input(&raw, "/input")).transpose()?;
    let due_field = if due_at.is_some() { "/due_at" } else { "/in_ms" };
    let due_at = due(due_at.as_deref(), in_ms, "")?;
    let creation = Creation::Run(key, TriggerOptions { input, due_at, trace: trace.0 });
    let reply = make(&state.client, asked.once, creation, &note, |created| {
        let Created::Run(Some(job)) = created else { return None };
        Reply::new(StatusCode::CREATED, Some(*job), &RunAnswer { id: Id::of(job) })
    });
    let reply = reply.await.map_err(|problem| problem.when("due_at", due_field).when("input", "/input"))?;
    prefer.reply(&state, reply).await
}

/// Pauses a manifest: it plans nothing, and what waits, waits.
#[utoipa::path(
    post, path = "/manifests/{key}/pause", operation_id = "pause_manifest", tag = "manifests", security(("token" = ["operate"])), params(("key" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn pause(state: State<App>, at: At) -> Result<StatusCode, Problem> {
    let key = name(&at.0, "manifest")?;
    found(state.client.store().pause(vec![key.clone()]).await?, &key)
}

/// Resumes a manifest.
#[utoipa::path(
    post, path = "/manifests/{key}/resume", operation_id = "resume_manifest", tag = "manifests", security(("token" = ["operate"])), params(("key" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn resume(state: State<App>, at: At) -> Result<StatusCode, Problem> {
    let key = name(&at.0, "manifest")?;
    found(state.client.store().resume(vec![key.clone()]).await?, &key)
}

fn found(found: Vec<Name>, key: &Name) -> Result<StatusCode, Problem> {
    let is_there = found.contains(key);
    is_there
        .then_some(StatusCode::NO_CONTENT)
        .ok_or_else(|| Problem::not_found(format_args!("manifest {key}")))
}

/// How many ticks to look ahead.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Ahead {
    /// 1 to 1,000, and 10 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    n: Option<u32>,
}

/// A tick that will come.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Coming {
    tick_at: String,
    /// When its job may be taken: the tick plus its share of the jitter.
    due_at: String,
}

/// The next ticks of a manifest.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NextAnswer {
    ticks: Vec<Coming>,
    /// The search was given up here: after the last of the ticks, all up to this one are excluded.
    excluded_through: Option<String>,
}

/// The next ticks of a manifest, as its planner will see them. A paused manifest has none.
#[utoipa::path(
    get, path = "/manifests/{key}/next", operation_id = "next_manifest", tag = "manifests", security(("token" = ["read"])), params(("key" = String, Path), Ahead),
    responses((status = 200, body = NextAnswer), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn next(
    state: State<App>,
    at: At,
    asked: Asked<Ahead>,
) -> Result<Json<NextAnswer>, Problem> {
    let most = limit(asked.0.n.or(Some(10)))? as usize;
    let view = find(&state, &at.0).await?;
    let manifest = view.manifest.map_err(|why| Problem::new(StatusCode::CONFLICT, "unreadable", why))?;
    if !manifest.enabled {
        return Ok(Json(NextAnswer { ticks: Vec::new(), excluded_through: None }));
    }
    let now = Micros::from(jiff::Timestamp::now());
    // It only computes: where much is excluded, for longer than others should wait for this thread.
    let looked = tokio::task::spawn_blocking(move || preview(&manifest.rules(), &manifest.key, now, most));
    let ahead = looked.await.map_err(|_| crate::server::defect())?;
    let ticks =
        ahead.ticks.into_iter().map(|tick| Coming { tick_at: time(tick.tick_at), due_at: time(tick.due_at) });
    Ok(Json(NextAnswer { ticks: ticks.collect(), excluded_through: ahead.excluded_through.map(time) }))
}

/// Which ticks of the past to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackfillBody {
    /// From this moment; RFC 3339.
    from: String,
    /// Up to and without this moment.
    to: String,
}

/// What became of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BackfillAnswer {
    /// The new jobs, in the order of their ticks.
    jobs: Vec<Id>,
    /// Ticks that had run before.
    known: u64,
    /// There are more than one call looks at: go on from here.
    next: Option<String>,
    /// From here on ticks are still the planner's.
    undecided_from: Option<String>,
}

/// Runs ticks of the past that did not run.
#[utoipa::path(
    post, path = "/manifests/{key}/backfill", operation_id = "backfill_manifest", tag = "manifests", security(("token" = ["operate"])),
    params(("key" = String, Path), KeyHeader), request_body = BackfillBody,
    responses((status = 201, body = BackfillAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn backfill(
    state: State<App>,
    note: Note,
    at: At,
    asked: Keyed<BackfillBody>,
) -> Result<Response, Problem> {
    let key = name(&at.0, "manifest")?;
    let (from, to) = (moment(&asked.body.from, "/from")?, moment(&asked.body.to, "/to")?);
    let creation = Creation::Backfill { key, from, to, options: BackfillOptions::default() };
    let reply = make(&state.client, asked.once, creation, &note, |created| {
        let Created::Backfill(Some(done)) = created else { return None };
        let answer = BackfillAnswer {
            jobs: done.jobs.iter().map(Id::of).collect(),
            known: done.known,
            next: done.next.map(time),
            undecided_from: done.undecided_from.map(time),
        };
        Reply::new(StatusCode::CREATED, None, &answer)
    });
    // Which of the two it is, the rule does not say; it is the range, which begins with the first.
    Ok(reply.await.map_err(|problem| problem.when("backfill", "/from"))?.into_response())
}

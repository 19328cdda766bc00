//! The dashboard: pages that the server renders, and that work without any script.
//!
//! `show` renders whatever page an address names. A page is a list of regions; `live.rs` renders the same page again while somebody
//! looks at it, and sends the regions that changed. What a page offers to do is a page of its own (`GET`), which says what will
//! happen and how the command line says it; its form (`POST`) calls what the API calls.

mod action;
mod assets;
mod batch_mode;
mod batches;
mod cluster;
mod dead;
mod enqueue;
mod export;
mod frame;
mod job;
mod jobs;
mod live;
mod login;
mod overview;
mod part;
mod people;
mod samples;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use lineclear_model::{Scope, Scopes};
use maud::Markup;
use serde::de::DeserializeOwned;

use crate::App;
use crate::access::{Need, Who};
use crate::problem::Problem;

pub(crate) use live::Hub;
pub(crate) use people::{Said, for_people};
pub use samples::SAMPLE;

/// What pages may load and do: only what is ours.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const READ: Need = Need::Scope(Scope::Read);
const OPERATE: Need = Need::Scope(Scope::Operate);
const ADMIN: Need = Need::Scope(Scope::Admin);

/// Every route of the dashboard: method, path, what the audit calls it, and what it needs.
pub(crate) const ROUTES: &[(&str, &str, &str, Need)] = &[
    ("GET", "/", "page", READ),
    ("GET", "/jobs", "page", READ),
    ("GET", "/jobs/{id}", "page", READ),
    ("GET", "/jobs/{id}/cancel", "page", OPERATE),
    ("POST", "/jobs/{id}/cancel", "cancel_job", OPERATE),
    ("GET", "/jobs/{id}/retry", "page", OPERATE),
    ("POST", "/jobs/{id}/retry", "retry_job", OPERATE),
    ("GET", "/enqueue", "page", OPERATE),
    ("POST", "/enqueue", "create_job", OPERATE),
    ("GET", "/jobs.csv", "page", READ),
    ("GET", "/jobs.ndjson", "page", READ),
    ("GET", "/dead-letters.csv", "page", READ),
    ("GET", "/dead-letters.ndjson", "page", READ),
    ("GET", "/batches.csv", "page", READ),
    ("GET", "/batches.ndjson", "page", READ),
    ("GET", "/dead-letters", "page", READ),
    ("GET", "/batches", "page", READ),
    ("GET", "/batches/new", "page", OPERATE),
    ("POST", "/batches/new", "create_batch", OPERATE),
    ("GET", "/batches/{id}", "page", READ),
    ("POST", "/batches/{id}/cancel", "cancel_bulk_operation", OPERATE),
    ("GET", "/samples", "page", ADMIN),
    ("POST", "/samples", "apply_manifests", ADMIN),
    ("GET", "/cluster", "page", READ),
    ("GET", "/nodes.csv", "page", READ),
    ("GET", "/nodes.ndjson", "page", READ),
    ("GET", "/locks.csv", "page", READ),
    ("GET", "/locks.ndjson", "page", READ),
    ("GET", "/nodes/{id}/drain", "page", OPERATE),
    ("POST", "/nodes/{id}/drain", "drain_node", OPERATE),
    ("GET", "/nodes/{id}/resume", "page", OPERATE),
    ("POST", "/nodes/{id}/resume", "resume_node", OPERATE),
    ("GET", "/locks/{name}/break", "page", OPERATE),
    ("POST", "/locks/{name}/break", "break_lock", OPERATE),
    ("GET", "/live", "page", READ),
    ("GET", "/login", "page", Need::Nothing),
    ("POST", "/login", "log_in", Need::Nothing),
    ("POST", "/logout", "log_out", READ),
    ("GET", "/assets/{name}", "page", Need::Nothing),
];

/// Whether a path is for people: what is refused there is said in a page.
pub(crate) fn is_page(path: &str) -> bool {
    !path.starts_with("/api") && !matches!(path, "/livez" | "/readyz" | "/metrics")
}

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(show))
        .route("/jobs", get(show))
        .route("/jobs/{id}", get(show))
        .route("/jobs/{id}/cancel", get(show).post(job::change::cancel))
        .route("/jobs/{id}/retry", get(show).post(job::change::retry))
        .route("/enqueue", get(show).post(enqueue::enqueue))
        .route("/jobs.csv", get(export::file))
        .route("/jobs.ndjson", get(export::file))
        .route("/dead-letters.csv", get(export::file))
        .route("/dead-letters.ndjson", get(export::file))
        .route("/batches.csv", get(export::file))
        .route("/batches.ndjson", get(export::file))
        .route("/dead-letters", get(show))
        .route("/batches", get(show))
        .route("/batches/new", get(show).post(batches::create))
        .route("/batches/{id}", get(show))
        .route("/batches/{id}/cancel", post(batches::cancel))
        .route("/samples", get(show).post(samples::change))
        .route("/cluster", get(show))
        .route("/nodes.csv", get(export::file))
        .route("/nodes.ndjson", get(export::file))
        .route("/locks.csv", get(export::file))
        .route("/locks.ndjson", get(export::file))
        .route("/nodes/{id}/drain", get(show).post(cluster::change::drain))
        .route("/nodes/{id}/resume", get(show).post(cluster::change::resume))
        .route("/locks/{name}/break", get(show).post(cluster::take_away::take))
        .route("/live", get(live::stream))
        .route("/login", get(login::page).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/assets/{name}", get(assets::file))
}

/// What a page is made with.
pub(crate) struct View<'a> {
    pub(crate) app: &'a App,
    /// What whoever looks may do: a page offers nothing else.
    pub(crate) scopes: &'a Scopes,
    /// What stands in the address.
    pub(crate) uri: &'a Uri,
}

impl View<'_> {
    /// A link to another page, or an address of a form.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.app.base)
    }

    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.include(scope)
    }

    /// The parameters after `?`; unknown ones are refused by the types that take them.
    pub(crate) fn asked<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        axum::extract::Query::<T>::try_from_uri(self.uri)
            .map(|axum::extract::Query(asked)| asked)
            .map_err(|rejection| Problem::malformed("query", rejection.body_text()))
    }
}

/// A page.
pub(crate) struct Page {
    /// Without the name of the product.
    pub(crate) title: String,
    /// Which entry of the rail it belongs to.
    pub(crate) tab: Tab,
    pub(crate) regions: Vec<Region>,
    /// Whether it changes by itself while somebody looks.
    pub(crate) live: bool,
}

/// A part of a page that is sent again when it changes.
#[derive(Clone)]
pub(crate) struct Region {
    /// Unique in its page.
    pub(crate) id: &'static str,
    pub(crate) html: Markup,
}

impl Region {
    pub(crate) fn new(id: &'static str, html: Markup) -> Region {
        Region { id, html }
    }
}

/// Entries of the rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Overview,
    Jobs,
    Enqueue,
    Dead,
    Cluster,
    None,
}

/// Any page: what is at this address, for whoever has these scopes.
pub(crate) async fn render(view: &View<'_>) -> Result<Page, Problem> {
    let segments: Vec<&str> = view.uri.path().trim_matches('/').split('/').collect();
    match segments.as_slice() {
        [""] => overview::page(view).await,
        ["jobs"] => jobs::page(view).await,
        ["jobs", id] => job::page(view, id).await,
        ["jobs", id, "cancel"] => job::change::ask_cancel(view, id).await,
        ["jobs", id, "retry"] => job::change::ask_retry(view, id).await,
        ["enqueue"] => enqueue::page(view).await,
        ["samples"] => samples::page(view).await,
        ["dead-letters"] => dead::page(view).await,
        ["batches"] => batches::list(view).await,
        ["batches", "new"] => batches::ask(view).await,
        ["batches", id] => batches::one(view, id).await,
        ["cluster"] => cluster::page(view).await,
        ["nodes", id, "drain"] => cluster::change::ask_drain(view, id).await,
        ["nodes", id, "resume"] => cluster::change::ask_resume(view, id).await,
        ["locks", name, "break"] => cluster::take_away::ask(view, name).await,
        _ => Err(Problem::not_found("such page")),
    }
}

/// Whether a page can change by itself. What only asks something is not rendered again and again.
fn can_be_live(uri: &Uri) -> bool {
    let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["" | "jobs" | "dead-letters" | "batches" | "cluster"] => true,
        ["jobs" | "batches", id] => *id != "new",
        _ => false,
    }
}

async fn show(State(app): State<App>, who: Who, request: Request) -> Result<Response, Problem> {
    let view = View { app: &app, scopes: &who.0.scopes, uri: request.uri() };
    let page = render(&view).await?;
    let frame = frame::Frame::of(&app, Some(&who.0), request.headers(), request.uri());
    Ok(answer(StatusCode::OK, frame.around(page)))
}

/// A document for a browser.
fn answer(status: StatusCode, html: Markup) -> Response {
    let mut response = (status, Html(html.into_string())).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

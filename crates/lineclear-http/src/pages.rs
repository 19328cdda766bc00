//! The dashboard: pages that the server renders, and that work without a script.
//!
//! `show` renders the page of a path. A page is a list of regions; `live.rs` renders it again while browsers watch it, and sends the
//! regions that changed. Each action has a page (`GET`) that says what will happen and shows the CLI command; its form
//! (`POST`) calls the handler of the API.

pub(crate) mod api_docs;
mod assets;
mod bulk_operations;
mod cluster;
mod components;
mod confirm;
mod dead_letters;
mod error_page;
mod export;
mod jobs;
mod layout;
mod live;
mod locks;
mod nodes;
mod outboxes;
mod overview;
mod runners;
mod samples;
mod session;
mod subscriptions;
mod triage;
mod hidden_characters;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use lineclear_model::{Scope, Scopes};
use maud::{Markup, html};
use serde::de::DeserializeOwned;

use crate::App;
use crate::api::triage::Triage;
use crate::auth::{Caller, Requirement};
use crate::problem::Problem;

pub(crate) use error_page::{ProblemSummary, error_page};
pub(crate) use live::LivePages;
pub use samples::SAMPLE;

/// Pages load only our own files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const READ: Requirement = Requirement::Scope(Scope::Read);
const OPERATE: Requirement = Requirement::Scope(Scope::Operate);
const ADMIN: Requirement = Requirement::Scope(Scope::Admin);

/// Every route of the dashboard: method, path, the action in the audit, and the requirement.
pub(crate) const ROUTES: &[(&str, &str, &str, Requirement)] = &[
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
    ("GET", "/bulk-operations.csv", "page", READ),
    ("GET", "/bulk-operations.ndjson", "page", READ),
    ("GET", "/dead-letters", "page", READ),
    ("GET", "/bulk-operations", "page", READ),
    ("GET", "/bulk-operations/new", "page", OPERATE),
    ("POST", "/bulk-operations/new", "create_bulk_operation", OPERATE),
    ("GET", "/bulk-operations/{id}", "page", READ),
    ("POST", "/bulk-operations/{id}/cancel", "cancel_bulk_operation", OPERATE),
    ("GET", "/samples", "page", ADMIN),
    ("POST", "/samples", "apply_manifests", ADMIN),
    ("GET", "/outbox", "page", READ),
    ("GET", "/outbox/{name}", "page", READ),
    ("GET", "/outbox/{name}/messages/{id}", "page", READ),
    ("GET", "/outbox/{name}/replay", "page", OPERATE),
    ("POST", "/outbox/{name}/replay", "replay_outbox_messages", OPERATE),
    ("GET", "/outbox/{name}/discard", "page", OPERATE),
    ("POST", "/outbox/{name}/discard", "discard_outbox_messages", OPERATE),
    ("GET", "/subscriptions", "page", READ),
    ("GET", "/subscriptions/{name}", "page", READ),
    ("GET", "/subscriptions/{name}/parked/{id}", "page", READ),
    ("GET", "/subscriptions/{name}/replay", "page", OPERATE),
    ("POST", "/subscriptions/{name}/replay", "replay_parked_events", OPERATE),
    ("GET", "/subscriptions/{name}/discard", "page", OPERATE),
    ("POST", "/subscriptions/{name}/discard", "discard_parked_events", OPERATE),
    ("GET", "/subscriptions/{name}/pause", "page", OPERATE),
    ("POST", "/subscriptions/{name}/pause", "pause_subscription", OPERATE),
    ("GET", "/subscriptions/{name}/resume", "page", OPERATE),
    ("POST", "/subscriptions/{name}/resume", "resume_subscription", OPERATE),
    ("GET", "/subscriptions/{name}/skip", "page", OPERATE),
    ("POST", "/subscriptions/{name}/skip", "skip_subscription_event", OPERATE),
    ("GET", "/subscriptions/{name}/reset", "page", OPERATE),
    ("POST", "/subscriptions/{name}/reset", "reset_subscription", OPERATE),
    ("GET", "/subscriptions/{name}/rebuild", "page", OPERATE),
    ("POST", "/subscriptions/{name}/rebuild", "rebuild_subscription", OPERATE),
    ("GET", "/subscriptions/{name}/swap", "page", OPERATE),
    ("POST", "/subscriptions/{name}/swap", "swap_subscription_rebuild", OPERATE),
    ("GET", "/subscriptions/{name}/cancel-rebuild", "page", OPERATE),
    ("POST", "/subscriptions/{name}/cancel-rebuild", "cancel_subscription_rebuild", OPERATE),
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
    ("GET", "/login", "page", Requirement::Public),
    ("POST", "/login", "log_in", Requirement::Public),
    ("POST", "/logout", "log_out", READ),
    ("GET", "/assets/{name}", "page", Requirement::Public),
];

/// Whether a path belongs to the dashboard, where problems become error pages.
pub(crate) fn is_page(path: &str) -> bool {
    !path.starts_with("/api") && !matches!(path, "/livez" | "/readyz" | "/metrics")
}

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(show))
        .route("/jobs", get(show))
        .route("/jobs/{id}", get(show))
        .route("/jobs/{id}/cancel", get(show).post(jobs::cancel::cancel))
        .route("/jobs/{id}/retry", get(show).post(jobs::retry::retry))
        .route("/enqueue", get(show).post(jobs::enqueue::enqueue))
        .route("/jobs.csv", get(export::file))
        .route("/jobs.ndjson", get(export::file))
        .route("/dead-letters.csv", get(export::file))
        .route("/dead-letters.ndjson", get(export::file))
        .route("/bulk-operations.csv", get(export::file))
        .route("/bulk-operations.ndjson", get(export::file))
        .route("/dead-letters", get(show))
        .route("/bulk-operations", get(show))
        .route("/bulk-operations/new", get(show).post(bulk_operations::create))
        .route("/bulk-operations/{id}", get(show))
        .route("/bulk-operations/{id}/cancel", post(bulk_operations::cancel))
        .route("/samples", get(show).post(samples::apply))
        .route("/outbox", get(show))
        .route("/outbox/{name}", get(show))
        .route("/outbox/{name}/messages/{id}", get(show))
        .route("/outbox/{name}/replay", get(show).post(outboxes::triage::replay))
        .route("/outbox/{name}/discard", get(show).post(outboxes::triage::discard))
        .route("/subscriptions", get(show))
        .route("/subscriptions/{name}", get(show))
        .route("/subscriptions/{name}/parked/{id}", get(show))
        .route("/subscriptions/{name}/replay", get(show).post(subscriptions::parked::replay))
        .route("/subscriptions/{name}/discard", get(show).post(subscriptions::parked::discard))
        .route("/subscriptions/{name}/pause", get(show).post(subscriptions::action::pause))
        .route("/subscriptions/{name}/resume", get(show).post(subscriptions::action::resume))
        .route("/subscriptions/{name}/skip", get(show).post(subscriptions::action::skip))
        .route("/subscriptions/{name}/reset", get(show).post(subscriptions::action::reset))
        .route("/subscriptions/{name}/rebuild", get(show).post(subscriptions::action::rebuild))
        .route("/subscriptions/{name}/swap", get(show).post(subscriptions::action::swap))
        .route("/subscriptions/{name}/cancel-rebuild", get(show).post(subscriptions::action::cancel_rebuild))
        .route("/cluster", get(show))
        .route("/nodes.csv", get(export::file))
        .route("/nodes.ndjson", get(export::file))
        .route("/locks.csv", get(export::file))
        .route("/locks.ndjson", get(export::file))
        .route("/nodes/{id}/drain", get(show).post(nodes::drain::drain))
        .route("/nodes/{id}/resume", get(show).post(nodes::drain::resume))
        .route("/locks/{name}/break", get(show).post(locks::break_lock::break_lock))
        .route("/live", get(live::stream))
        .route("/login", get(session::page).post(session::log_in))
        .route("/logout", post(session::log_out))
        .route("/assets/{name}", get(assets::file))
}

/// The context of a page.
pub(crate) struct View<'a> {
    pub(crate) app: &'a App,
    /// The scopes of the caller: a page offers no action beyond them.
    pub(crate) scopes: &'a Scopes,
    /// The path and query.
    pub(crate) uri: &'a Uri,
}

impl View<'_> {
    /// A link to a page, with the base path.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.app.base)
    }

    pub(crate) fn can(&self, scope: Scope) -> bool {
        self.scopes.include(scope)
    }

    /// The query parameters. The types refuse unknown ones.
    pub(crate) fn params<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        axum::extract::Query::<T>::try_from_uri(self.uri)
            .map(|axum::extract::Query(params)| params)
            .map_err(|rejection| Problem::malformed("query", rejection.body_text()))
    }
}

/// A page.
pub(crate) struct Page {
    /// The title, without the name of the product.
    pub(crate) title: String,
    /// The current entry of the navigation.
    pub(crate) tab: Tab,
    pub(crate) regions: Vec<Region>,
    /// Whether it updates by itself.
    pub(crate) live: bool,
}

/// A part of a page that is sent when it changes.
#[derive(Clone)]
pub(crate) struct Region {
    /// Unique in the page.
    pub(crate) id: &'static str,
    pub(crate) html: Markup,
}

impl Region {
    pub(crate) fn new(id: &'static str, html: Markup) -> Region {
        Region { id, html }
    }
}

/// Entries of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Overview,
    Jobs,
    Enqueue,
    DeadLetters,
    Outbox,
    Cluster,
    None,
}

/// Renders the page of a path, below the condition of the database if that is not as it should be.
pub(crate) async fn render(view: &View<'_>) -> Result<Page, Problem> {
    let mut page = render_path(view).await?;
    page.regions.insert(0, database_banner(view.app));
    Ok(page)
}

/// The condition of the database, if it is not as it should be.
fn database_banner(app: &App) -> Region {
    let condition = app.reading.known_database_condition();
    let banner = html! {
        @if !condition.is_ok() {
            div.trouble role="alert" {
                strong { "The database " (condition.state.predicate()) } " (noticed " (components::moment(condition.since)) "). What to do: "
                (condition.state.remedy()) "."
            }
        }
    };
    Region::new("database", banner)
}

async fn render_path(view: &View<'_>) -> Result<Page, Problem> {
    let segments: Vec<&str> = view.uri.path().trim_matches('/').split('/').collect();
    match segments.as_slice() {
        [""] => overview::page(view).await,
        ["jobs"] => jobs::page(view).await,
        ["jobs", id] => jobs::detail::page(view, id).await,
        ["jobs", id, "cancel"] => jobs::cancel::confirm(view, id).await,
        ["jobs", id, "retry"] => jobs::retry::confirm(view, id).await,
        ["enqueue"] => jobs::enqueue::page(view).await,
        ["samples"] => samples::page(view).await,
        ["dead-letters"] => dead_letters::page(view).await,
        ["bulk-operations"] => bulk_operations::list(view).await,
        ["bulk-operations", "new"] => bulk_operations::confirm(view).await,
        ["bulk-operations", id] => bulk_operations::page(view, id).await,
        ["outbox"] => outboxes::page(view).await,
        ["outbox", name] => outboxes::messages::page(view, name).await,
        ["outbox", name, "messages", id] => outboxes::messages::message(view, name, id).await,
        ["outbox", name, "replay"] => outboxes::triage::confirm(view, name, Triage::Replay).await,
        ["outbox", name, "discard"] => outboxes::triage::confirm(view, name, Triage::Discard).await,
        ["subscriptions"] => subscriptions::page(view).await,
        ["subscriptions", name] => subscriptions::detail::page(view, name).await,
        ["subscriptions", name, "parked", id] => subscriptions::parked::one(view, name, id).await,
        ["subscriptions", name, "replay"] => subscriptions::parked::confirm(view, name, Triage::Replay).await,
        ["subscriptions", name, "discard"] => {
            subscriptions::parked::confirm(view, name, Triage::Discard).await
        }
        ["subscriptions", name, verb] => subscriptions::action::page(view, name, verb).await,
        ["cluster"] => cluster::page(view).await,
        ["nodes", id, "drain"] => nodes::drain::confirm_drain(view, id).await,
        ["nodes", id, "resume"] => nodes::drain::confirm_resume(view, id).await,
        ["locks", name, "break"] => locks::break_lock::confirm(view, name).await,
        _ => Err(Problem::not_found("such page")),
    }
}

/// Whether a page can update by itself. Confirmation pages do not.
fn can_be_live(uri: &Uri) -> bool {
    let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["" | "jobs" | "dead-letters" | "bulk-operations" | "outbox" | "subscriptions" | "cluster"] => true,
        ["outbox", _] | ["outbox", _, "messages", _] => true,
        ["subscriptions", _] | ["subscriptions", _, "parked", _] => true,
        ["jobs" | "bulk-operations", id] => *id != "new",
        _ => false,
    }
}

async fn show(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let view = View { app: &app, scopes: &caller.0.scopes, uri: request.uri() };
    let page = render(&view).await?;
    let layout = layout::Layout::of(&app, Some(&caller.0), request.headers(), request.uri());
    Ok(html_response(StatusCode::OK, layout.wrap(page)))
}

/// An HTML response.
fn html_response(status: StatusCode, html: Markup) -> Response {
    let mut response = (status, Html(hidden_characters::visible(html.into_string()))).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

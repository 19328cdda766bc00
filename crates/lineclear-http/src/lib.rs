//! The HTTP API and the dashboard of Lineclear.
//!
//! A request passes `listener/` (connection limits), `middleware/` and `auth/` (authentication and scopes), then a handler in `api/` or
//! `pages/`, which makes one call to the store. The API answers with JSON or with a
//! [problem](https://www.rfc-editor.org/rfc/rfc9457); pages answer with HTML. A resource has the same file name in `api/` and in `pages/`.
#![forbid(unsafe_code)]

mod api;
mod audit;
mod auth;
mod bulk_operation_worker;
mod database_locks;
mod database_outboxes;
mod database_subscriptions;
mod event_hub;
mod health;
mod idempotency;
mod in_process;
mod listener;
mod long_poll;
mod middleware;
mod pages;
mod problem;
mod remote_workers;
mod router;
mod server;
mod starting_server;

pub use api::locks::lock_json;
pub use api::runners::runner_json;
pub use auth::{Access, Network, PROXY_SECRET_HEADER, ProxySecret, ProxyUsers, TrustedProxies};
pub use database_locks::DatabaseLocks;
pub use in_process::{InProcessApi, Reply};
pub use listener::ListenerLimits;
pub use pages::SAMPLE;
pub use server::{HttpOptions, PORT, ServeError, Server};
pub use starting_server::StartingServer;

use std::sync::Arc;

use lineclear::{Client, Store};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

/// The state that handlers share.
#[derive(Clone)]
pub(crate) struct App {
    /// For changes: the node learns of them at once.
    pub(crate) client: Client,
    /// For reads, with separate connections and a short timeout: reads must not starve the engine.
    pub(crate) reading: Store,
    /// The locks that the server shows.
    pub(crate) locks: Option<DatabaseLocks>,
    /// The outboxes of the same database.
    pub(crate) outboxes: Option<database_outboxes::DatabaseOutboxes>,
    /// The subscriptions of the same database.
    pub(crate) subscriptions: Option<database_subscriptions::DatabaseSubscriptions>,
    pub(crate) metrics: Option<PrometheusHandle>,
    /// Publishes events to the streams.
    pub(crate) events: event_hub::EventHub,
    /// Cancelled when the server stops, so that waiting requests are answered.
    pub(crate) ended: CancellationToken,
    pub(crate) guard: Arc<auth::Guard>,
    pub(crate) audit_writer: audit::AuditWriter,
    /// The remote workers that were heard of lately.
    pub(crate) workers: remote_workers::RemoteWorkers,
    /// The pages that browsers watch.
    pub(crate) live: pages::LivePages,
    /// Requests that failed lately, for the log.
    pub(crate) failures: Arc<middleware::FailedRequests>,
    /// The prefix of every link: empty, or the path behind a proxy, such as `/lineclear`.
    pub(crate) base: Arc<str>,
}

impl axum::extract::FromRef<App> for Arc<auth::Guard> {
    fn from_ref(app: &App) -> Arc<auth::Guard> {
        app.guard.clone()
    }
}

/// The OpenAPI document of the API, as JSON.
pub fn openapi() -> String {
    api::document().to_pretty_json().unwrap_or_default()
}

/// Every route of the server: its method, its path, and the scope that it requires; `claim`: the token of a claim; `None`: it is
/// public.
#[doc(hidden)]
pub fn routes() -> Vec<(String, String, Option<String>)> {
    let scopes = auth::RequiredScopes::of(&api::document());
    let mut routes: Vec<_> = scopes
        .all()
        .map(|(method, path, operation)| {
            let scope = match operation.requirement {
                auth::Requirement::Public => None,
                auth::Requirement::Scope(scope) => Some(scope.to_string()),
                auth::Requirement::ClaimToken => Some("claim".to_owned()),
            };
            (method.to_string(), path.to_owned(), scope)
        })
        .collect();
    routes.sort();
    routes
}

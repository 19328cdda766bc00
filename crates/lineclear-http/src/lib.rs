//! The HTTP API and the dashboard of Lineclear, on a node that runs.
//!
//! A request goes through `server.rs` (limits, who asks), `access.rs` (may they), `api/` (one file for each kind of thing) to
//! one verb of the store, and comes back as JSON, or as a [problem](https://www.rfc-editor.org/rfc/rfc9457). Pages for people are in
//! `pages/`.
#![forbid(unsafe_code)]

mod access;
mod api;
mod audit;
mod base;
mod batches;
mod body;
mod docs;
mod health;
mod listener;
mod local;
mod once;
mod pages;
mod problem;
mod request_id;
mod server;
mod shown_locks;
mod trace;
mod tail;

pub use access::{Access, Network, TrustedProxy};
pub use api::locks::lock_json;
pub use listener::Limits;
pub use local::{Local, Reply};
pub use pages::SAMPLE;
pub use server::{HttpOptions, PORT, ServeError, Server};
pub use shown_locks::ShownLocks;

use std::sync::Arc;

use lineclear::{Client, Store};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

/// What handlers share.
#[derive(Clone)]
pub(crate) struct App {
    /// To change things with: the node hears of it at once.
    pub(crate) client: Client,
    /// To look at things with, on connections of its own and for two seconds at most: readers must not starve the engine.
    pub(crate) reading: Store,
    /// Who holds which lock.
    pub(crate) locks: Option<ShownLocks>,
    pub(crate) metrics: Option<PrometheusHandle>,
    /// Tells those who watch what happens.
    pub(crate) tail: tail::Tail,
    /// The server ends: whoever waits is answered.
    pub(crate) ended: CancellationToken,
    /// Who may do what.
    pub(crate) gate: Arc<access::Gate>,
    /// Who did what.
    pub(crate) ledger: audit::Ledger,
    /// Pages that somebody looks at.
    pub(crate) live: pages::Hub,
    /// What stands before every path in links: nothing, or the path that a proxy has us under, such as `/lineclear`.
    pub(crate) base: Arc<str>,
}

impl axum::extract::FromRef<App> for Arc<access::Gate> {
    fn from_ref(app: &App) -> Arc<access::Gate> {
        app.gate.clone()
    }
}

/// The OpenAPI document of the API, as JSON.
pub fn openapi() -> String {
    server::document().to_pretty_json().unwrap_or_default()
}

/// Every route of the server: its method, its path, and the scope that it needs; `None`: it is open to everybody.
#[doc(hidden)]
pub fn routes() -> Vec<(String, String, Option<String>)> {
    let needs = access::Needs::of(&server::document());
    let mut routes: Vec<_> = needs
        .all()
        .map(|(method, path, operation)| {
            let scope = match operation.need {
                access::Need::Nothing => None,
                access::Need::Scope(scope) => Some(scope.to_string()),
            };
            (method.to_string(), path.to_owned(), scope)
        })
        .collect();
    routes.sort();
    routes
}

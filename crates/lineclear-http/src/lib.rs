//! The HTTP API of Lineclear, on a node that runs.
//!
//! A request goes through `server.rs` (limits, who asks), `access.rs` (may they), `api/` (one file for each kind of thing) to
//! one verb of the store, and comes back as JSON, or as a [problem](https://www.rfc-editor.org/rfc/rfc9457).
#![forbid(unsafe_code)]

mod access;
mod api;
mod batches;
mod body;
mod docs;
mod health;
mod once;
mod problem;
mod server;
mod trace;
mod tail;

pub use access::Access;
pub use server::{HttpOptions, PORT, ServeError, Server};

use lineclear::{Client, Store};
use lineclear_lock::Registry;
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
    pub(crate) locks: Option<Registry>,
    pub(crate) metrics: Option<PrometheusHandle>,
    /// Tells those who watch what happens.
    pub(crate) tail: tail::Tail,
    /// The server ends: whoever waits is answered.
    pub(crate) ended: CancellationToken,
}

/// The OpenAPI document of the API, as JSON.
pub fn openapi() -> String {
    server::document().to_pretty_json().unwrap_or_default()
}

//! A server on a TCP listener: its options, and its life from `bind` to the last response.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use lineclear::{Client, Store, StoreError};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::audit::{AuditTasks, AuditWriter};
use crate::auth::{Access, Guard, RequiredScopes, TrustedProxies};
use crate::database_outboxes::DatabaseOutboxes;
use crate::database_subscriptions::DatabaseSubscriptions;
use crate::event_hub::EventHub;
use crate::listener::{ListenerLimits, listen};
use crate::middleware::{FailedRequests, base_path};
use crate::pages::LivePages;
use crate::remote_workers::RemoteWorkers;
use crate::{App, DatabaseLocks, api, router};

/// The default port.
pub const PORT: u16 = 7171;
/// Timeout of a statement that only reads.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// How long a stopping server may take to write the last audit rows.
const AUDIT_WITHIN: Duration = Duration::from_secs(5);
/// Connections for reading.
const READERS: usize = 4;

/// How the server listens.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address to listen on; port 0 selects a free one.
    pub bind: SocketAddr,
    /// How the server authenticates its callers.
    pub access: Access,
    /// The proxies in front of it, whose headers the server believes.
    pub trusted_proxies: TrustedProxies,
    /// The locks that the server shows, if any.
    pub locks: Option<DatabaseLocks>,
    /// Limits on the number, size and duration of requests.
    pub limits: ListenerLimits,
    /// The path under which a proxy publishes the server, such as `/lineclear`; empty if it has its own host. The server answers
    /// paths with and without it, and its links contain it.
    pub base_path: String,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            bind: SocketAddr::from(([127, 0, 0, 1], PORT)),
            access: Access::default(),
            trusted_proxies: TrustedProxies::default(),
            locks: None,
            limits: ListenerLimits::default(),
            base_path: String::new(),
        }
    }
}

impl HttpOptions {
    /// Checks the options; [`Server::bind`] does so, too.
    pub fn check(&self) -> Result<(), ServeError> {
        self.access.check(self.bind, &self.trusted_proxies).map_err(ServeError::Access)?;
        base_path::check(&self.base_path).map_err(ServeError::BasePath)
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server would be open to other machines, or its proxy is not configured.
    #[error("{0}")]
    Access(String),
    /// The base path is invalid.
    #[error("{0}")]
    BasePath(String),
    /// The address cannot be bound.
    #[error("cannot listen on {bind}: {source}")]
    Bind {
        /// The address.
        bind: SocketAddr,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    ended: CancellationToken,
    limits: ListenerLimits,
    proxies: TrustedProxies,
    audit_tasks: AuditTasks,
}

impl Server {
    /// Binds the listener. `client` belongs to the node that the server represents.
    pub async fn bind(
        options: HttpOptions,
        client: Client,
        metrics: Option<PrometheusHandle>,
    ) -> Result<Server, ServeError> {
        options.check()?;
        let bad = |source| ServeError::Bind { bind: options.bind, source };
        let listener = TcpListener::bind(options.bind).await.map_err(bad)?;
        Server::with_listener(listener, options, client, metrics).await
    }

    /// Like [`Server::bind`], on a listener that is bound already, such as [that of the server before it](crate::StartingServer::listener).
    pub async fn on(
        listener: std::net::TcpListener,
        options: HttpOptions,
        client: Client,
        metrics: Option<PrometheusHandle>,
    ) -> Result<Server, ServeError> {
        let bad = |source| ServeError::Bind { bind: options.bind, source };
        let bind = listener.local_addr().map_err(bad)?;
        let options = HttpOptions { bind, ..options };
        options.check()?;
        let bad = |source| ServeError::Bind { bind, source };
        listener.set_nonblocking(true).map_err(bad)?;
        let listener = TcpListener::from_std(listener).map_err(bad)?;
        Server::with_listener(listener, options, client, metrics).await
    }

    async fn with_listener(
        listener: TcpListener,
        options: HttpOptions,
        client: Client,
        metrics: Option<PrometheusHandle>,
    ) -> Result<Server, ServeError> {
        let bad = |source| ServeError::Bind { bind: options.bind, source };
        let address = listener.local_addr().map_err(bad)?;
        let reading =
            client.store().options().clone().migrate(false).connections(READERS).deadline(READ_WITHIN);
        let reading = if client.store().options().is_in_memory() {
            client.store().clone()
        } else {
            Store::open(reading).await?.informed_by(client.store())
        };
        tokio::spawn(crate::bulk_operation_worker::run(client.clone()));
        let (proxies, limits) = (options.trusted_proxies.clone(), options.limits.clone());
        let options = HttpOptions { bind: address, ..options };
        let Assembled { router, audit_tasks, ended } = assemble(options, client, reading, metrics);
        Ok(Server { listener, address, router, limits, proxies, audit_tasks, ended })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop` completes, and then finishes those in flight.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let ended = self.ended;
        let stop = async move {
            stop.await;
            ended.cancel();
        };
        listen(self.listener, self.router, self.limits, self.proxies, stop).await;
        // The router is gone, and with it every sender of audit rows: the tasks end when their queues are empty.
        if tokio::time::timeout(AUDIT_WITHIN, self.audit_tasks.finish()).await.is_err() {
            tracing::warn!("the last audit rows were not written in time");
        }
        Ok(())
    }
}

/// A router with its state, and the tasks that end with it.
pub(crate) struct Assembled {
    pub(crate) router: Router,
    pub(crate) audit_tasks: AuditTasks,
    pub(crate) ended: CancellationToken,
}

/// Builds the router and its state, for a listener or for use in process.
pub(crate) fn assemble(
    options: HttpOptions,
    client: Client,
    reading: Store,
    metrics: Option<PrometheusHandle>,
) -> Assembled {
    let HttpOptions { bind, access, trusted_proxies, locks, limits, base_path } = options;
    let open_at = access.open_at(bind);
    let scopes = RequiredScopes::of(&api::document());
    let (reader, writer) = (reading.clone(), client.store().clone());
    let guard = Guard::new(access, trusted_proxies, &limits, scopes, reader, writer);
    let (audit_writer, audit_tasks) = AuditWriter::new(client.store().clone());
    let ended = CancellationToken::new();
    let events = EventHub::new(reading.clone(), ended.clone());
    let (live, base) = (LivePages::default(), Arc::from(base_path.as_str()));
    let failures = FailedRequests::new();
    failures.sweep_until(ended.clone());
    guard.sweep_failures_until(ended.clone());
    let app = App {
        client,
        reading,
        subscriptions: locks.as_ref().map(DatabaseSubscriptions::beside),
        outboxes: locks.as_ref().and_then(DatabaseOutboxes::beside),
        locks,
        metrics,
        events,
        ended: ended.clone(),
        guard,
        audit_writer,
        workers: RemoteWorkers::default(),
        live,
        base,
        failures,
    };
    let router = base_path::under(&base_path, router::with_layers(router::routes(), app, open_at, &limits));
    Assembled { router, audit_tasks, ended }
}

//! Answers while the node does not run yet, because its database is away: the process lives, and is not ready.

use std::future::Future;

use axum::Router;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::get;
use lineclear_model::doctor::DatabaseCondition;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::health::{live, not_ready};
use crate::listener::listen;
use crate::middleware::{base_path, security_headers};
use crate::problem::{Problem, describe};
use crate::{HttpOptions, ServeError};

/// The server of a node that waits for its database.
#[derive(Debug)]
pub struct StartingServer {
    listener: TcpListener,
    options: HttpOptions,
}

impl StartingServer {
    /// Binds the address that the server will have.
    pub async fn bind(options: HttpOptions) -> Result<StartingServer, ServeError> {
        options.check()?;
        let bind = options.bind;
        let listener = TcpListener::bind(bind).await.map_err(|source| ServeError::Bind { bind, source })?;
        Ok(StartingServer { listener, options })
    }

    /// Answers `/livez` with 200, `/readyz` and all else with 503 and the condition of the database, until `stop` completes.
    pub async fn run(
        self,
        condition: watch::Receiver<DatabaseCondition>,
        stop: impl Future<Output = ()> + Send,
    ) {
        let why = condition.clone();
        let ready = move || async move { ready(&why.borrow()) };
        let other = move || async move { Problem::database(&condition.borrow()) };
        let router: Router = Router::new()
            .route("/livez", get(live))
            .route("/readyz", get(ready))
            .fallback(other)
            .layer(from_fn(security_headers));
        let HttpOptions { trusted_proxies, limits, base_path, .. } = self.options;
        listen(self.listener, base_path::under(&base_path, router), limits, trusted_proxies, stop).await;
    }
}

fn ready(condition: &DatabaseCondition) -> Response {
    let (why, remedy) = (describe(condition), condition.state.remedy());
    not_ready(&format!("starting: {why}\n{remedy}"))
}

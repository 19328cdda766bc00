//! Answers while the node does not run yet, because its database is away: the process lives, and is not ready. The server that follows
//! takes over the listener, so that the port stays open.

use std::future::Future;

use axum::Router;
use axum::http::StatusCode;
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

/// The database is back, and the node prepares its schema and its work.
const STARTING: &str = "starting: the database answers, and the node begins its work";

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

    /// The listener once more, for [`Server::on`](crate::Server::on): connections wait there, and none is refused.
    pub fn listener(&self) -> Result<std::net::TcpListener, ServeError> {
        use std::os::fd::AsFd;
        let source = |source| ServeError::Bind { bind: self.options.bind, source };
        self.listener.as_fd().try_clone_to_owned().map(Into::into).map_err(source)
    }

    /// Answers `/livez` with 200, `/readyz` and all else with 503 and the condition of the database, until `stop` completes.
    pub async fn run(
        self,
        condition: watch::Receiver<DatabaseCondition>,
        stop: impl Future<Output = ()> + Send,
    ) {
        let why = condition.clone();
        let ready = move || async move { ready(&why.borrow()) };
        let other = move || async move { other(&condition.borrow()) };
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
    if condition.is_ok() {
        return not_ready(STARTING);
    }
    let (why, remedy) = (describe(condition), condition.state.remedy());
    not_ready(&format!("starting: {why}\n{remedy}"))
}

fn other(condition: &DatabaseCondition) -> Problem {
    if condition.is_ok() {
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", STARTING);
    }
    Problem::database(condition)
}

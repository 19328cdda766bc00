//! Answers probes while a node waits for its database, and hands the listener over when the node runs.

use std::net::TcpListener;

use lineclear_http::{HttpOptions, StartingServer};
use lineclear_model::Micros;
use lineclear_model::doctor::{DatabaseCondition, DatabaseState};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::wait_for_db::Wait;
use crate::commands::serve;
use crate::failure::Failure;

/// The server that answers probes, from the first failed attempt until this is dropped.
pub(super) struct Probes {
    options: Option<HttpOptions>,
    pub(super) condition: watch::Sender<DatabaseCondition>,
    /// Its listener, for the server that follows.
    pub(super) listener: Option<TcpListener>,
    stop: Option<DropGuard>,
}

/// The database answers.
fn answers() -> DatabaseCondition {
    let since = Micros::from(jiff::Timestamp::now());
    DatabaseCondition { state: DatabaseState::Ok, since, reason: String::new() }
}

impl Probes {
    pub(super) fn new(options: Option<HttpOptions>) -> Probes {
        // A port that the system chooses is not known before the node runs.
        let options = options.filter(|http| http.bind.port() != 0);
        Probes { options, condition: watch::Sender::new(answers()), listener: None, stop: None }
    }

    /// Begins to answer, unless it does already.
    pub(super) async fn answer(&mut self, wait: &Wait) -> Result<(), Failure> {
        let Some(options) = self.options.take() else { return Ok(()) };
        self.condition.send_replace(wait.unknown());
        let server = StartingServer::bind(options).await.map_err(serve::cannot_serve)?;
        self.listener = Some(server.listener().map_err(serve::cannot_serve)?);
        let (stop, condition) = (CancellationToken::new(), self.condition.subscribe());
        let stopped = stop.clone();
        tokio::spawn(async move { server.run(condition, stopped.cancelled()).await });
        self.stop = Some(stop.drop_guard());
        Ok(())
    }

    /// The database is back: from now on the node starts.
    pub(super) fn database_is_back(&self) {
        self.condition.send_replace(answers());
    }
}

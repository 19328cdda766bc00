//! A node that starts while its database is away waits for it.

use std::time::{Duration, Instant};

use lineclear::log_fold::LogFold;
use lineclear::node::Signals;
use lineclear::{Store, StoreError, StoreOptions};
use lineclear_model::Micros;
use lineclear_model::doctor::{DatabaseCondition, DatabaseState};
use tokio::sync::watch;

use crate::config::{Config, wait_for_db};
use crate::failure::Failure;

/// The pauses between two attempts, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// A node that waits says so this often.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// How a wait ended.
pub(super) enum Waited {
    /// The database answers.
    Back,
    /// A signal ended it.
    Stopped,
}

/// The wait of a node that starts.
pub(super) struct Wait {
    options: StoreOptions,
    limit: Duration,
    begun: Instant,
    since: Micros,
    reminders: LogFold<()>,
}

impl Wait {
    pub(super) fn new(config: &Config) -> Result<Wait, Failure> {
        let limit = wait_for_db(config.text("wait_for_db")).map_err(|why| config.bad("wait_for_db", &why))?;
        let options = StoreOptions::new(config.text("db"))?.migrate(false).connections(1);
        let since = Micros::from(jiff::Timestamp::now());
        Ok(Wait { options, limit, begun: Instant::now(), since, reminders: LogFold::new(REMIND_EVERY) })
    }

    /// Waits until the database answers. Fails if it does not within the limit, or refuses.
    pub(super) async fn until_back(
        &self,
        error: StoreError,
        signals: &mut Signals,
        condition: &watch::Sender<DatabaseCondition>,
    ) -> Result<Waited, Failure> {
        let (mut error, mut pause) = (error, PAUSE[0]);
        loop {
            if !error.is_away() || self.begun.elapsed() >= self.limit {
                return Err(Failure::from(error));
            }
            self.remind(&error);
            condition.send_replace(self.condition_of(&error));
            let attempt = async {
                tokio::time::sleep(pause).await;
                Store::open(self.options.clone()).await?.migration_status().await
            };
            let answer = tokio::select! {
                () = signals.next() => {
                    tracing::info!("stopping: the database did not come back");
                    return Ok(Waited::Stopped);
                }
                answer = attempt => answer,
            };
            pause = (pause * 2).min(PAUSE[1]);
            match answer {
                Err(again) if again.database_state().is_some() => error = again,
                // The start itself reports what is wrong with the schema.
                _ => {
                    let waited = format!("{:.1} s", self.begun.elapsed().as_secs_f64());
                    tracing::info!(waited, "database back: it answers");
                    return Ok(Waited::Back);
                }
            }
        }
    }

    fn remind(&self, error: &StoreError) {
        if let Some(attempts) = self.reminders.note(&()) {
            let left = self.limit.saturating_sub(self.begun.elapsed()).as_secs();
            tracing::warn!(%error, attempts, "waiting for the database, for up to {left} s (--wait-for-db)");
        }
    }

    fn condition_of(&self, error: &StoreError) -> DatabaseCondition {
        let state = error.database_state().unwrap_or(DatabaseState::Unreachable);
        DatabaseCondition { state, since: self.since, reason: error.to_string() }
    }

    /// The condition before the first attempt.
    pub(super) fn unknown(&self) -> DatabaseCondition {
        DatabaseCondition { state: DatabaseState::Unreachable, since: self.since, reason: String::new() }
    }
}

//! Rebuilds: the next version of a subscription reads the log from its start while the active one goes on, and takes its place in one
//! transaction.

use std::time::Duration;

use tokio::time::Instant;

use super::handler::Call;
use super::reader::{Next, POLL_PENDING, Reader};
use super::supervisor::check_name;
use crate::database::{Step, Transacted, twin, values};
use crate::error::OutboxError;
use crate::events::EventLog;

/// How long the active version waits for a rebuild that is about to take its place. Then it goes on, and the rebuild tries again.
const TURN_MAX: Duration = Duration::from_secs(1);

/// When a rebuild takes the place of the active version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// As soon as it has caught up.
    WhenCaughtUp,
    /// After [`EventLog::swap`], as soon as it has caught up.
    OnRequest,
}

impl EventLog {
    /// Begins a rebuild: the next version reads from the start of the log, into tables of its own, while the active one goes on. Returns its
    /// version, which is never given again. The node that runs the subscription does the work.
    pub async fn rebuild(&self, name: &str, swap: Swap) -> Result<i32, OutboxError> {
        check_name(name)?;
        let steps = vec![
            Step::must(twin!("subscription_version"), values![name]),
            Step::must(twin!("subscription_rebuild"), values![name, swap == Swap::WhenCaughtUp]),
        ];
        let Transacted::Done(mut rows) = self.database.transact(None, None, steps).await? else {
            let why = match self.show(name).await? {
                None => format!("there is no subscription {name:?}"),
                Some(seen) if seen.rebuild.is_some() => {
                    format!("a rebuild of {name:?} is going on: cancel it first")
                }
                Some(_) => format!(
                    "the handler of {name:?} has its effects elsewhere, so they cannot be swapped; reset it to handle events again"
                ),
            };
            return Err(OutboxError::refused("rebuild", why));
        };
        let version = rows.pop().and_then(|mut rows| rows.pop()).map_or(0, |mut row| row.number("version"));
        Ok(i32::try_from(version).unwrap_or(i32::MAX))
    }

    /// Lets a rebuild take the place of the active version as soon as it has caught up. `false`: there is none.
    pub async fn swap(&self, name: &str) -> Result<bool, OutboxError> {
        let rows = self.database.query(twin!("subscription_want_swap"), values![name]).await?;
        Ok(!rows.is_empty())
    }

    /// Ends a rebuild. The active version is as it was; what the rebuild has written in its own tables stays there. `false`: there is none.
    pub async fn cancel_rebuild(&self, name: &str) -> Result<bool, OutboxError> {
        let steps = vec![
            Step::must(twin!("subscription_cancel"), values![name]),
            Step::may(twin!("subscription_clean"), values![name]),
        ];
        Ok(matches!(self.database.transact(None, None, steps).await?, Transacted::Done(_)))
    }
}

impl Reader {
    /// The rebuild is close: the active version waits while the rebuild handles what is left, and takes its place.
    pub(super) async fn take_place(&mut self) -> Result<Next, OutboxError> {
        let shared = self.shared.clone();
        let _step = shared.step.lock().await;
        let until = Instant::now() + TURN_MAX;
        loop {
            let polled = self.poll_checkpoints().await?;
            let (Some(active), Some(mine)) = (polled.active(), polled.version(self.version)) else {
                return Ok(Next::End);
            };
            if !mine.swaps || !mine.is_running || !mine.retry_in.is_zero() {
                return Ok(Next::Go);
            }
            if mine.position >= active.position {
                return self.exchange(active.version).await;
            }
            if Instant::now() >= until {
                return Ok(Next::After(shared.options.poll_interval));
            }
            if self.mark.complete() <= mine.position {
                // What the active version has handled is complete: the mark of this reader is about to say so.
                tokio::time::sleep(POLL_PENDING).await;
                continue;
            }
            match self.step(mine).await? {
                Next::Go => {}
                stops => return Ok(stops),
            }
        }
    }

    /// Both checkpoints, and the tables of the handler, in one transaction.
    async fn exchange(&mut self, old: i32) -> Result<Next, OutboxError> {
        let name = self.shared.name.clone();
        let steps = vec![
            Step::must(twin!("subscription_retire"), values![&*name, self.version]),
            Step::must(twin!("subscription_activate"), values![&*name, self.version]),
            Step::may(twin!("subscription_clean"), values![&*name]),
        ];
        let work = self.work(Call::Swap { old, new: self.version });
        match self.database.transact(Some(self.shared.term.fence()), Some(work), steps).await? {
            Transacted::Done(_) => {
                tracing::info!(subscription = %name, old, new = self.version, "a rebuild took the place of the active version");
                Ok(Next::Go)
            }
            Transacted::Lost => Ok(Next::End),
            // It was cancelled or paused, or an operator moved the active version.
            Transacted::Changed => Ok(Next::Go),
            Transacted::Failed(error) => {
                let what = super::shown(&error.to_string());
                tracing::warn!(subscription = %name, error = what, "a rebuild cannot take the place of the active version");
                let params = values![&*name, self.version, &*what];
                self.database.query(twin!("subscription_error"), params).await?;
                Ok(Next::After(self.away_pause()))
            }
        }
    }
}

//! What operators do with subscriptions.

use std::time::Duration;

use tokio::time::Instant;

use super::checkpoint::poll;
use super::options::Start;
use super::shown;
use super::supervisor::check_name;
use crate::database::{Statement, Step, Transacted, twin, values};
use crate::error::OutboxError;
use crate::events::EventLog;

/// How often a caller that waits for a subscription looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl EventLog {
    /// Pauses a subscription, and its rebuild if there is one. When this returns, no effect of its transactions is committed any more: a page
    /// that is being handled is handled again later. `false`: it is paused already.
    pub async fn pause(&self, name: &str, reason: &str) -> Result<bool, OutboxError> {
        self.change(name, twin!("subscription_pause"), values![name, &*shown(reason)]).await
    }

    /// Resumes a subscription that is paused or stopped, with a new budget of attempts. `false`: it runs.
    pub async fn resume(&self, name: &str) -> Result<bool, OutboxError> {
        self.change(name, twin!("subscription_resume"), values![name]).await
    }

    /// Goes past the event at which a subscription fails. `false`: it fails at none.
    pub async fn skip(&self, name: &str) -> Result<bool, OutboxError> {
        self.change(name, twin!("subscription_skip"), values![name, None::<i64>]).await
    }

    /// Goes past the event at this position, if the subscription still fails at it: repeated, it skips no other one. `false`: it does not.
    pub async fn skip_at(&self, name: &str, position: i64) -> Result<bool, OutboxError> {
        self.change(name, twin!("subscription_skip"), values![name, position]).await
    }

    /// Moves the checkpoint of a subscription: it handles events again, or leaves some out. Its own tables are not touched. Parked events that
    /// it handles again are parked no longer. Returns the position.
    pub async fn reset(&self, name: &str, start: Start) -> Result<i64, OutboxError> {
        let steps = vec![
            Step::must(twin!("subscription_reset"), values![name, start.number()?]),
            Step::may(twin!("subscription_unpark"), values![name]),
        ];
        let Transacted::Done(rows) = self.database.transact(None, None, steps).await? else {
            return Err(unknown(name));
        };
        Ok(rows.into_iter().flatten().next().map_or(0, |mut row| row.number("position")))
    }

    /// Waits until a subscription has handled or parked every event that is committed now. `false`: not within this time. An error: it is
    /// paused or stopped.
    pub async fn wait_until_caught_up(&self, name: &str, within: Duration) -> Result<bool, OutboxError> {
        let (head, until) = (self.head().await?, Instant::now() + within);
        loop {
            let polled = poll(&*self.database, name).await?;
            let active = polled.active().ok_or_else(|| unknown(name))?;
            if active.position >= head {
                return Ok(true);
            }
            if !active.is_running {
                let seen = self.show(name).await?.ok_or_else(|| unknown(name))?;
                let reason = seen.reason.unwrap_or_default();
                let why = format!("{name:?} is {}: {reason}", seen.state.as_str());
                return Err(OutboxError::refused("subscription", why));
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn change(
        &self,
        name: &str,
        statement: &'static Statement,
        params: Vec<crate::database::Value>,
    ) -> Result<bool, OutboxError> {
        check_name(name)?;
        if !self.database.query(statement, params).await?.is_empty() {
            return Ok(true);
        }
        self.show(name).await?.map(|_| false).ok_or_else(|| unknown(name))
    }
}

fn unknown(name: &str) -> OutboxError {
    OutboxError::refused("subscription", format!("there is no subscription {name:?}"))
}

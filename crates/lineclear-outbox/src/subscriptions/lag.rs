//! Figures of subscriptions.

use crate::database::{Database, twin, values};
use crate::error::OutboxError;

/// Counts stop here: an operator needs to know that there are many, not how many.
pub(super) const COUNT_MAX: i64 = 10_000;

/// Adds to a counter of a subscription.
pub(super) fn count(figure: &'static str, subscription: &str, by: usize) {
    if by > 0 {
        let by = u64::try_from(by).unwrap_or(u64::MAX);
        metrics::counter!(figure, "subscription" => subscription.to_owned()).increment(by);
    }
}

/// How far the active version is behind.
pub(super) async fn measure(database: &dyn Database, subscription: &str) -> Result<(), OutboxError> {
    let rows = database.query(twin!("subscription_list"), values![subscription, COUNT_MAX]).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(()) };
    let gauge = |figure: &'static str, value: f64| {
        metrics::gauge!(figure, "subscription" => subscription.to_owned()).set(value);
    };
    gauge("lineclear_subscription_lag_events", row.number("lag_events") as f64);
    gauge("lineclear_subscription_lag_seconds", row.duration("lag_us").as_secs_f64());
    Ok(())
}

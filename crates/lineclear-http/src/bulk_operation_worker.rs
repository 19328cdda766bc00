//! Works on bulk operations in the background, also on those of other servers.

use std::time::Duration;

use lineclear::Client;
use lineclear::log_fold::LogFold;

/// How often a server looks for a bulk operation; it does not pause between the portions of one.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// A worker that goes on failing is logged so often.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Runs until the node stops.
pub(crate) async fn run(client: Client) {
    let log = LogFold::new(LOG_EVERY);
    loop {
        let pause = match client.work_on_bulk_operation().await {
            Ok(Some(_)) => Duration::ZERO,
            Ok(None) => POLL_EVERY,
            Err(error) => {
                if let Some(left_out) = log.note(&"portions") {
                    tracing::warn!(%error, left_out, "a bulk operation failed; the worker tries again");
                }
                POLL_EVERY
            }
        };
        tokio::select! {
            () = client.stopping() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

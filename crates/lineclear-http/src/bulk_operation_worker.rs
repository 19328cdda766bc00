//! Works on bulk operations in the background, also on those of other servers.

use std::time::Duration;

use lineclear::Client;

/// How often a server looks for a bulk operation; it does not pause between the portions of one.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Runs until the node stops.
pub(crate) async fn run(client: Client) {
    loop {
        let pause = match client.work_on_bulk_operation().await {
            Ok(Some(_)) => Duration::ZERO,
            Ok(None) => POLL_EVERY,
            Err(error) => {
                tracing::warn!(%error, "a bulk operation failed; the worker tries again");
                POLL_EVERY
            }
        };
        tokio::select! {
            () = client.stopping() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

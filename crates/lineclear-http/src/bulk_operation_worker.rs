//! Works on batches, whoever made them and on whichever server.

use std::time::Duration;

use lineclear::Client;

/// How often a server looks for a batch; between the portions of one it does not wait.
const LOOK: Duration = Duration::from_secs(1);

/// Until the node is told to stop.
pub(crate) async fn work(client: Client) {
    loop {
        let pause = match client.work_on_batch().await {
            Ok(Some(_)) => Duration::ZERO,
            Ok(None) => LOOK,
            Err(error) => {
                tracing::warn!(%error, "a batch could not be worked on; it is tried again");
                LOOK
            }
        };
        tokio::select! {
            () = client.stopping() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

//! Tokio runtimes of commands.

use std::time::Duration;

use tokio::runtime::Builder;

use crate::failure::Failure;

/// How long statements that are still running may delay the exit.
const STATEMENTS_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(cannot_start)?.block_on(future)
}

/// Runs a future on all cores.
pub(crate) fn block_on_all_cores<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(cannot_start)?;
    let result = runtime.block_on(future);
    // What a running statement has not committed is not written.
    runtime.shutdown_timeout(STATEMENTS_TIMEOUT);
    result
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot start: {error}"))
}

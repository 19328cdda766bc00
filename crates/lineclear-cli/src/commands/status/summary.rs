//! `lineclear` alone: the state of the local server, and three commands to continue with. Never fails.

use std::process::ExitCode;
use std::time::Duration;

use super::{database, is_healthy, jobs, nodes};
use crate::api_client::{ApiTarget, Json};
use crate::display::OutputStyle;
use crate::display::doctor_check::sign;
use crate::failure::Failure;
use crate::output::{print, sanitize};
use crate::runtime::block_on;

/// Longest wait for the response.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn print_summary() -> Result<ExitCode, Failure> {
    let response = block_on(async { Ok(tokio::time::timeout(TIMEOUT, fetch()).await) })
        .unwrap_or_else(|failure| Ok(Err(failure)));
    let style = OutputStyle::detect();
    let (sentence, next) = match response {
        Ok(Ok(status)) if is_healthy(&status) => (
            format!("{} healthy: {}; {}", sign("ok", &style), nodes(&status), jobs(&status)),
            [
                ("lineclear job list", "list jobs"),
                ("lineclear manifest list", "list manifests"),
                ("lineclear status", "show more of this"),
            ],
        ),
        Ok(Ok(status)) => (
            format!(
                "{} degraded: the database {}; {}; {}",
                sign("failure", &style),
                sanitize(database(&status)),
                nodes(&status),
                jobs(&status)
            ),
            [
                ("lineclear status", "show what is wrong"),
                ("lineclear job list", "list jobs"),
                ("lineclear --help", "list all commands"),
            ],
        ),
        Ok(Err(failure)) => (
            format!("{} {}", sign("skipped", &style), sanitize(failure.message())),
            [
                ("lineclear serve", "start a server with an embedded database"),
                ("lineclear demo", "watch a small cluster run, fail and recover"),
                ("lineclear --help", "list all commands"),
            ],
        ),
        Err(_) => (
            format!(
                "{} the server on this machine did not respond within {TIMEOUT:?}",
                sign("failure", &style)
            ),
            [
                ("lineclear health", "check whether it is ready"),
                ("lineclear status", "wait longer for the response"),
                ("lineclear --help", "list all commands"),
            ],
        ),
    };
    let mut text = format!("{sentence}\n\n");
    for (command, why) in next {
        text.push_str(&format!("  {command:24}  {why}\n"));
    }
    // Errors are ignored: this never fails.
    let _ = print(&text);
    Ok(ExitCode::SUCCESS)
}

async fn fetch() -> Result<Json, Failure> {
    ApiTarget::local().open().await?.get("/status").await
}

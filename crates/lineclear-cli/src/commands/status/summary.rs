//! `lineclear` alone: how the server of this machine is, and three commands to go on with. Never an error.

use std::process::ExitCode;
use std::time::Duration;

use super::{is_healthy, jobs, nodes};
use crate::api::{At, Json};
use crate::failure::Failure;
use crate::output::{plain, print};
use crate::show::Look;
use crate::show::check::sign;

/// Longest wait for the answer: a person typed a word and wants to know what there is.
const WITHIN: Duration = Duration::from_secs(2);

/// Says what is reachable, and what to do next.
pub(crate) fn bare() -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = match runtime {
        Ok(runtime) => runtime.block_on(async { tokio::time::timeout(WITHIN, ask()).await }),
        Err(error) => Ok(Err(Failure::failed(error.to_string()))),
    };
    let look = Look::here();
    let (says, next) = match asked {
        Ok(Ok(status)) if is_healthy(&status) => (
            format!("{} healthy: {}; {}", sign("ok", &look), nodes(&status), jobs(&status)),
            [
                ("lineclear job list", "what waits, runs and is over"),
                ("lineclear manifest list", "standing orders"),
                ("lineclear status", "more of this"),
            ],
        ),
        Ok(Ok(status)) => (
            format!("{} degraded: {}; {}", sign("failure", &look), nodes(&status), jobs(&status)),
            [
                ("lineclear status", "what is wrong"),
                ("lineclear job list", "what waits, runs and is over"),
                ("lineclear --help", "all commands"),
            ],
        ),
        Ok(Err(failure)) => (
            format!("{} {}", sign("skipped", &look), plain(failure.message())),
            [
                ("lineclear serve", "start a server here, on an embedded database"),
                ("lineclear demo", "watch a small cluster live, fail and recover"),
                ("lineclear --help", "all commands"),
            ],
        ),
        Err(_) => (
            format!("{} the server of this machine did not answer within {WITHIN:?}", sign("failure", &look)),
            [
                ("lineclear health", "is it ready?"),
                ("lineclear status", "wait for the answer"),
                ("lineclear --help", "all commands"),
            ],
        ),
    };
    let mut text = format!("{says}\n\n");
    for (command, why) in next {
        text.push_str(&format!("  {command:24}  {why}\n"));
    }
    // Not even a full disk is an error of this.
    let _ = print(&text);
    Ok(ExitCode::SUCCESS)
}

async fn ask() -> Result<Json, Failure> {
    At::of_this_machine().api().await?.get("/status").await
}

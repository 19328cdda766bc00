//! `run`: servers for as long as one command takes.

use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result};
use lineclear_testkit::servers::{Servers, place::Lifetime};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

/// A test runner needs a moment to end its tests.
const END_WITHIN: Duration = Duration::from_secs(15);

/// Runs a command with the servers' URLs in its environment. The exit code is the command's.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    // Listened for before the first server starts, so that no signal can leave one behind.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;

    let servers = tokio::select! {
        servers = Servers::start(Lifetime::Ours) => servers?,
        _ = interrupted.recv() => return Ok(ExitCode::from(130)),
        _ = terminated.recv() => return Ok(ExitCode::from(143)),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .envs(servers.environment())
        .spawn()
        .with_context(|| format!("starting {program}"))?;

    let status = tokio::select! {
        status = child.wait() => status?,
        // The terminal sends Ctrl-C to the command as well: asking twice would cut its own clean-up short.
        _ = interrupted.recv() => end(&mut child).await?,
        _ = terminated.recv() => {
            ask_to_end(&child);
            end(&mut child).await?
        }
    };
    Ok(code(status))
}

fn ask_to_end(child: &Child) {
    if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        // It may have ended by now.
        kill_process(pid, Signal::TERM).ok();
    }
}

async fn end(child: &mut Child) -> Result<ExitStatus> {
    if let Ok(status) = tokio::time::timeout(END_WITHIN, child.wait()).await {
        return Ok(status?);
    }
    child.kill().await?;
    Ok(child.wait().await?)
}

/// As a shell says it: the command's own code, or 128 and the signal that ended it.
fn code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(number).unwrap_or(1))
}

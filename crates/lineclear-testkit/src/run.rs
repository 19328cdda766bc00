//! `run`: servers for as long as one command takes.

use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use lineclear_testkit::servers::{Servers, place::Lifetime, postgres::Durability};
use rustix::process::{Pid, kill_process};
use tokio::{
    process::{Child, Command},
    signal::unix::{Signal, SignalKind, signal},
};

/// A test runner needs a moment to end its tests.
const END_WITHIN: Duration = Duration::from_secs(15);

/// Runs a command with the servers' URLs in its environment. The exit code is the command's.
pub(crate) async fn run(durability: Durability, program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let servers = signals.start_servers(durability).await?;
    let mut command = Command::new(program);
    let child = command.args(arguments).envs(servers.environment()).spawn();
    let status = signals.wait_for(&mut child.with_context(|| format!("starting {program}"))?).await?;
    Ok(code(status))
}

/// Signals that end the run. They are handled before the first server starts, so that no signal leaves one behind.
pub(crate) struct Signals {
    interrupted: Signal,
    terminated: Signal,
    /// Whether one of them came.
    pub(crate) came: bool,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self> {
        let (interrupted, terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupted, terminated, came: false })
    }

    /// Starts the servers. Interrupted, it stops those that have started.
    pub(crate) async fn start_servers(&mut self, durability: Durability) -> Result<Servers> {
        tokio::select! {
            servers = Servers::start(Lifetime::Ours, durability) => servers,
            _ = self.interrupted.recv() => bail!("interrupted"),
            _ = self.terminated.recv() => bail!("terminated"),
        }
    }

    /// Waits until a command has ended. Interrupted, it ends the command.
    pub(crate) async fn wait_for(&mut self, child: &mut Child) -> Result<ExitStatus> {
        tokio::select! {
            status = child.wait() => return Ok(status?),
            // The terminal sends Ctrl-C to the command as well: asking twice would cut its clean-up short.
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => ask_to_end(child),
        }
        self.came = true;
        if let Ok(status) = tokio::time::timeout(END_WITHIN, child.wait()).await {
            return Ok(status?);
        }
        child.kill().await?;
        Ok(child.wait().await?)
    }
}

fn ask_to_end(child: &Child) {
    if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        // It may have ended by now.
        kill_process(pid, rustix::process::Signal::TERM).ok();
    }
}

/// As in a shell: the command's own code, or 128 plus the signal that ended it.
fn code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(number).unwrap_or(1))
}

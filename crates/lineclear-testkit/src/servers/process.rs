//! A server's process: starts it, waits until it is ready, and stops it.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::procfs;

/// A cold machine needs a second or two; this leaves room for a loaded one.
const START_WITHIN: Duration = Duration::from_secs(30);
/// A fast stop takes well under a second.
const STOP_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
const LOG_LINES_SHOWN: usize = 40;

/// A process that we started. It is stopped when this is dropped.
pub struct Process {
    name: &'static str,
    child: Option<Child>,
    stop: Signal,
    log: PathBuf,
}

/// Identifies a process that was left running.
pub struct Record {
    /// Which server it is.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot. Tells it from a later process with the same id.
    pub started: u64,
    /// The number of the signal that stops it.
    pub stop: i32,
}

impl Process {
    /// Starts `command` with its output in the file `log`. `stop` is the signal for a quick and clean stop.
    pub fn spawn(name: &'static str, mut command: Command, log: &Path, stop: Signal) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("making {}", log.display()))?;
        let child = command
            // A separate process group: Ctrl-C ends the tests first, and servers stop after them.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self { name, child: Some(child), stop, log: log.into() })
    }

    /// Waits until `probe` succeeds. If the process ends before, or too much time passes, its log is in the
    /// error.
    pub async fn ready<T>(&mut self, probe: impl AsyncFn() -> Result<T>) -> Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        loop {
            let Err(error) = probe().await else { return Ok(()) };
            if let Some(status) = self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("{} ended as it started ({status}). Its log:\n{}", self.name, tail(&self.log));
            }
            if Instant::now() > deadline {
                bail!(
                    "{} is not ready after {START_WITHIN:?}: {error:#}. Log:\n{}",
                    self.name,
                    tail(&self.log)
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends a signal to the process, and then to its children: those that it started before it got the signal, too.
    pub(super) fn signal_with_children(&self, sent: Signal) {
        let Some(child) = &self.child else { return };
        signal(child.id(), sent);
        procfs::children(child.id()).into_iter().for_each(|pid| signal(pid, sent));
    }

    /// Detaches the process: it keeps running.
    pub(super) fn leave(mut self) -> Record {
        let pid = self.child.take().map_or(0, |child| child.id());
        let started = procfs::look(pid).map_or(0, |seen| seen.started);
        Record { name: self.name.into(), pid, started, stop: self.stop.as_raw() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that is frozen would not end.
        self.signal_with_children(Signal::CONT);
        let Some(child) = &mut self.child else { return };
        if matches!(child.try_wait(), Ok(None)) {
            signal(child.id(), self.stop);
        }
        if !wait_until(STOP_WITHIN, || !matches!(child.try_wait(), Ok(None))) {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Record {
    /// Whether this process still runs.
    pub fn is_alive(&self) -> bool {
        procfs::look(self.pid).is_some_and(|seen| seen.started == self.started && seen.state != 'Z')
    }

    /// Stops the process, if it is still the one that was started.
    pub fn stop(&self) {
        for number in [Some(self.stop), Some(Signal::KILL.as_raw())] {
            let Some(stop) = number.and_then(Signal::from_named_raw) else { continue };
            if self.is_alive() {
                signal(self.pid, stop);
            }
            if wait_until(STOP_WITHIN, || !self.is_alive()) {
                return;
            }
        }
    }
}

/// Sends a signal. It is no error if the process has ended meanwhile.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// The end of a log, for an error message.
pub fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

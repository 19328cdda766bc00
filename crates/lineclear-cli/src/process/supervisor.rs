//! The supervisor of a command: a process that the command cannot leave. What the command starts, also in another session, stays below
//! it, and is ended when the command ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as Awaited};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpgid, getpid, kill_process, wait};

use super::confinement::Confinement;
use super::descendants::descendants;
use super::group::{NOT_RUNNABLE, own_executable, wait_until_guarded};
use crate::failure::Failure;

/// How long processes that a command leaves behind may take to end after TERM. The server kills them earlier.
const GRACE: Duration = Duration::from_secs(5);
/// How long to try to kill them: a process may wait for a device.
const KILL_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);

/// Runs in the new process: waits until the guard knows of it, then runs the command and ends with its status.
pub(crate) fn supervise(parent: u32, confinement: &str, command: &[OsString]) -> Result<ExitCode, Failure> {
    wait_until_guarded(parent)?;
    let failed = |error: std::io::Error| Failure::coded(NOT_RUNNABLE, format!("cannot supervise: {error}"));
    // Orphans become children of this process, and not of the system's first one.
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid())).map_err(|error| failed(error.into()))?;
    // Blocked, so that they wait for `SigSet::wait`. The child unblocks them.
    let mut awaited = SigSet::empty();
    for signal in [
        Awaited::SIGCHLD,
        Awaited::SIGTERM,
        Awaited::SIGINT,
        Awaited::SIGHUP,
        Awaited::SIGQUIT,
        Awaited::SIGUSR1,
        Awaited::SIGUSR2,
    ] {
        awaited.add(signal);
    }
    awaited.thread_block().map_err(|error| failed(error.into()))?;
    let mut process = Command::new(own_executable().map_err(failed)?);
    process.arg0("lineclear").args([super::CONFINE, confinement, "--"]).args(command);
    let child = process.spawn().map_err(failed)?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let child = child.ok_or_else(|| Failure::coded(NOT_RUNNABLE, "the command has no process id"))?;
    let mut is_terminated = false;
    let status = loop {
        match awaited.wait() {
            Ok(Awaited::SIGCHLD) => {
                if let Some(status) = reap(child) {
                    break status;
                }
            }
            Ok(Awaited::SIGTERM) => {
                is_terminated = true;
                signal_outside_group();
            }
            // Sent to the whole group; the command decides.
            Ok(_) => {}
            Err(error) => return Err(failed(error.into())),
        }
    };
    end_all(if is_terminated { GRACE } else { Duration::ZERO });
    Ok(end_like(status))
}

/// Runs in the process of the command: takes on its user and limits, and executes it.
pub(crate) fn confine(confinement: &str, command: &[OsString]) -> Failure {
    let applied = Confinement::parse(confinement).and_then(|confinement| {
        SigSet::empty().thread_set_mask().map_err(|error| error.to_string())?;
        confinement.apply()
    });
    match applied {
        Ok(()) => super::group::execute(command),
        Err(why) => Failure::coded(NOT_RUNNABLE, why),
    }
}

/// Takes the status of all children that have ended. Returns the status of this one, if it is among them.
fn reap(child: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((process, status))) = wait(WaitOptions::NOHANG) {
        if process == child {
            found = Some(status);
        }
    }
    found
}

/// TERM for processes that have left the group, which got it with all others.
fn signal_outside_group() {
    let own = getpgid(None).ok();
    for process in descendants(getpid()) {
        if getpgid(Some(process)).ok() != own {
            // It may have ended.
            kill_process(process, Signal::TERM).ok();
            kill_process(process, Signal::CONT).ok();
        }
    }
}

/// Waits for what the command left behind, then kills it.
fn end_all(grace: Duration) {
    let (kill_at, until) = (Instant::now() + grace, Instant::now() + grace + KILL_WITHIN);
    while Instant::now() < until {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // No children: nothing is left, because orphans become children of this process.
                Err(_) => return,
            }
        }
        if Instant::now() >= kill_at {
            for process in descendants(getpid()) {
                kill_process(process, Signal::KILL).ok();
            }
        }
        std::thread::sleep(POLL);
    }
}

/// The exit code of the command, or an end by the same signal.
fn end_like(status: WaitStatus) -> ExitCode {
    if let Some(code) = status.exit_status() {
        return ExitCode::from(u8::try_from(code).unwrap_or(1));
    }
    let signal = status.terminating_signal().unwrap_or(0);
    if let Some(signal) = Signal::from_named_raw(signal) {
        SigSet::empty().thread_set_mask().ok();
        kill_process(getpid(), signal).ok();
    }
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}

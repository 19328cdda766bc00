//! The supervisor of a command: a process that the command cannot leave. What the command starts, also in another session, stays below
//! it, and is ended when the command ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as Awaited};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

use super::confinement::Confinement;
use super::descendants::{descendants, kill_descendants};
use super::group::{NOT_RUNNABLE, own_executable, wait_until_guarded};
use crate::failure::Failure;

/// How long processes that a command leaves behind may take to end after TERM. The server kills them earlier.
const GRACE: Duration = Duration::from_secs(5);
/// How long killed processes may take to end: one may wait for a device. Then they are left alone; they end by themselves.
const KILL_WITHIN: Duration = Duration::from_secs(5);
/// How long to go on with processes that fork faster than they are killed.
const CHAIN_WITHIN: Duration = Duration::from_secs(300);
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
    // A group of its own, which can be killed at one moment without the supervisor.
    process.process_group(0);
    let child = process.spawn().map_err(failed)?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let child = child.ok_or_else(|| Failure::coded(NOT_RUNNABLE, "the command has no process id"))?;
    let mut kill_at = None;
    let status = loop {
        match awaited.wait() {
            Ok(Awaited::SIGCHLD) => {
                if let Some(status) = reap(child) {
                    break status;
                }
            }
            Ok(Awaited::SIGTERM) => {
                kill_at.get_or_insert(Instant::now() + GRACE);
                terminate_all();
            }
            Ok(Awaited::SIGQUIT) => {
                kill_at = Some(Instant::now());
                kill_descendants(getpid());
            }
            Ok(_) => {}
            Err(error) => return Err(failed(error.into())),
        }
    };
    end_all(kill_at.unwrap_or_else(Instant::now));
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

/// TERM for all processes of the command. A stopped one gets it only when it continues.
fn terminate_all() {
    for process in descendants(getpid()) {
        // It may have ended.
        kill_process(process, Signal::TERM).ok();
        kill_process(process, Signal::CONT).ok();
    }
}

/// Waits for what the command left behind, then kills it until nothing is left.
fn end_all(kill_at: Instant) {
    let until = kill_at + CHAIN_WITHIN;
    let (mut resisting, mut since) = (Vec::new(), Instant::now());
    while Instant::now() < until {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // No children: nothing is left, because orphans become children of this process.
                Err(_) => return,
            }
        }
        if Instant::now() < kill_at {
            std::thread::sleep(POLL);
            continue;
        }
        let found = kill_descendants(getpid());
        if found != resisting {
            // New ones: no pause, because they fork meanwhile.
            (resisting, since) = (found, Instant::now());
        } else if since.elapsed() > KILL_WITHIN {
            return;
        } else {
            std::thread::sleep(POLL);
        }
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

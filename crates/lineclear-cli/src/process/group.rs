//! The command: a process group of its own, so that what it has started ends with it.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, test_kill_process_group,
    waitid,
};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::failure::Failure;

/// What shells end with when there is no such command, or it cannot be run.
const NOT_FOUND: u8 = 127;
pub(super) const NOT_RUNNABLE: u8 = 126;

/// How often it is asked whether a new process stands still, and whether all of a group has ended.
const MOMENT: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_millis(10);

/// A process group whose first process runs a command.
pub(crate) struct Group {
    pub(crate) child: Child,
    id: Pid,
}

/// Looks for the command before anything is begun. Whether it can really be run is seen when it is.
pub(crate) fn check(program: &OsStr) -> Result<(), Failure> {
    let runnable = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = match program.as_encoded_bytes().contains(&b'/') {
        true if Path::new(program).exists() && !runnable(Path::new(program)) => {
            return Err(cannot_run(program, ErrorKind::PermissionDenied.into()));
        }
        true => runnable(Path::new(program)),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| runnable(&folder.join(program)))
        }
    };
    if found { Ok(()) } else { Err(cannot_run(program, ErrorKind::NotFound.into())) }
}

fn cannot_run(program: &OsStr, error: std::io::Error) -> Failure {
    let program = program.to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound => Failure::coded(NOT_FOUND, format!("there is no command {program:?}")),
        _ => Failure::coded(NOT_RUNNABLE, format!("the command {program:?} cannot be run: {error}")),
    }
}

impl Group {
    /// Makes a process for the command; `prepare` says what it reads, writes and finds in its environment. It stands still until
    /// it is let go, so that the guard knows of it before it does anything.
    pub(crate) async fn make(
        command: &[OsString],
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Group, Failure> {
        let child = ourselves().and_then(|ours| {
            let mut ours = Command::new(ours);
            ours.arg0("lineclear").arg("become").arg(std::process::id().to_string()).arg("--").args(command);
            prepare(&mut ours).process_group(0).spawn()
        });
        let child = child
            .map_err(|error| Failure::coded(NOT_RUNNABLE, format!("cannot start a process: {error}")))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.ok_or_else(|| Failure::coded(NOT_RUNNABLE, "the command has no process id"))?;
        let mut group = Group { child, id };
        while group.stopped_by().is_none() && group.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            sleep(MOMENT).await;
        }
        Ok(group)
    }

    /// Lets it become the command.
    pub(crate) fn let_go(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// Sends a signal to all of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may be gone by now.
        kill_process_group(self.id, signal).ok();
    }

    /// Waits until the command has ended. What it has left in the background may go on.
    pub(crate) async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .await
            .map_err(|error| Failure::failed(format!("cannot wait for the command: {error}")))
    }

    /// Ends the whole group: asks it to, and kills what is left after the time of grace.
    pub(crate) async fn end(&mut self, grace: Duration) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now() + grace;
        self.signal(Signal::TERM);
        // One that stands still does not hear it otherwise.
        self.signal(Signal::CONT);
        while Instant::now() < deadline {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some())
                && test_kill_process_group(self.id).is_err()
            {
                break;
            }
            sleep(POLL.min(deadline - Instant::now())).await;
        }
        self.signal(Signal::KILL);
        self.ended().await
    }

    /// Which signal it was stopped by, if it was since this was last asked.
    pub(crate) fn stopped_by(&self) -> Option<i32> {
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.id), stopped).ok()??.stopping_signal()
    }
}

/// In the process that was made for the command: stands still until the guard knows of it, and becomes the command.
pub(crate) fn become_it(parent: u32, command: &[OsString]) -> Failure {
    let [program, arguments @ ..] = command else { return Failure::usage("there is no command") };
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        return Failure::coded(NOT_RUNNABLE, error.to_string());
    }
    // Whoever was killed meanwhile cannot have told the guard.
    if std::os::unix::process::parent_id() != parent {
        return Failure::failed("who started it was killed; the command was not run");
    }
    cannot_run(program, std::process::Command::new(program).args(arguments).exec())
}

/// The program that we run: its file may have been replaced since we were started.
pub(super) fn ourselves() -> std::io::Result<PathBuf> {
    let linux = Path::new("/proc/self/exe");
    if linux.exists() { Ok(linux.to_owned()) } else { std::env::current_exe() }
}

/// As a shell says it: the command's own code, or 128 and the signal that ended it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(number).unwrap_or(1)
}

//! The command: a process group of its own, so that what it has started ends with it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, test_kill_process_group,
    waitid,
};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use super::terminal::Lent;
use crate::failure::Failure;

/// What shells end with when there is no such command, or it cannot be run.
const NOT_FOUND: u8 = 127;
pub(super) const NOT_RUNNABLE: u8 = 126;

/// How often it is asked whether a new process stands still, and whether all of a group has ended.
const MOMENT: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_millis(10);

/// A command that runs.
pub(super) struct Process {
    child: Child,
    group: Pid,
    terminal: Option<Lent>,
}

/// Looks for the command before anything is locked. Whether it can really be run is seen when it is.
pub(super) fn check(program: &OsStr) -> Result<(), Failure> {
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

impl Process {
    /// Makes a process for the command, with our own input and output. It stands still until it is let go.
    pub(super) async fn make(
        command: &[OsString],
        variables: [(&str, String); 2],
    ) -> Result<Process, Failure> {
        let child = ourselves().and_then(|ours| {
            tokio::process::Command::new(ours)
                .arg0("lineclear")
                .args(["lock", "become", &std::process::id().to_string(), "--"])
                .args(command)
                .envs(variables)
                .process_group(0)
                .spawn()
        });
        let child = child
            .map_err(|error| Failure::coded(NOT_RUNNABLE, format!("cannot start a process: {error}")))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = group.ok_or_else(|| Failure::coded(NOT_RUNNABLE, "the command has no process id"))?;
        let mut process = Process { child, group, terminal: None };
        while process.stopped_by().is_none() && process.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            sleep(MOMENT).await;
        }
        Ok(process)
    }

    /// Lets it become the command. The terminal is the command's from now on, if it was ours; not yet, if another reads what it
    /// writes, because that one may be in need of the terminal (`| less`).
    pub(super) fn let_go(&mut self) {
        if !output_is_piped() {
            self.terminal = Lent::to(self.group);
        }
        self.signal(Signal::CONT);
    }

    /// The id of its process group.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Sends a signal to all of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // It may be gone by now.
        kill_process_group(self.group, signal).ok();
    }

    /// Waits until the command has ended. What it has left in the background may go on.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .await
            .map_err(|error| Failure::failed(format!("cannot wait for the command: {error}")))
    }

    /// Ends the whole group: asks it to, and kills what is left after the time of grace.
    pub(super) async fn end(&mut self, grace: Duration) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now() + grace;
        self.signal(Signal::TERM);
        // One that stands still does not hear it otherwise.
        self.signal(Signal::CONT);
        while Instant::now() < deadline {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some())
                && test_kill_process_group(self.group).is_err()
            {
                break;
            }
            sleep(POLL.min(deadline - Instant::now())).await;
        }
        self.signal(Signal::KILL);
        self.ended().await
    }

    /// Lets it go on if it was stopped because it needs the terminal, or by Ctrl-Z: the shell cannot know that, and would wait for us
    /// while we wait for it. Says whether it was Ctrl-Z.
    pub(super) fn unstop(&mut self) -> bool {
        let Some(signal) = self.stopped_by() else { return false };
        let needs_terminal = [Signal::TTIN, Signal::TTOU].map(|signal| signal.as_raw()).contains(&signal);
        if needs_terminal && self.terminal.is_none() {
            self.terminal = Lent::to(self.group);
        }
        // Without a terminal, somebody has stopped it on purpose.
        if self.terminal.is_some() {
            self.signal(Signal::CONT);
        }
        self.terminal.is_some() && !needs_terminal
    }

    /// Which signal it was stopped by, if it was since this was last asked.
    fn stopped_by(&self) -> Option<i32> {
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.group), stopped).ok()??.stopping_signal()
    }
}

/// Whether another program reads what we write.
fn output_is_piped() -> bool {
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    output.and_then(|output| output.metadata()).is_ok_and(|output| output.file_type().is_fifo())
}

/// In the process that was made for the command: stands still until the guard knows of it, and becomes the command.
pub(super) fn become_it(parent: u32, command: &[OsString]) -> Failure {
    let [program, arguments @ ..] = command else { return Failure::usage("there is no command") };
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        return Failure::coded(NOT_RUNNABLE, error.to_string());
    }
    // Whoever was killed meanwhile cannot have told the guard.
    if std::os::unix::process::parent_id() != parent {
        return Failure::failed("`lock run` was killed; the command was not run");
    }
    cannot_run(program, std::process::Command::new(program).args(arguments).exec())
}

/// The program that we run: its file may have been replaced since we were started.
pub(super) fn ourselves() -> std::io::Result<PathBuf> {
    let linux = Path::new("/proc/self/exe");
    if linux.exists() { Ok(linux.to_owned()) } else { std::env::current_exe() }
}

/// As a shell says it: the command's own code, or 128 and the signal that ended it.
pub(super) fn code(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(number).unwrap_or(1)
}

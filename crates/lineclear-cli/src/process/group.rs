//! A command in its own process group, so that its children end with it.

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

use super::confinement::Confinement;
use super::descendants::kill_tree;
use crate::failure::Failure;

/// Exit codes of shells for a command that does not exist or cannot be run.
const NOT_FOUND: u8 = 127;
pub(super) const NOT_RUNNABLE: u8 = 126;

/// Poll intervals: until a new process has stopped, and until all of a group has ended.
const START_POLL: Duration = Duration::from_millis(1);
const END_POLL: Duration = Duration::from_millis(10);
/// How long killing may take. Most often, a millisecond.
const KILL_WITHIN: Duration = Duration::from_millis(200);

/// A process group whose first process runs a command.
pub(crate) struct Group {
    pub(crate) child: Child,
    id: Pid,
    /// Whether dropping it kills a supervised command. Not the child alone, which would set the processes of the command free.
    kill_on_drop: bool,
}

/// The first process of a group.
pub(crate) enum Launch {
    /// It becomes the command. What the command starts in another group is left alone.
    Directly,
    /// It supervises the command, and ends everything that the command started.
    Supervised(Confinement),
}

/// Looks for the program before anything is started. Whether it can really be run shows when it is.
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
        ErrorKind::NotFound => Failure::coded(NOT_FOUND, format!("command {program:?} not found")),
        _ => Failure::coded(NOT_RUNNABLE, format!("cannot run the command {program:?}: {error}")),
    }
}

impl Group {
    /// Starts a process for the command, with the input, output and environment that `prepare` sets. The process is stopped until
    /// [`Group::release`], so that the guard knows of it before the command begins.
    pub(crate) async fn start(
        launch: &Launch,
        command: &[OsString],
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Group, Failure> {
        let child = own_executable().and_then(|program| {
            let mut process = Command::new(program);
            let parent = std::process::id().to_string();
            process.arg0("lineclear");
            match launch {
                Launch::Directly => process.args(["become", &parent]),
                Launch::Supervised(confinement) => {
                    process.args([super::SUPERVISE, &parent, &confinement.to_text()])
                }
            };
            process.arg("--").args(command);
            prepare(&mut process).process_group(0).spawn()
        });
        let child = child
            .map_err(|error| Failure::coded(NOT_RUNNABLE, format!("cannot start a process: {error}")))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.ok_or_else(|| Failure::coded(NOT_RUNNABLE, "the command has no process id"))?;
        let mut group = Group { child, id, kill_on_drop: matches!(launch, Launch::Supervised(_)) };
        while group.stopped_by().is_none() && group.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            sleep(START_POLL).await;
        }
        Ok(group)
    }

    /// Lets the process execute the command.
    pub(crate) fn release(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// Sends a signal to all of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended.
        kill_process_group(self.id, signal).ok();
    }

    /// Kills all of the group, and all that a supervised command has started.
    pub(crate) fn kill(&mut self) {
        self.kill_on_drop = false;
        match self.child.id() {
            Some(_) => drop(kill_tree(self.id, KILL_WITHIN)),
            // The system may reuse the id of a process that has ended, but not while its group has members.
            None => self.signal(Signal::KILL),
        }
    }

    /// Waits until the command has ended. Its background processes may continue, unless it is supervised.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .await
            .map_err(|error| Failure::failed(format!("cannot wait for the command: {error}")))
    }

    /// Ends the whole group: TERM first, KILL after the grace period.
    pub(crate) async fn terminate(&mut self, grace: Duration) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now() + grace;
        self.signal(Signal::TERM);
        // A stopped process gets TERM only when it continues.
        self.signal(Signal::CONT);
        while Instant::now() < deadline {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some())
                && test_kill_process_group(self.id).is_err()
            {
                break;
            }
            sleep(END_POLL.min(deadline - Instant::now())).await;
        }
        self.kill();
        self.wait().await
    }

    /// The signal that stopped it since the last call.
    pub(crate) fn stopped_by(&self) -> Option<i32> {
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.id), stopped).ok()??.stopping_signal()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.kill_on_drop {
            self.kill();
        }
    }
}

/// Runs in the new process: stops itself until the guard knows of it, then executes the command.
pub(crate) fn become_command(parent: u32, command: &[OsString]) -> Failure {
    match wait_until_guarded(parent) {
        Ok(()) => execute(command),
        Err(failure) => failure,
    }
}

/// Stops this process until its parent continues it.
pub(super) fn wait_until_guarded(parent: u32) -> Result<(), Failure> {
    kill_process(getpid(), Signal::STOP).map_err(|error| Failure::coded(NOT_RUNNABLE, error.to_string()))?;
    // A parent that was killed meanwhile cannot have told the guard.
    if std::os::unix::process::parent_id() != parent {
        return Err(Failure::failed("the parent process was killed; the command was not run"));
    }
    Ok(())
}

/// Replaces this process by the command.
pub(super) fn execute(command: &[OsString]) -> Failure {
    let [program, arguments @ ..] = command else { return Failure::usage("the command is missing") };
    cannot_run(program, std::process::Command::new(program).args(arguments).exec())
}

/// The running program. Its file may have been replaced since it was started.
pub(super) fn own_executable() -> std::io::Result<PathBuf> {
    let linux = Path::new("/proc/self/exe");
    if linux.exists() { Ok(linux.to_owned()) } else { std::env::current_exe() }
}

/// The exit code as shells report it: the command's own, or 128 plus the signal that killed it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(number).unwrap_or(1)
}

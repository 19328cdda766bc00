//! The command of `lock run`: it inherits input and output, and gets the terminal while it needs it.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::terminal::LentTerminal;
use crate::failure::Failure;
use crate::process::{Group, HIDDEN_ARGS, Launch};

/// The running command.
pub(super) struct LockedChild {
    group: Group,
    terminal: Option<LentTerminal>,
}

impl LockedChild {
    /// Starts a process for the command. It is stopped until [`LockedChild::release`].
    pub(super) async fn start(
        command: &[OsString],
        variables: [(&str, String); 2],
    ) -> Result<LockedChild, Failure> {
        let group = Group::start(&Launch::Directly, command, |process| {
            // Not for the command: it may contain the password of the store.
            process.envs(variables).env_remove(HIDDEN_ARGS)
        });
        let group = group.await?;
        Ok(LockedChild { group, terminal: None })
    }

    /// Lets the process execute the command, and hands it the terminal. If the output is piped, the terminal is handed over later,
    /// because the reader may need it (`| less`).
    pub(super) fn release(&mut self) {
        if !output_is_piped() {
            self.terminal = LentTerminal::to(self.group.id());
        }
        self.group.release();
    }

    /// The id of its process group.
    pub(super) fn group(&self) -> Pid {
        self.group.id()
    }

    /// Sends a signal to all of the group.
    pub(super) fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Waits until the command has ended. Its background processes may continue.
    pub(super) async fn wait(&mut self) -> Result<ExitStatus, Failure> {
        self.group.wait().await
    }

    /// Ends the whole group: TERM first, KILL after the grace period.
    pub(super) async fn terminate(&mut self, grace: Duration) -> Result<ExitStatus, Failure> {
        self.group.terminate(grace).await
    }

    /// Continues a command that was stopped because it needs the terminal, or by Ctrl-Z: the shell does not see that, and would wait
    /// for this process while this process waits for the command. Returns whether it was Ctrl-Z.
    pub(super) fn continue_if_stopped(&mut self) -> bool {
        let Some(signal) = self.group.stopped_by() else { return false };
        let needs_terminal = [Signal::TTIN, Signal::TTOU].map(|signal| signal.as_raw()).contains(&signal);
        if needs_terminal && self.terminal.is_none() {
            self.terminal = LentTerminal::to(self.group.id());
        }
        // Without a terminal it was stopped on purpose.
        if self.terminal.is_some() {
            self.group.signal(Signal::CONT);
        }
        self.terminal.is_some() && !needs_terminal
    }
}

/// Whether another program reads the output.
fn output_is_piped() -> bool {
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    output.and_then(|output| output.metadata()).is_ok_and(|output| output.file_type().is_fifo())
}

//! The command of `lock run`: with our own input and output, and with the terminal while it needs it.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::terminal::Lent;
use crate::failure::Failure;
use crate::process::Group;

/// A command that runs.
pub(super) struct Process {
    group: Group,
    terminal: Option<Lent>,
}

impl Process {
    /// Makes a process for the command. It stands still until it is let go.
    pub(super) async fn make(
        command: &[OsString],
        variables: [(&str, String); 2],
    ) -> Result<Process, Failure> {
        let group = Group::make(command, |process| process.envs(variables)).await?;
        Ok(Process { group, terminal: None })
    }

    /// Lets it become the command. The terminal is the command's from now on, if it was ours; not yet, if another reads what it
    /// writes, because that one may be in need of the terminal (`| less`).
    pub(super) fn let_go(&mut self) {
        if !output_is_piped() {
            self.terminal = Lent::to(self.group.id());
        }
        self.group.let_go();
    }

    /// The id of its process group.
    pub(super) fn group(&self) -> Pid {
        self.group.id()
    }

    /// Sends a signal to all of the group.
    pub(super) fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Waits until the command has ended. What it has left in the background may go on.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        self.group.ended().await
    }

    /// Ends the whole group: asks it to, and kills what is left after the time of grace.
    pub(super) async fn end(&mut self, grace: Duration) -> Result<ExitStatus, Failure> {
        self.group.end(grace).await
    }

    /// Lets it go on if it was stopped because it needs the terminal, or by Ctrl-Z: the shell cannot know that, and would wait for us
    /// while we wait for it. Says whether it was Ctrl-Z.
    pub(super) fn unstop(&mut self) -> bool {
        let Some(signal) = self.group.stopped_by() else { return false };
        let needs_terminal = [Signal::TTIN, Signal::TTOU].map(|signal| signal.as_raw()).contains(&signal);
        if needs_terminal && self.terminal.is_none() {
            self.terminal = Lent::to(self.group.id());
        }
        // Without a terminal, somebody has stopped it on purpose.
        if self.terminal.is_some() {
            self.group.signal(Signal::CONT);
        }
        self.terminal.is_some() && !needs_terminal
    }
}

/// Whether another program reads what we write.
fn output_is_piped() -> bool {
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    output.and_then(|output| output.metadata()).is_ok_and(|output| output.file_type().is_fifo())
}

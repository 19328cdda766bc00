//! The terminal. It belongs to one process group at a time, and the command has its own group.

use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// A terminal that was handed to the command, and is taken back on drop.
pub(super) struct LentTerminal;

impl LentTerminal {
    /// Hands it to the command, which can then read from it and gets Ctrl-C. `None` if this process does not own it.
    pub(super) fn to(group: Pid) -> Option<LentTerminal> {
        let ours = std::io::stdin().is_terminal() && tcgetpgrp(stdin()).ok() == Some(getpgrp());
        (ours && tcsetpgrp(stdin(), group).is_ok()).then_some(LentTerminal)
    }
}

impl Drop for LentTerminal {
    fn drop(&mut self) {
        // A background process is stopped by TTOU here unless it blocks that signal.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        if stop.thread_block().is_ok() {
            // The terminal may be closed.
            tcsetpgrp(stdin(), getpgrp()).ok();
            stop.thread_unblock().ok();
        }
    }
}

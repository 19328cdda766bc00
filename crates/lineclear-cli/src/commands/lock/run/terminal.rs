//! The terminal, when a person has started us: it belongs to one process group at a time, and the command is in one of its own.

use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// A terminal that was handed to the command, and is taken back when this is dropped.
pub(super) struct Lent;

impl Lent {
    /// Hands it to the command, so that it can read what is typed, and gets Ctrl-C from it. `None`: it is not ours to give.
    pub(super) fn to(group: Pid) -> Option<Lent> {
        let ours = std::io::stdin().is_terminal() && tcgetpgrp(stdin()).ok() == Some(getpgrp());
        (ours && tcsetpgrp(stdin(), group).is_ok()).then_some(Lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Who is not in the foreground is stopped for asking, unless it blocks the signal that stops it.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        if stop.thread_block().is_ok() {
            // A terminal that has gone away is nobody's.
            tcsetpgrp(stdin(), getpgrp()).ok();
            stop.thread_unblock().ok();
        }
    }
}

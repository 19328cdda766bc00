//! The guard: a child process that kills commands when this process was killed or is frozen. It is told over a pipe when to kill each
//! command unless it hears more. The pipe closes when this process ends, whatever ended it.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lineclear_lock::Moment;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::descendants::kill_tree;
use super::group::{NOT_RUNNABLE, own_executable};
use crate::failure::Failure;
use crate::output::print_stderr;

/// It only has to start, but the machine may be busy.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// The guard reads at once, unless it is frozen.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);
/// If the guard itself was frozen, a newer message may be in the pipe.
const LAST_READ: Duration = Duration::from_millis(50);
/// Trust ends by a clock that runs while the machine sleeps; timeouts use one that does not.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long killing a command may take before the next one is killed.
const KILL_WITHIN: Duration = Duration::from_millis(500);

const OVER: &str = "over";

/// A running guard.
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    told: HashMap<Pid, Moment>,
}

impl Guard {
    /// Starts a guard; `parent` names this process in its messages.
    pub(crate) fn start(parent: &str) -> Result<Guard, Failure> {
        let child = own_executable().and_then(|program| {
            Command::new(program)
                .arg0("lineclear")
                .args(["guard", parent])
                // Commands can read the environment of processes of their user.
                .env_clear()
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // Signals to the group of this process must not reach it.
                .process_group(0)
                .spawn()
        });
        let mut child =
            child.map_err(|error| Failure::coded(NOT_RUNNABLE, format!("cannot start a guard: {error}")))?;
        // Taken, because waiting for a child closes its standard input.
        let pipe = child.stdin.take();
        Ok(Guard { child, pipe, told: HashMap::new() })
    }

    /// Waits until it has started.
    pub(crate) async fn ready(&mut self) -> Result<(), Failure> {
        let Some(mut stdout) = self.child.stdout.take() else { return Ok(()) };
        let ready = timeout(READY_TIMEOUT, stdout.read_exact(&mut [0])).await;
        match ready {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Failure::coded(NOT_RUNNABLE, "the guard did not start; the command was not run")),
        }
    }

    /// Tells it when to kill a group, unless it hears more.
    pub(crate) async fn tell(&mut self, group: Pid, end_at: Moment) {
        if self.told.insert(group, end_at) != Some(end_at) {
            let left = end_at.remaining().as_micros();
            self.write(format!("{} {left}\n", group.as_raw_nonzero())).await;
        }
    }

    /// Tells it that a group has ended: the system may reuse its id.
    pub(crate) async fn forget(&mut self, group: Pid) {
        if self.told.remove(&group).is_some() {
            self.write(format!("{} {OVER}\n", group.as_raw_nonzero())).await;
        }
    }

    /// Ends the guard.
    pub(crate) async fn dismiss(mut self) {
        self.write(format!("{OVER}\n")).await;
        drop(self.pipe.take());
        timeout(WRITE_TIMEOUT, self.child.wait()).await.ok();
    }

    /// Waits until the guard has ended unexpectedly.
    pub(crate) async fn wait(&mut self) {
        self.child.wait().await.ok();
    }

    async fn write(&mut self, line: String) {
        if let Some(pipe) = &mut self.pipe {
            // Callers notice a dead guard by [`Guard::wait`].
            timeout(WRITE_TIMEOUT, pipe.write_all(line.as_bytes())).await.ok();
        }
    }
}

/// Runs the guard.
pub(crate) fn watch(parent: &str) -> ExitCode {
    // Signals may be sent to all processes; the guard ends only when it is told to.
    let mut blocked = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        blocked.add(signal);
    }
    blocked.thread_block().ok();
    let mut output = std::io::stdout();
    // The parent may be dead; the loop notices that.
    output.write_all(b"r").and_then(|()| output.flush()).ok();
    let (lines, messages) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let mut known: HashMap<Pid, Moment> = HashMap::new();
    loop {
        let left = known.values().map(|end_at| end_at.remaining()).min().unwrap_or(CHECK_EVERY);
        let wait = if left.is_zero() { LAST_READ } else { left.min(CHECK_EVERY) };
        match messages.recv_timeout(wait) {
            Ok(line) if line == OVER => return ExitCode::SUCCESS,
            Ok(line) => match parse(&line) {
                Some(Message::Until(group, end_at)) => drop(known.insert(group, end_at)),
                Some(Message::Over(group)) => drop(known.remove(&group)),
                None => {}
            },
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                known.retain(|group, end_at| {
                    let over = end_at.remaining().is_zero();
                    if over {
                        kill(*group, &format!("{parent} is frozen and its lease has ended"));
                    }
                    !over
                });
                if known.is_empty() {
                    return ExitCode::FAILURE;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                known.keys().for_each(|group| kill(*group, &format!("{parent} was killed")));
                return if known.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            }
        }
    }
}

fn kill(group: Pid, why: &str) {
    // At once: the lease is not renewed any more, and another process may get it soon.
    if kill_tree(group, KILL_WITHIN) {
        print_stderr(&format!("lineclear: {why}; killing its command\n"));
    }
}

enum Message {
    Until(Pid, Moment),
    Over(Pid),
}

/// A process group, and the microseconds left to it, or that it has ended.
fn parse(line: &str) -> Option<Message> {
    let (group, left) = line.split_once(' ')?;
    let group = Pid::from_raw(group.parse().ok().filter(|group| *group > 1)?)?;
    if left == OVER {
        return Some(Message::Over(group));
    }
    Some(Message::Until(group, Moment::now().plus(Duration::from_micros(left.parse().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_group_and_a_time_are_parsed() {
        let Some(Message::Until(group, end_at)) = parse("4711 5000000") else { panic!("not parsed") };
        assert_eq!(group.as_raw_nonzero().get(), 4711);
        assert!(end_at.remaining() > Duration::from_secs(4));
        assert!(matches!(parse("4711 over"), Some(Message::Over(_))));
        // 1 and below would mean all processes, or our own group.
        for bad in ["", "4711", "x 1", "1 1", "0 1", "-1 1", "1 over", "4711 -1"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}

//! The guard: a process beside us that ends commands when we cannot, because we were killed or are frozen. It is told over a pipe
//! until when it shall wait for each. The pipe ends with us, whatever ended us.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lineclear_lock::Moment;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::group::{NOT_RUNNABLE, ourselves};
use crate::failure::{Failure, say};

/// It only has to start, but the machine may be busy.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// The guard reads at once, unless it is frozen: then there is no point in waiting for it.
const WRITE_WITHIN: Duration = Duration::from_millis(100);
/// If it was the guard that was frozen, the news is in the pipe.
const LAST_LOOK: Duration = Duration::from_millis(50);
/// The clock that ends trust goes on while the machine sleeps, and the one that wakes us does not.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const OVER: &str = "over";

/// A guard that was started.
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    told: HashMap<Pid, Moment>,
}

impl Guard {
    /// Starts one for whoever `who` names in what it says.
    pub(crate) fn start(who: &str) -> Result<Guard, Failure> {
        let child = ourselves().and_then(|ours| {
            Command::new(ours)
                .arg0("lineclear")
                .args(["guard", who])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // So that what is sent to our group does not reach it.
                .process_group(0)
                .spawn()
        });
        let mut child =
            child.map_err(|error| Failure::coded(NOT_RUNNABLE, format!("cannot start a guard: {error}")))?;
        // Held here, because waiting for a child closes what it is told by.
        let pipe = child.stdin.take();
        Ok(Guard { child, pipe, told: HashMap::new() })
    }

    /// Waits until nothing but its own death keeps it from its work.
    pub(crate) async fn ready(&mut self) -> Result<(), Failure> {
        let Some(mut said) = self.child.stdout.take() else { return Ok(()) };
        let ready = timeout(READY_WITHIN, said.read_exact(&mut [0])).await;
        match ready {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Failure::coded(NOT_RUNNABLE, "the guard did not start; the command was not run")),
        }
    }

    /// Tells it which group to end, and when, unless it hears from us again.
    pub(crate) async fn tell(&mut self, group: Pid, end_at: Moment) {
        if self.told.insert(group, end_at) != Some(end_at) {
            let left = end_at.remaining().as_micros();
            self.write(format!("{} {left}\n", group.as_raw_nonzero())).await;
        }
    }

    /// Tells it that a group has ended: its number may be another's soon.
    pub(crate) async fn forget(&mut self, group: Pid) {
        if self.told.remove(&group).is_some() {
            self.write(format!("{} {OVER}\n", group.as_raw_nonzero())).await;
        }
    }

    /// Tells it that there is nothing left to guard.
    pub(crate) async fn dismiss(mut self) {
        self.write(format!("{OVER}\n")).await;
        drop(self.pipe.take());
        timeout(WRITE_WITHIN, self.child.wait()).await.ok();
    }

    /// Waits until it has ended, which it should not while we live.
    pub(crate) async fn ended(&mut self) {
        self.child.wait().await.ok();
    }

    async fn write(&mut self, line: String) {
        if let Some(pipe) = &mut self.pipe {
            // A guard that is gone is noticed elsewhere.
            timeout(WRITE_WITHIN, pipe.write_all(line.as_bytes())).await.ok();
        }
    }
}

/// What the guard does.
pub(crate) fn watch(who: &str) -> ExitCode {
    // What is meant for those whom it guards may be sent to all processes: this one ends when it is told to.
    let mut blocked = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        blocked.add(signal);
    }
    blocked.thread_block().ok();
    let mut output = std::io::stdout();
    // Nobody may be there any more to hear it, which is seen below.
    output.write_all(b"r").and_then(|()| output.flush()).ok();
    let (lines, news) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let mut known: HashMap<Pid, Moment> = HashMap::new();
    loop {
        let left = known.values().map(|end_at| end_at.remaining()).min().unwrap_or(LOOK_EVERY);
        let wait = if left.is_zero() { LAST_LOOK } else { left.min(LOOK_EVERY) };
        match news.recv_timeout(wait) {
            Ok(line) if line == OVER => return ExitCode::SUCCESS,
            Ok(line) => match parse(&line) {
                Some(News::Until(group, end_at)) => drop(known.insert(group, end_at)),
                Some(News::Over(group)) => drop(known.remove(&group)),
                None => {}
            },
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                known.retain(|group, end_at| {
                    let over = end_at.remaining().is_zero();
                    if over {
                        end(*group, &format!("{who} stands still, and its time is over"));
                    }
                    !over
                });
                if known.is_empty() {
                    return ExitCode::FAILURE;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                known.keys().for_each(|group| end(*group, &format!("{who} was killed")));
                return if known.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            }
        }
    }
}

fn end(group: Pid, why: &str) {
    // At once: nobody renews the right to run it any more, and another may have it soon.
    if kill_process_group(group, rustix::process::Signal::KILL).is_ok() {
        say(&format!("lineclear: {why}; ending its command\n"));
    }
}

enum News {
    Until(Pid, Moment),
    Over(Pid),
}

/// A process group, and how many microseconds are left to it, or that it is over.
fn parse(line: &str) -> Option<News> {
    let (group, left) = line.split_once(' ')?;
    let group = Pid::from_raw(group.parse().ok().filter(|group| *group > 1)?)?;
    if left == OVER {
        return Some(News::Over(group));
    }
    Some(News::Until(group, Moment::now().plus(Duration::from_micros(left.parse().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_group_and_a_time_are_understood() {
        let Some(News::Until(group, end_at)) = parse("4711 5000000") else { panic!("not understood") };
        assert_eq!(group.as_raw_nonzero().get(), 4711);
        assert!(end_at.remaining() > Duration::from_secs(4));
        assert!(matches!(parse("4711 over"), Some(News::Over(_))));
        // 1 and below would mean all processes, or our own group.
        for bad in ["", "4711", "x 1", "1 1", "0 1", "-1 1", "1 over", "4711 -1"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}

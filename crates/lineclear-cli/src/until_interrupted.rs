//! Commands that print until Ctrl-C, or until the reader of their standard output closes it.

use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::Failure;

/// How often to check whether standard output is still read.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Exit code of an interrupted command, as shells have it.
const INTERRUPTED: u8 = 130;

/// Runs `work` to its end, to Ctrl-C, or until standard output is closed.
pub(crate) async fn until_interrupted(
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<ExitCode, Failure> {
    tokio::select! {
        done = work => done.map(|()| ExitCode::SUCCESS),
        () = stdout_closed() => Ok(ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

async fn stdout_closed() {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        let out = rustix::stdio::stdout();
        let mut polled = [PollFd::new(&out, PollFlags::empty())];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut polled, Some(&no_wait)).is_ok() && polled[0].revents().contains(PollFlags::ERR) {
            return;
        }
    }
}

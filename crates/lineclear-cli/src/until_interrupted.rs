//! What goes on until somebody stops it, or nobody reads it any more.

use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::Failure;

/// How often it is looked whether anybody still reads.
const LISTENED: Duration = Duration::from_secs(1);
/// What a shell says of a command that was interrupted.
const INTERRUPTED: u8 = 130;

/// Does it until its end, until Ctrl-C, or until whoever reads our standard output has gone.
pub(crate) async fn until_stopped(
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<ExitCode, Failure> {
    tokio::select! {
        done = work => done.map(|()| ExitCode::SUCCESS),
        () = unread() => Ok(ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

async fn unread() {
    loop {
        tokio::time::sleep(LISTENED).await;
        let out = rustix::stdio::stdout();
        let mut asked = [PollFd::new(&out, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::ERR) {
            return;
        }
    }
}

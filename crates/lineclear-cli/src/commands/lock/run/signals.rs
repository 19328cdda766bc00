//! Signals that are for the command, not for us.

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// All that ask a process to end, or mean what the command wants them to mean.
const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Signals that come to us, one by one.
pub(super) struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    /// From now on they do not end us. Those that whoever started us told us to ignore (`nohup`) are left so, and the command
    /// inherits that.
    pub(super) fn listen() -> Result<Signals, Failure> {
        let ignored = ignored();
        let (sender, receiver) = mpsc::unbounded_channel();
        for passed_on in PASSED_ON.into_iter().filter(|signal| !ignored.contains(signal)) {
            let mut stream = signal(SignalKind::from_raw(passed_on.as_raw()))
                .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
            let sender = sender.clone();
            tokio::spawn(
                async move { while stream.recv().await.is_some() && sender.send(passed_on).is_ok() {} },
            );
        }
        Ok(Signals(receiver))
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            // All are ignored.
            None => std::future::pending().await,
        }
    }
}

/// What Linux says that we ignore.
fn ignored() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    PASSED_ON.into_iter().filter(|signal| mask >> (signal.as_raw() - 1) & 1 == 1).collect()
}

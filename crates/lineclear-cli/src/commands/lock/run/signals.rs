//! Signals that are forwarded to the command.

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// Signals that ask a process to end, or whose meaning the command defines.
const FORWARDED: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Received signals, one by one.
pub(super) struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    /// Stops these signals from ending this process. Those that are ignored already (`nohup`) stay ignored, and the command inherits that.
    pub(super) fn listen() -> Result<Signals, Failure> {
        let ignored = ignored();
        let (sender, receiver) = mpsc::unbounded_channel();
        for forwarded in FORWARDED.into_iter().filter(|signal| !ignored.contains(signal)) {
            let mut stream = signal(SignalKind::from_raw(forwarded.as_raw()))
                .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
            let sender = sender.clone();
            tokio::spawn(
                async move { while stream.recv().await.is_some() && sender.send(forwarded).is_ok() {} },
            );
        }
        Ok(Signals(receiver))
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            // All signals are ignored.
            None => std::future::pending().await,
        }
    }
}

/// Signals that this process ignores, according to Linux.
fn ignored() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    FORWARDED.into_iter().filter(|signal| mask >> (signal.as_raw() - 1) & 1 == 1).collect()
}

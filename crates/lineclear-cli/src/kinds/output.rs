//! Output of a command: each line is logged with the job, and the end is kept for the result.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Target of the log lines of commands, which go to the job and not to the log of the server.
pub(crate) const TARGET: &str = "lineclear::output_of_commands";

/// Bytes of each stream that are kept for the result.
const KEPT: usize = 8 * 1024;
/// Longer lines are logged in parts.
const LINE_MAX: usize = 4 * 1024;

/// Standard output or standard error.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Out,
    Err,
}

/// The output so far.
#[derive(Default)]
pub(super) struct Captured {
    kept: VecDeque<u8>,
    line: Vec<u8>,
    is_cut: bool,
}

impl Captured {
    /// Reads to the end.
    pub(super) async fn read_all(&mut self, from: Option<impl AsyncRead + Unpin>, stream: Stream) {
        let Some(mut from) = from else { return };
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            self.push(bytes.get(..count).unwrap_or_default(), stream);
        }
        self.log_line(stream);
    }

    fn push(&mut self, bytes: &[u8], stream: Stream) {
        for byte in bytes {
            if *byte == b'\n' || self.line.len() >= LINE_MAX {
                self.log_line(stream);
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            }
        }
        self.kept.extend(bytes);
        let over = self.kept.len().saturating_sub(KEPT);
        self.is_cut |= over > 0;
        self.kept.drain(..over);
    }

    fn log_line(&mut self, stream: Stream) {
        let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        self.line.clear();
        if line.is_empty() {
            return;
        }
        match stream {
            Stream::Out => tracing::info!(target: TARGET, "{line}"),
            Stream::Err => tracing::warn!(target: TARGET, "{line}"),
        }
    }

    /// The end of the output.
    pub(super) fn tail(&self) -> String {
        let (first, second) = self.kept.as_slices();
        let text = String::from_utf8_lossy(&[first, second].concat()).into_owned();
        // Payloads cannot hold other control characters, or only escaped.
        let text = text.replace(|c: char| c.is_control() && !"\n\t".contains(c), "\u{fffd}");
        let text = text.trim_end();
        if self.is_cut { format!("…{text}") } else { text.to_owned() }
    }

    /// The last line that is not blank.
    pub(super) fn last_line(&self) -> Option<String> {
        self.tail().lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_long_output_is_kept_and_marked() {
        let mut read = Captured::default();
        read.read_all(Some(&b"one\n\ntwo \n \n"[..]), Stream::Out).await;
        assert_eq!((read.tail().as_str(), read.last_line().as_deref()), ("one\n\ntwo", Some("two")));
        let long = vec![b'x'; KEPT + 1];
        read.read_all(Some(&long[..]), Stream::Out).await;
        assert_eq!(read.tail().len(), KEPT + "…".len());
        assert!(read.tail().starts_with("…x"));
    }

    #[tokio::test]
    async fn bytes_that_are_not_utf8_do_no_harm() {
        let mut read = Captured::default();
        read.read_all(Some(&b"\xff\xfe\0ok\r"[..]), Stream::Err).await;
        assert!(read.tail().ends_with("\u{fffd}ok\u{fffd}"), "{:?}", read.tail());
        let mut bells = Captured::default();
        bells.read_all(Some(&[7; 100_000][..]), Stream::Out).await;
        let output = lineclear_model::Payload::of(&[bells.tail(), bells.tail()]).unwrap();
        assert!(output.as_str().len() < 64 * 1024);
    }
}

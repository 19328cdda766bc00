//! The log of one running handler, until it is written to the database; bounded.

use std::sync::{Mutex, MutexGuard};

use lineclear_model::Micros;

use crate::store::{LOG_BYTES_MAX, LOG_LINES_MAX, LogLine};

/// The log of one handler.
#[derive(Default)]
pub(crate) struct Log(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Not written to the database yet.
    waiting: Vec<LogLine>,
    lines: u32,
    bytes: usize,
    dropped: u64,
    /// How many dropped lines the log mentions already.
    told: u64,
    /// Some lines were taken, and it is not known yet whether they are written.
    is_on_its_way: bool,
}

impl Log {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn push(&self, level: &str, target: &str, message: String) {
        let mut kept = self.kept();
        let bytes = target.len() + message.len();
        // Once full, it stays so: a log with holes would mislead.
        if kept.dropped > 0 || kept.lines >= LOG_LINES_MAX || kept.bytes + bytes > LOG_BYTES_MAX {
            kept.dropped += 1;
            return;
        }
        kept.lines += 1;
        kept.bytes += bytes;
        let line = line(kept.lines, level, target, message);
        kept.waiting.push(line);
    }

    /// Whether some lines are not written yet.
    pub(crate) fn has_news(&self) -> bool {
        let kept = self.kept();
        !kept.waiting.is_empty() || kept.told < kept.dropped || kept.is_on_its_way
    }

    /// Takes the lines to write. The caller then calls [`Log::written`] or [`Log::again`].
    pub(crate) fn drain(&self) -> Vec<LogLine> {
        let mut kept = self.kept();
        let mut lines = std::mem::take(&mut kept.waiting);
        if kept.told < kept.dropped {
            kept.told = kept.dropped;
            let message = format!("{} more lines were dropped: the log is full", kept.dropped);
            lines.push(line(kept.lines + 1, "WARN", "lineclear", message));
        }
        kept.is_on_its_way = !lines.is_empty();
        lines
    }

    pub(crate) fn written(&self) {
        self.kept().is_on_its_way = false;
    }

    pub(crate) fn again(&self, mut lines: Vec<LogLine>) {
        let mut kept = self.kept();
        kept.is_on_its_way = false;
        let last = kept.lines;
        if lines.iter().any(|line| line.line_no > last) {
            // The note about dropped lines is written again.
            kept.told = 0;
        }
        lines.retain(|line| line.line_no <= last);
        lines.append(&mut kept.waiting);
        kept.waiting = lines;
    }
}

fn line(line_no: u32, level: &str, target: &str, message: String) -> LogLine {
    let logged_at = Micros::from(jiff::Timestamp::now());
    LogLine { line_no, logged_at, level: level.to_owned(), target: target.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &Log) -> Vec<(u32, String)> {
        log.drain().into_iter().map(|line| (line.line_no, line.message)).collect()
    }

    #[test]
    fn a_full_log_counts_what_it_drops() {
        let log = Log::default();
        for n in 0..LOG_LINES_MAX + 5 {
            log.push("INFO", "app", n.to_string());
        }
        let all = messages(&log);
        assert_eq!(all.len() as u32, LOG_LINES_MAX + 1);
        assert_eq!(
            all.last().unwrap(),
            &(LOG_LINES_MAX + 1, "5 more lines were dropped: the log is full".to_owned())
        );
        assert!(log.has_news(), "not written yet");
        log.written();
        assert!(!log.has_news());
        log.push("INFO", "app", "late".to_owned());
        assert_eq!(
            messages(&log),
            [(LOG_LINES_MAX + 1, "6 more lines were dropped: the log is full".to_owned())]
        );
    }

    #[test]
    fn bytes_are_bounded_too() {
        let log = Log::default();
        for _ in 0..100 {
            log.push("INFO", "", "x".repeat(LOG_BYTES_MAX / 10));
        }
        let all = messages(&log);
        assert_eq!((all.len(), all[10].1.as_str()), (11, "90 more lines were dropped: the log is full"));
    }

    #[test]
    fn what_could_not_be_written_comes_again_in_its_order() {
        let log = Log::default();
        log.push("INFO", "app", "one".to_owned());
        let taken = log.drain();
        log.push("INFO", "app", "two".to_owned());
        log.again(taken);
        assert!(log.has_news());
        assert_eq!(messages(&log), [(1, "one".to_owned()), (2, "two".to_owned())]);
    }
}

//! Progress of long operations, on standard error: one line that is rewritten on a terminal, a line per tenth elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output::approx_duration;

/// How often the line is rewritten.
const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// A long operation.
pub(crate) struct Progress {
    /// What is counted, such as `revived`.
    verb: &'static str,
    /// `None` if it is unknown.
    total: Option<u64>,
    begun: Instant,
    is_terminal: bool,
    /// Prints nothing.
    quiet: bool,
    shown: Option<Instant>,
    tenth: u64,
}

impl Progress {
    /// Begins. `total` may be an estimate.
    pub(crate) fn new(verb: &'static str, total: u64, quiet: bool) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let total = Some(total);
        Progress { verb, total, begun: Instant::now(), is_terminal, quiet, shown: None, tenth: 0 }
    }

    /// Begins an operation of unknown length. Prints only on a terminal.
    pub(crate) fn without_total(verb: &'static str, quiet: bool) -> Progress {
        Progress { total: None, ..Progress::new(verb, 0, quiet) }
    }

    /// Sets the count and a better estimate of the total.
    pub(crate) fn set_with_total(&mut self, done: u64, total: u64) {
        self.total = Some(total);
        self.set(done);
    }

    /// Sets the count. The caller prints the end result.
    pub(crate) fn set(&mut self, done: u64) {
        if let Some(line) = self.line(done, self.begun.elapsed()) {
            write(&line);
        }
    }

    fn line(&mut self, done: u64, took: Duration) -> Option<String> {
        if self.quiet || done == 0 || self.total.is_some_and(|total| done >= total) {
            return None;
        }
        if self.is_terminal {
            if self.shown.is_some_and(|shown| shown.elapsed() < REDRAW_EVERY) {
                return None;
            }
            self.shown = Some(Instant::now());
            return Some(format!("\r{}\x1b[K", line_text(self.verb, done, self.total, took)));
        }
        let tenth = done.saturating_mul(10) / self.total?;
        (tenth > self.tenth).then(|| {
            self.tenth = tenth;
            format!("{}\n", line_text(self.verb, done, self.total, took))
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Clears the line for what is printed next.
        if self.shown.is_some() {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    // Standard error may be closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn line_text(verb: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(0.001);
    let each = done as f64 / seconds;
    let rate = if each < 10.0 { format!("{each:.1}") } else { format!("{each:.0}") };
    let Some(total) = total else { return format!("{done} {verb}, {rate}/s") };
    let left = Duration::from_secs_f64(((total - done) as f64 / each.max(0.001)).min(1e9));
    let left = approx_duration(i64::try_from(left.as_micros()).unwrap_or(i64::MAX));
    format!("{done} of {total} {verb} ({} %), {rate}/s, {left} left", done.saturating_mul(100) / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(is_terminal: bool) -> Progress {
        Progress { is_terminal, ..Progress::new("revived", 200, false) }
    }

    #[test]
    fn a_pipe_gets_a_line_for_each_tenth_and_none_for_the_end() {
        let mut progress = progress(false);
        let mut lines: Vec<String> = Vec::new();
        for done in (0..=200).step_by(10) {
            lines.extend(progress.line(done, Duration::from_secs(done / 10)));
        }
        assert_eq!(lines.len(), 9, "{lines:?}");
        assert_eq!(lines[0], "20 of 200 revived (10 %), 10/s, 18s left\n");
        assert_eq!(lines[8], "180 of 200 revived (90 %), 10/s, 2s left\n");
        assert_eq!(Progress::new("revived", 0, false).line(5, Duration::ZERO), None, "more than was known");
    }

    #[test]
    fn a_terminal_gets_one_line_that_is_rewritten_and_not_too_often() {
        let mut progress = progress(true);
        let line = progress.line(1, Duration::from_secs(2)).unwrap();
        assert_eq!(line, "\r1 of 200 revived (0 %), 0.5/s, 6m 38s left\x1b[K");
        assert_eq!(progress.line(2, Duration::from_secs(2)), None);
        progress.shown = None;
    }

    #[test]
    fn without_a_total_only_a_terminal_gets_lines() {
        let mut listed = Progress { is_terminal: true, ..Progress::without_total("listed", false) };
        assert_eq!(listed.line(3000, Duration::from_secs(2)).unwrap(), "\r3000 listed, 1500/s\x1b[K");
        listed.shown = None;
        let mut piped = Progress { is_terminal: false, ..Progress::without_total("listed", false) };
        assert_eq!(piped.line(3000, Duration::from_secs(2)), None);
    }
}

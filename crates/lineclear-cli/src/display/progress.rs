//! How far long work is, on standard error: one line that is written over on a terminal, a line for each tenth elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output::roughly;

/// How often a line is written over.
const OFTEN: Duration = Duration::from_millis(100);

/// Work that goes on.
pub(crate) struct Progress {
    /// What is done, such as `revived`.
    verb: &'static str,
    /// `None`: nobody knows how much it is.
    total: Option<u64>,
    begun: Instant,
    is_terminal: bool,
    /// Nobody wants to hear of it.
    quiet: bool,
    shown: Option<Instant>,
    tenth: u64,
}

impl Progress {
    /// Begins; `total` may turn out to be more, or less. `quiet`: says nothing.
    pub(crate) fn new(verb: &'static str, total: u64, quiet: bool) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let total = Some(total);
        Progress { verb, total, begun: Instant::now(), is_terminal, quiet, shown: None, tenth: 0 }
    }

    /// Begins what ends when it ends. Only a terminal hears of it.
    pub(crate) fn of_unknown(verb: &'static str, quiet: bool) -> Progress {
        Progress { total: None, ..Progress::new(verb, 0, quiet) }
    }

    /// So much is done, of what looks like so much by now.
    pub(crate) fn at_of(&mut self, done: u64, total: u64) {
        self.total = Some(total);
        self.at(done);
    }

    /// So much is done. The end is said by whoever began it.
    pub(crate) fn at(&mut self, done: u64) {
        if let Some(line) = self.line(done, self.begun.elapsed()) {
            write(&line);
        }
    }

    fn line(&mut self, done: u64, took: Duration) -> Option<String> {
        if self.quiet || done == 0 || self.total.is_some_and(|total| done >= total) {
            return None;
        }
        if self.is_terminal {
            if self.shown.is_some_and(|shown| shown.elapsed() < OFTEN) {
                return None;
            }
            self.shown = Some(Instant::now());
            return Some(format!("\r{}\x1b[K", told(self.verb, done, self.total, took)));
        }
        let tenth = done.saturating_mul(10) / self.total?;
        (tenth > self.tenth).then(|| {
            self.tenth = tenth;
            format!("{}\n", told(self.verb, done, self.total, took))
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // What comes next has the line for itself.
        if self.shown.is_some() {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    // Nobody may be listening.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn told(verb: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(0.001);
    let each = done as f64 / seconds;
    let rate = if each < 10.0 { format!("{each:.1}") } else { format!("{each:.0}") };
    let Some(total) = total else { return format!("{done} {verb}, {rate}/s") };
    let left = Duration::from_secs_f64(((total - done) as f64 / each.max(0.001)).min(1e9));
    let left = roughly(i64::try_from(left.as_micros()).unwrap_or(i64::MAX));
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
    fn a_terminal_gets_one_line_that_is_written_over_and_not_too_often() {
        let mut progress = progress(true);
        let line = progress.line(1, Duration::from_secs(2)).unwrap();
        assert_eq!(line, "\r1 of 200 revived (0 %), 0.5/s, 6m 38s left\x1b[K");
        assert_eq!(progress.line(2, Duration::from_secs(2)), None);
        progress.shown = None;
    }

    #[test]
    fn of_what_has_no_known_end_only_a_terminal_hears() {
        let mut listed = Progress { is_terminal: true, ..Progress::of_unknown("listed", false) };
        assert_eq!(listed.line(3000, Duration::from_secs(2)).unwrap(), "\r3000 listed, 1500/s\x1b[K");
        listed.shown = None;
        let mut piped = Progress { is_terminal: false, ..Progress::of_unknown("listed", false) };
        assert_eq!(piped.line(3000, Duration::from_secs(2)), None);
    }
}

//! Folds log lines that repeat: the first one is logged at once, or the first few, then one line a period, with the number of those left
//! out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Keys that are remembered. Lines with further keys are folded together.
const KEYS_MAX: usize = 256;
/// How often lines that were left out are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Which lines were logged lately.
#[derive(Debug)]
pub struct LogFold<K> {
    period: Duration,
    lines: u32,
    keys: Mutex<HashMap<K, Folding>>,
    /// All keys beyond the bound.
    others: Mutex<Option<Folding>>,
}

#[derive(Debug)]
struct Folding {
    /// When the period began.
    began: Instant,
    /// Lines that were logged in it.
    lines: u32,
    left_out: u64,
}

impl Folding {
    fn new(now: Instant) -> Folding {
        Folding { began: now, lines: 1, left_out: 0 }
    }

    fn note(&mut self, now: Instant, period: Duration, lines: u32) -> Option<u64> {
        if now - self.began >= period {
            return Some(std::mem::replace(self, Folding::new(now)).left_out);
        }
        if self.lines < lines {
            self.lines += 1;
            return Some(0);
        }
        self.left_out += 1;
        None
    }
}

impl<K: Eq + Hash + Clone> LogFold<K> {
    /// One line a period.
    pub fn new(period: Duration) -> LogFold<K> {
        LogFold { period, lines: 1, keys: Mutex::default(), others: Mutex::default() }
    }

    /// So many lines a period, for each key.
    #[must_use]
    pub fn lines(mut self, lines: u32) -> LogFold<K> {
        self.lines = lines;
        self
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<K, Folding>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened. `Some`: log it now; so many like it were left out since the last line.
    pub fn note(&self, key: &K) -> Option<u64> {
        let (mut keys, now) = (self.keys(), Instant::now());
        if let Some(known) = keys.get_mut(key) {
            return known.note(now, self.period, self.lines);
        }
        if keys.len() < KEYS_MAX {
            keys.insert(key.clone(), Folding::new(now));
            return Some(0);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        match others.as_mut() {
            Some(others) => others.note(now, self.period, self.lines),
            None => {
                *others = Some(Folding::new(now));
                Some(0)
            }
        }
    }

    /// It is over. `Some`: so many were left out since the last line.
    pub fn over(&self, key: &K) -> Option<u64> {
        self.keys().remove(key).map(|known| known.left_out)
    }

    /// Forgets all, and returns what was left out and not told yet.
    pub fn flush(&self) -> Vec<(K, u64)> {
        let keys = std::mem::take(&mut *self.keys());
        let left_out = keys.into_iter().map(|(key, known)| (key, known.left_out));
        left_out.filter(|(_, left_out)| *left_out > 0).collect()
    }

    /// Forgets what has not happened for a period, and returns what was left out and not told yet.
    pub fn sweep(&self) -> Vec<(K, u64)> {
        let (now, mut untold) = (Instant::now(), Vec::new());
        self.keys().retain(|key, known| {
            if now - known.began < self.period {
                return true;
            }
            if known.left_out > 0 {
                untold.push((key.clone(), std::mem::take(&mut known.left_out)));
                // This was the line of a new period.
                *known = Folding::new(now);
                return true;
            }
            false
        });
        untold
    }
}

impl<K: Eq + Hash + Clone + Send + 'static> LogFold<K> {
    /// Tells of lines that were left out, in the background, until `ended`.
    pub fn sweep_until(self: &Arc<Self>, ended: CancellationToken, tell: impl Fn(K, u64) + Send + 'static) {
        let fold = self.clone();
        tokio::spawn(async move {
            loop {
                let has_ended = tokio::select! {
                    () = ended.cancelled() => true,
                    () = tokio::time::sleep(SWEEP_EVERY) => false,
                };
                let untold = if has_ended { fold.flush() } else { fold.sweep() };
                untold.into_iter().for_each(|(key, left_out)| tell(key, left_out));
                if has_ended {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lines_a_period_are_logged_if_so_many_are_allowed() {
        let fold = LogFold::new(Duration::from_secs(3600)).lines(3);
        assert_eq!((0..1_000).filter(|_| fold.note(&"floods").is_some()).count(), 3);
        assert_eq!(fold.note(&"another"), Some(0), "each key has its own");
        assert_eq!(fold.flush(), [("floods", 997)]);
        assert_eq!(fold.note(&"floods"), Some(0), "and lines are logged again");
    }

    #[tokio::test]
    async fn what_was_left_out_is_told_when_it_ends() {
        let (fold, ended) = (Arc::new(LogFold::new(Duration::from_secs(3600))), CancellationToken::new());
        let (sender, told) = std::sync::mpsc::channel();
        fold.sweep_until(ended.clone(), move |key, left_out| sender.send((key, left_out)).unwrap());
        assert_eq!((fold.note(&"a"), fold.note(&"a"), fold.note(&"a")), (Some(0), None, None));
        ended.cancel();
        let told = tokio::task::spawn_blocking(move || told.recv_timeout(Duration::from_secs(60)));
        assert_eq!(told.await.unwrap(), Ok(("a", 2)));
    }

    #[test]
    fn the_first_line_is_logged_and_the_rest_is_counted() {
        let fold = LogFold::new(Duration::from_secs(3600));
        assert_eq!(fold.note(&"a"), Some(0));
        assert_eq!((fold.note(&"a"), fold.note(&"a"), fold.note(&"b")), (None, None, Some(0)));
        assert!(fold.sweep().is_empty(), "the period is not over");
        assert_eq!((fold.over(&"a"), fold.over(&"a")), (Some(2), None));
        assert_eq!(fold.note(&"a"), Some(0), "it begins anew");
    }

    #[test]
    fn what_was_left_out_is_told_after_the_period_and_then_forgotten() {
        let fold = LogFold::new(Duration::from_millis(300));
        assert_eq!((fold.note(&"a"), fold.note(&"a")), (Some(0), None));
        while fold.sweep().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        while !fold.keys().is_empty() {
            assert!(fold.sweep().is_empty(), "it is told once");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn many_keys_cost_neither_memory_nor_lines() {
        let fold = LogFold::new(Duration::from_secs(3600));
        let lines = (0..10 * KEYS_MAX).filter(|key| fold.note(key).is_some()).count();
        assert_eq!(lines, KEYS_MAX + 1, "one for all the others");
        assert_eq!(fold.keys().len(), KEYS_MAX);
    }
}

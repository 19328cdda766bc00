//! Folds log lines that repeat: the first one is logged at once, then one line a period, with the number of those left out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Keys that are remembered. Lines with further keys are folded together.
const KEYS_MAX: usize = 256;

/// Which lines were logged lately.
#[derive(Debug)]
pub struct LogFold<K> {
    period: Duration,
    keys: Mutex<HashMap<K, Folding>>,
    /// All keys beyond the bound.
    others: Mutex<Option<Folding>>,
}

#[derive(Debug)]
struct Folding {
    logged_at: Instant,
    left_out: u64,
}

impl Folding {
    fn note(&mut self, now: Instant, period: Duration) -> Option<u64> {
        if now - self.logged_at < period {
            self.left_out += 1;
            return None;
        }
        self.logged_at = now;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl<K: Eq + Hash + Clone> LogFold<K> {
    /// One line a period.
    pub fn new(period: Duration) -> LogFold<K> {
        LogFold { period, keys: Mutex::default(), others: Mutex::default() }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<K, Folding>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened. `Some`: log it now; so many like it were left out since the last line.
    pub fn note(&self, key: &K) -> Option<u64> {
        let (mut keys, now) = (self.keys(), Instant::now());
        if let Some(known) = keys.get_mut(key) {
            return known.note(now, self.period);
        }
        if keys.len() < KEYS_MAX {
            keys.insert(key.clone(), Folding { logged_at: now, left_out: 0 });
            return Some(0);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        match others.as_mut() {
            Some(others) => others.note(now, self.period),
            None => {
                *others = Some(Folding { logged_at: now, left_out: 0 });
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
            if now - known.logged_at < self.period {
                return true;
            }
            if known.left_out > 0 {
                untold.push((key.clone(), std::mem::take(&mut known.left_out)));
                known.logged_at = now;
                return true;
            }
            false
        });
        untold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

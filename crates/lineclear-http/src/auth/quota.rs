//! How many of one thing each caller may hold at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

/// A limit for each key. Only keys that hold something are in memory.
pub(crate) struct Quota<K: Eq + Hash> {
    max: usize,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

/// One of a key's, until it is dropped.
pub(crate) struct Share<K: Eq + Hash> {
    key: K,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

fn lock<K>(held: &Mutex<HashMap<K, usize>>) -> MutexGuard<'_, HashMap<K, usize>> {
    held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl<K: Eq + Hash + Clone> Quota<K> {
    pub(crate) fn new(max: usize) -> Quota<K> {
        Quota { max, held: Arc::default() }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// One more for a key. `None`: it holds as many as it may.
    pub(crate) fn take(&self, key: K) -> Option<Share<K>> {
        let mut held = lock(&self.held);
        if held.get(&key).copied().unwrap_or(0) >= self.max {
            return None;
        }
        *held.entry(key.clone()).or_default() += 1;
        Some(Share { key, held: self.held.clone() })
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        if let Some(count) = held.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                held.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_has_so_many_and_others_have_theirs() {
        let quota = Quota::new(2);
        let (one, two) = (quota.take("a"), quota.take("a"));
        assert!(one.is_some() && two.is_some() && quota.take("a").is_none());
        assert!(quota.take("b").is_some());
        drop(one);
        let again = quota.take("a");
        assert!(again.is_some() && quota.take("a").is_none());
        drop((two, again));
        assert!(lock(&quota.held).is_empty(), "nothing is left over");
        let none = Quota::new(0);
        assert!(none.take("a").is_none() && lock(&none.held).is_empty());
    }
}

//! The gated groups of which this process has settled a job: they may have room again, and its dispatchers look at them first.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// More than a dispatcher looks at are not kept: then it reads all groups.
const GROUPS_MAX: usize = 1_000;

/// Groups that have been freed since a dispatcher asked last.
#[derive(Debug, Default)]
pub(crate) struct FreedGroups(Mutex<BTreeSet<i64>>);

impl FreedGroups {
    pub(crate) fn add(&self, groups: impl IntoIterator<Item = i64>) {
        let mut freed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for group in groups {
            if freed.len() < GROUPS_MAX {
                freed.insert(group);
            }
        }
    }

    pub(crate) fn drain(&self) -> Vec<i64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }
}

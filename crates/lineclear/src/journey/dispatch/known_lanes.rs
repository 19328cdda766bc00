//! What a dispatcher remembers of the lanes of submitters and remote workers, so that it asks only about those of which it does not know
//! whether jobs wait.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use lineclear_model::Name;

use crate::journey::submit::polls::EMPTY_FOR;

/// Lanes that it remembers.
const LANES_MAX: usize = 20_000;

#[derive(Default)]
pub(super) struct KnownLanes {
    /// Lanes in which no job waited, and when that was.
    empty_at: HashMap<Name, Instant>,
    /// Lanes of which the last dispatch got as many jobs as there was room for.
    backlogs: HashSet<Name>,
    /// The announcements of work that it has seen.
    announced: u64,
}

impl KnownLanes {
    /// After an announcement, jobs may wait in every lane.
    pub(super) fn note_announced(&mut self, announced: u64) {
        if std::mem::replace(&mut self.announced, announced) != announced {
            self.forget_empty();
        }
    }

    pub(super) fn forget_empty(&mut self) {
        self.empty_at.clear();
    }

    pub(super) fn note_empty(&mut self, route: &Name) {
        self.backlogs.remove(route);
        if self.empty_at.len() < LANES_MAX {
            self.empty_at.insert(route.clone(), Instant::now());
        } else {
            self.empty_at.clear();
        }
    }

    /// A dispatch got so many jobs.
    pub(super) fn note_dispatch(&mut self, route: &Name, got: usize, room: u32) {
        if got < room as usize {
            self.backlogs.remove(route);
        } else if self.backlogs.len() < LANES_MAX {
            self.backlogs.insert(route.clone());
        }
    }

    /// No job waited there a moment ago, and none was announced since.
    pub(super) fn is_empty(&self, route: &Name) -> bool {
        self.empty_at.get(route).is_some_and(|at| at.elapsed() < EMPTY_FOR)
    }

    /// More jobs may wait there than were dispatched last.
    pub(super) fn has_backlog(&self, route: &Name) -> bool {
        self.backlogs.contains(route)
    }
}

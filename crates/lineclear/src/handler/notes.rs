//! What a handler has said while it runs, until it is written down.

use std::sync::{Mutex, MutexGuard};

use crate::store::ProgressView;

/// What one running handler has said.
#[derive(Default)]
pub(crate) struct Notes {
    progress: Mutex<Progressed>,
}

#[derive(Default)]
struct Progressed {
    latest: Option<ProgressView>,
    is_new: bool,
}

impl Notes {
    /// How far it is. Only the latest counts, and only if it is another than before.
    pub(crate) fn progress(&self, progress: ProgressView) {
        let mut known = locked(&self.progress);
        if known.latest.as_ref() != Some(&progress) {
            *known = Progressed { latest: Some(progress), is_new: true };
        }
    }

    /// How far it is, if that has changed since it was last asked.
    pub(crate) fn new_progress(&self) -> Option<ProgressView> {
        let mut known = locked(&self.progress);
        std::mem::take(&mut known.is_new).then(|| known.latest.clone()).flatten()
    }

    /// What was asked for could not be written.
    pub(crate) fn progress_again(&self) {
        locked(&self.progress).is_new = true;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_progress_counts_and_only_once() {
        let notes = Notes::default();
        assert_eq!(notes.new_progress(), None);
        notes.progress(ProgressView::new(0.1, "a"));
        notes.progress(ProgressView::new(0.2, "b"));
        assert_eq!(notes.new_progress(), Some(ProgressView::new(0.2, "b")));
        notes.progress(ProgressView::new(0.2, "b"));
        assert_eq!(notes.new_progress(), None, "nothing changed");
        notes.progress_again();
        assert_eq!(notes.new_progress(), Some(ProgressView::new(0.2, "b")));
    }
}

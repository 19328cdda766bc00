//! Buffers the progress and log of a running handler until they are written.

use std::sync::{Mutex, MutexGuard, OnceLock};

#[cfg(feature = "logs")]
use std::sync::Arc;

#[cfg(feature = "logs")]
use crate::logs;
use crate::secrets::Mask;
use crate::store::{LogLine, ProgressView};

/// The unwritten progress and log of one handler.
#[derive(Default)]
pub(crate) struct ProgressBuffer {
    progress: Mutex<Progressed>,
    /// The secrets that the handler was given.
    mask: OnceLock<Mask>,
    #[cfg(feature = "logs")]
    log: Arc<logs::Log>,
}

#[derive(Default)]
struct Progressed {
    latest: Option<ProgressView>,
    is_new: bool,
}

impl ProgressBuffer {
    /// Masks these values from now on. Called once, before the handler starts.
    pub(crate) fn hide(&self, mask: Mask) {
        drop(self.mask.set(mask));
    }

    pub(crate) fn mask(&self) -> Option<&Mask> {
        self.mask.get()
    }

    /// Sets the progress. Only the latest is kept.
    pub(crate) fn progress(&self, mut progress: ProgressView) {
        if let Some(mask) = self.mask() {
            progress = ProgressView::new(progress.fraction, &mask.text(progress.text));
        }
        let mut known = locked(&self.progress);
        if known.latest.as_ref() != Some(&progress) {
            *known = Progressed { latest: Some(progress), is_new: true };
        }
    }

    /// The progress, if it has changed since the last call.
    pub(crate) fn new_progress(&self) -> Option<ProgressView> {
        let mut known = locked(&self.progress);
        std::mem::take(&mut known.is_new).then(|| known.latest.clone()).flatten()
    }

    /// Marks the progress as new again, because it was not written.
    pub(crate) fn progress_again(&self) {
        locked(&self.progress).is_new = true;
    }
}

/// Logs are recorded with the cargo feature `logs`, if the program adds the layer.
#[cfg(feature = "logs")]
impl ProgressBuffer {
    /// The handler's span; log lines inside it are recorded.
    pub(crate) fn span(&self, make: impl FnOnce() -> tracing::Span) -> tracing::Span {
        logs::span_with(&self.log, make)
    }

    pub(crate) fn has_log(&self) -> bool {
        self.log.has_news()
    }

    pub(crate) fn drain_log(&self) -> Vec<LogLine> {
        let mut lines = self.log.drain();
        if let Some(mask) = self.mask() {
            for line in &mut lines {
                line.message = mask.text(std::mem::take(&mut line.message));
            }
        }
        lines
    }

    pub(crate) fn log_written(&self) {
        self.log.written();
    }

    pub(crate) fn log_again(&self, lines: Vec<LogLine>) {
        self.log.again(lines);
    }
}

#[cfg(not(feature = "logs"))]
impl ProgressBuffer {
    pub(crate) fn span(&self, make: impl FnOnce() -> tracing::Span) -> tracing::Span {
        make()
    }

    pub(crate) fn has_log(&self) -> bool {
        false
    }

    pub(crate) fn drain_log(&self) -> Vec<LogLine> {
        Vec::new()
    }

    pub(crate) fn log_written(&self) {}

    pub(crate) fn log_again(&self, _: Vec<LogLine>) {}
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_progress_counts_and_only_once() {
        let buffer = ProgressBuffer::default();
        assert_eq!(buffer.new_progress(), None);
        buffer.progress(ProgressView::new(0.1, "a"));
        buffer.progress(ProgressView::new(0.2, "b"));
        assert_eq!(buffer.new_progress(), Some(ProgressView::new(0.2, "b")));
        buffer.progress(ProgressView::new(0.2, "b"));
        assert_eq!(buffer.new_progress(), None, "nothing changed");
        buffer.progress_again();
        assert_eq!(buffer.new_progress(), Some(ProgressView::new(0.2, "b")));
    }
}

//! Pauses between calls that fail.

use std::time::Duration;

/// Pauses that double.
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

const FIRST: Duration = Duration::from_millis(100);

impl Backoff {
    /// Pauses of this length at most.
    pub(crate) fn up_to(max: Duration) -> Backoff {
        Backoff { next: FIRST.min(max), max }
    }

    pub(crate) fn reset(&mut self) {
        self.next = FIRST.min(self.max);
    }

    /// The next pause, with a random part, so that workers do not come back together.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        let random = f64::from(u16::try_from(uuid::Uuid::new_v4().as_u128() & 0xffff).unwrap_or_default());
        pause.mul_f64(0.75 + random / f64::from(u16::MAX) / 2.0)
    }
}

//! Local time, for trust only: it may end trust earlier, never later.

use std::time::Duration;

/// A moment by a clock that never goes back and goes on while the machine is suspended. On Linux all processes of a
/// machine share it; elsewhere it counts from the start of the process, and stands still in suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// This moment.
    #[cfg(target_os = "linux")]
    pub fn now() -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Moment(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// This moment.
    #[cfg(not(target_os = "linux"))]
    pub fn now() -> Moment {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        // Not zero: a moment of zero means that trust is over.
        Moment(START.get_or_init(std::time::Instant::now).elapsed() + Duration::from_secs(1))
    }

    /// The moment that is `micros` microseconds after the clock's beginning.
    pub fn from_micros(micros: u64) -> Moment {
        Moment(Duration::from_micros(micros))
    }

    /// Microseconds since the clock's beginning.
    pub fn micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    /// The moment that is `wait` later.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Moment {
        Moment(self.0.saturating_add(wait))
    }

    /// The moment that is `ago` earlier.
    #[must_use]
    pub fn minus(self, ago: Duration) -> Moment {
        Moment(self.0.saturating_sub(ago))
    }

    /// How long it is from now until then; zero if it has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_sub(Moment::now().0)
    }
}

//! Random numbers that can be repeated: the seed is printed, and `LINECLEAR_TEST_SEED` sets it.

use std::time::{Duration, SystemTime};

pub(super) struct Random(u64);

impl Random {
    pub(super) fn seeded() -> Random {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().subsec_nanos();
        let seed =
            std::env::var("LINECLEAR_TEST_SEED").map_or(u64::from(now), |seed| seed.parse().expect("a seed"));
        println!("LINECLEAR_TEST_SEED={seed}");
        Random(seed)
    }

    /// Another one, for another task.
    pub(super) fn of(random: &mut Random) -> Random {
        Random(random.next())
    }

    /// Splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).expect("an index")]
    }

    /// Between these two.
    pub(super) fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let micros = u64::try_from((to - from).as_micros()).expect("a short time");
        from + Duration::from_micros(self.below(micros + 1))
    }
}

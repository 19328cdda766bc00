//! Crash points: named places in the code at which a test may freeze the process, and then kill it or let it
//! go on.
//!
//! They prove what a crash between two steps leaves behind, at exactly that place and not somewhere near it.
//! Without the cargo feature `crash-points`, which no release has, [`point`] does nothing and costs nothing.
//!
//! With it, a process that was started with `LINECLEAR_CRASH_POINT=<name>` writes `crash point <name>` to
//! standard error and stops itself (SIGSTOP) the first time it reaches that point; `<name>#3` means the third
//! time. It happens once: resumed, the process goes on as if nothing had happened.

/// All points, so that tests can visit each of them. A new point is added here and where it is reached.
pub const POINTS: &[&str] = &[
    "migrate.step",
    "once.before_commit",
    "once.after_commit",
    "plan.before_commit",
    "dispatch.before_commit",
    "settle.before_commit",
    "claims.pulled",
    "claims.renewed",
    "claims.settled",
    "audit.begun",
    "audit.acted",
    "bulk_operation.before_commit",
];

/// Marks a place in the code. `name` is one of [`POINTS`].
#[inline]
pub fn point(name: &str) {
    debug_assert!(POINTS.contains(&name), "every crash point is listed; {name} is not");
    #[cfg(feature = "crash-points")]
    armed::reached(name);
}

/// Whether a planner takes its lock first. Only a test turns this off, with `LINECLEAR_UNLED` and the feature
/// `crash-points`, to show that the lock only saves work.
#[inline]
pub(crate) fn planner_leads() -> bool {
    #[cfg(feature = "crash-points")]
    return std::env::var_os("LINECLEAR_UNLED").is_none();
    #[cfg(not(feature = "crash-points"))]
    true
}

/// Migrations of a later release: the SQL files in the folders `postgres` and `sqlite` of `LINECLEAR_TEST_MIGRATIONS`, for tests of two
/// releases that work on one database. Only with the feature `crash-points`.
#[inline]
pub(crate) fn later_migrations(postgres: bool) -> Vec<(u32, &'static str, &'static str)> {
    #[cfg(feature = "crash-points")]
    return later::migrations(postgres).to_vec();
    #[cfg(not(feature = "crash-points"))]
    {
        let _ = postgres;
        Vec::new()
    }
}

#[cfg(feature = "crash-points")]
mod later {
    use std::sync::LazyLock;
    use std::{env, fs};

    type File = (u32, &'static str, &'static str);

    static POSTGRES: LazyLock<Vec<File>> = LazyLock::new(|| read("postgres"));
    static SQLITE: LazyLock<Vec<File>> = LazyLock::new(|| read("sqlite"));

    pub(crate) fn migrations(postgres: bool) -> &'static [File] {
        if postgres { &POSTGRES } else { &SQLITE }
    }

    fn read(database: &str) -> Vec<File> {
        let Some(folder) = env::var_os("LINECLEAR_TEST_MIGRATIONS") else { return Vec::new() };
        let folder = std::path::Path::new(&folder).join(database);
        let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
        let file = |path: std::path::PathBuf| {
            let name: &'static str = path.file_stem()?.to_str()?.to_owned().leak();
            let text: &'static str = fs::read_to_string(&path).ok()?.leak();
            Some((name.get(..4)?.parse().ok()?, name, text))
        };
        let mut files: Vec<File> = entries.filter_map(|entry| file(entry.ok()?.path())).collect();
        files.sort_unstable();
        files
    }
}

#[cfg(feature = "crash-points")]
mod armed {
    use std::{
        env, fs,
        sync::{
            LazyLock,
            atomic::{AtomicU32, Ordering},
        },
        thread,
    };

    use rustix::process::{Signal, getpid, kill_process};

    const VARIABLE: &str = "LINECLEAR_CRASH_POINT";
    /// SIGSTOP is signal 19; masks in `/proc` count from zero.
    const STOP_BIT: u64 = 1 << 18;

    static WANTED: LazyLock<Option<(String, u32)>> =
        LazyLock::new(|| env::var(VARIABLE).ok().map(|text| parse(&text)));
    static TIMES: AtomicU32 = AtomicU32::new(0);

    pub(crate) fn reached(name: &str) {
        let Some((wanted, turn)) = &*WANTED else { return };
        if wanted == name && TIMES.fetch_add(1, Ordering::SeqCst) + 1 == *turn {
            eprintln!("crash point {name}");
            freeze();
        }
    }

    /// The name of a point, and at which visit to stop.
    fn parse(text: &str) -> (String, u32) {
        match text.rsplit_once('#').map(|(name, turn)| (name, turn.parse())) {
            Some((name, Ok(turn))) => (name.to_owned(), turn),
            _ => (text.to_owned(), 1),
        }
    }

    fn freeze() {
        // It cannot fail: a process may always signal itself.
        kill_process(getpid(), Signal::STOP).ok();
        // Another thread may be the one that takes the signal and stops us all. Until it has, this thread
        // must not go on. Once the signal is no longer pending, the kernel does not let this thread return
        // from the call that read so. Without this, 282 of 300 tries went past the point; with it, none.
        while stop_is_pending() {
            thread::yield_now();
        }
    }

    fn stop_is_pending() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & STOP_BIT != 0)
    }

    #[cfg(test)]
    mod tests {
        use super::parse;

        #[test]
        fn a_point_may_name_its_turn() {
            assert_eq!(parse("settle.before"), ("settle.before".into(), 1));
            assert_eq!(parse("settle.before#3"), ("settle.before".into(), 3));
            assert_eq!(parse("odd#name"), ("odd#name".into(), 1));
        }
    }
}

//! Facts about a process from `/proc`. Linux only.

use std::fs;

/// The state letter and the start time of a process, or `None` if there is no such process.
pub(crate) struct Seen {
    /// `R` running, `S` sleeping, `T` stopped, `Z` ended but not reaped, and others.
    pub(crate) state: char,
    /// Clock ticks since boot. Together with the process id it identifies one process: ids are reused.
    pub(crate) started: u64,
}

/// Reads the facts about a process.
pub(crate) fn look(pid: u32) -> Option<Seen> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether every thread of the process is stopped. One that has ended is not.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    // A stop reaches one thread after the other, so the first one alone proves nothing.
    let mut states = threads.flatten().filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        Some(parse(&stat)?.state)
    });
    states.next() == Some('T') && states.all(|state| state == 'T')
}

/// The processes that this one has started and that run.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The name in brackets may hold spaces and brackets, so the fields are counted from the last bracket.
fn parse(stat: &str) -> Option<Seen> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some(Seen { state, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 99 88";
        let seen = parse(stat).unwrap();
        assert_eq!((seen.state, seen.started), ('S', 123_456));
    }

    #[test]
    fn this_process_is_there_and_not_stopped() {
        let pid = std::process::id();
        assert!(look(pid).unwrap().started > 0);
        assert!(!is_stopped(pid));
        assert!(look(u32::MAX).is_none());
    }
}

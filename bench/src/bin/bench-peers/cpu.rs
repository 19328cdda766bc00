//! Who used the processor: the server, the program that is measured, or something else. Linux only: it reads `/proc`.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

/// Ticks of the kernel's clock per second, as `/proc` shows them on every architecture.
const TICKS: f64 = 100.0;

/// A moment.
pub(crate) struct Moment {
    at: Instant,
    /// All in ticks.
    busy: u64,
    all: u64,
    server: u64,
    /// This process, and those that it has waited for.
    own: u64,
    children: u64,
}

/// What happened between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) server_cores: f64,
    pub(crate) program_cores: f64,
    pub(crate) foreign: f64,
}

impl Moment {
    /// `session` is the process of a session that stays open.
    pub(crate) fn now(session: u32) -> Result<Moment> {
        let stat = fs::read_to_string("/proc/stat")?;
        let (busy, all) = total(&stat).context("/proc/stat")?;
        let own = Process::read(std::process::id())?;
        Ok(Moment {
            at: Instant::now(),
            busy,
            all,
            server: server(session)?,
            own: own.used,
            children: own.of_children,
        })
    }

    pub(crate) fn since(&self, before: &Moment) -> Usage {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let cores = |ticks: u64| ticks as f64 / TICKS / seconds;
        let server = self.server.saturating_sub(before.server);
        let program = self.children.saturating_sub(before.children);
        let known = server + program + self.own.saturating_sub(before.own);
        let foreign = self.busy.saturating_sub(before.busy).saturating_sub(known);
        let all = self.all.saturating_sub(before.all).max(1);
        Usage {
            server_cores: cores(server),
            program_cores: cores(program),
            foreign: foreign as f64 / all as f64,
        }
    }
}

/// Ticks that were used, and all that passed on all cores.
fn total(stat: &str) -> Option<(u64, u64)> {
    let numbers: Vec<u64> =
        stat.lines().next()?.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    let all: u64 = numbers.iter().take(8).sum();
    Some((all - numbers.get(3)? - numbers.get(4)?, all))
}

/// A line of `/proc/…/stat`.
struct Process {
    parent: u32,
    used: u64,
    /// Children that have ended and were waited for.
    of_children: u64,
}

impl Process {
    fn read(process: u32) -> Result<Process> {
        let path = format!("/proc/{process}/stat");
        Process::parse(&fs::read_to_string(&path)?).context(path)
    }

    fn parse(stat: &str) -> Option<Process> {
        // The name may contain spaces and parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        Some(Process {
            parent: u32::try_from(number(1)?).ok()?,
            used: number(11)? + number(12)?,
            of_children: number(13)? + number(14)?,
        })
    }
}

/// The ticks of all processes of the server, also of those that have ended: their parent waits for them.
fn server(session: u32) -> Result<u64> {
    let Ok(session) = Process::read(session) else {
        // The server is on another machine.
        return Ok(0);
    };
    let parent = Process::read(session.parent)?;
    let mut used = parent.used + parent.of_children;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended by now.
        let Ok(process) = Process::read(process) else { continue };
        if process.parent == session.parent {
            used += process.used + process.of_children;
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        assert_eq!(total("cpu  10 20 30 400 5 1 2 3 7 0\ncpu0 1"), Some((66, 471)));
        let stat = "12 (a) b) S 7 1 1 0 -1 0 0 0 0 0 100 20 30 4 20 0 1 0 5";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.parent, process.used, process.of_children), (7, 120, 34));
    }
}

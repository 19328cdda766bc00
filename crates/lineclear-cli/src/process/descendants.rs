//! The processes below a supervisor, whatever group or session they moved to.

use std::collections::{HashMap, HashSet};
use std::fs::{read, read_dir, read_to_string};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

/// Time for killed processes to disappear before the next look.
const KILL_POLL: Duration = Duration::from_millis(1);
/// Tells a supervisor to kill all that is below it, now and for as long as it takes.
pub(super) const KILL_ALL: Signal = Signal::QUIT;

/// All processes below this one, parents before their children.
pub(super) fn descendants(of: Pid) -> Vec<Pid> {
    walk(of, |_| {})
}

/// Calls `each` for all processes below this one, as soon as it is found.
fn walk(of: Pid, mut each: impl FnMut(Pid)) -> Vec<Pid> {
    let children = Children::here();
    let (mut found, mut seen) = (Vec::new(), HashSet::from([of]));
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in children.of(parent) {
            // A process may move while it is looked for.
            if seen.insert(child) {
                each(child);
                found.push(child);
                parents.push(child);
            }
        }
    }
    found
}

/// Kills a process group, and if its first process is a supervisor, everything below it first: while the supervisor lives, no process
/// can leave it. If something is left after the time `within`, because it forks faster than it is killed, the supervisor goes on with it.
pub(super) fn kill_tree(group: Pid, within: Duration) -> bool {
    let until = Instant::now() + within;
    while is_supervisor(group) {
        if kill_descendants(group).is_empty() {
            break;
        }
        if Instant::now() >= until {
            return kill_process(group, KILL_ALL).is_ok();
        }
        std::thread::sleep(KILL_POLL);
    }
    kill_process_group(group, Signal::KILL).is_ok()
}

/// Kills all processes below this one, and returns those that were found. They are killed by their groups, too: the system kills a group
/// at one moment, so that a process which forks and ends all the time cannot get away, unless it also moves to another group each time.
pub(super) fn kill_descendants(of: Pid) -> Vec<Pid> {
    let mut groups: HashSet<Pid> = getpgid(Some(of)).into_iter().collect();
    walk(of, |process| {
        let group = getpgid(Some(process)).ok();
        // One may have ended.
        kill_process(process, Signal::KILL).ok();
        if let Some(group) = group.filter(|group| groups.insert(*group)) {
            kill_process_group(group, Signal::KILL).ok();
        }
    })
}

/// Also protects other processes if the system has reused the id.
fn is_supervisor(process: Pid) -> bool {
    let line = read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(super::SUPERVISE.as_bytes())
}

/// How to find children.
enum Children {
    /// The kernel lists them.
    Listed,
    /// By the parent of each process: some kernels have no lists.
    Scanned(HashMap<Pid, Vec<Pid>>),
}

impl Children {
    fn here() -> Children {
        let listed = format!("/proc/self/task/{}/children", std::process::id());
        if std::fs::exists(listed).unwrap_or(false) { Children::Listed } else { Children::Scanned(scan()) }
    }

    fn of(&self, parent: Pid) -> Vec<Pid> {
        match self {
            Children::Scanned(all) => all.get(&parent).cloned().unwrap_or_default(),
            Children::Listed => {
                // Each thread has its own list. A process may end meanwhile.
                let threads = read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
                let lists = threads.into_iter().flatten().flatten();
                let lists = lists.filter_map(|thread| read_to_string(thread.path().join("children")).ok());
                lists.flat_map(|list| list.split_whitespace().filter_map(pid).collect::<Vec<_>>()).collect()
            }
        }
    }
}

fn scan() -> HashMap<Pid, Vec<Pid>> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    let names = read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    for process in names.filter_map(|name| pid(name.to_str()?)) {
        let stat = read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
        // The name in parentheses may contain anything.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).and_then(pid);
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(process);
        }
    }
    children
}

fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_in_another_session_is_found_by_both_ways() {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "setsid sleep 60 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let root = Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap();
        let listed = descendants(root);
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(scan().get(&root), Some(&listed));
        listed.iter().for_each(|process| kill_process(*process, Signal::KILL).unwrap());
        shell.wait().unwrap();
    }

    #[test]
    fn only_a_supervisor_is_followed() {
        assert!(!is_supervisor(rustix::process::getpid()));
    }
}

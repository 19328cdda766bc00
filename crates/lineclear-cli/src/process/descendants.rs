//! The processes below a supervisor, whatever group or session they moved to.

use std::collections::{HashMap, HashSet};
use std::fs::{read, read_dir, read_to_string};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Time for killed processes to disappear before the next look.
const KILL_POLL: Duration = Duration::from_millis(1);

/// All processes below this one, parents before their children.
pub(super) fn descendants(of: Pid) -> Vec<Pid> {
    let children = Children::here();
    let (mut found, mut seen) = (Vec::new(), HashSet::from([of]));
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in children.of(parent) {
            // A process may move while it is looked for.
            if seen.insert(child) {
                found.push(child);
                parents.push(child);
            }
        }
    }
    found
}

/// Kills a process group, and if its first process is a supervisor, everything below it first: while the supervisor lives, no process
/// can leave it. `within` bounds the time for processes that fork faster than they are killed.
pub(super) fn kill_tree(group: Pid, within: Duration) -> bool {
    let until = Instant::now() + within;
    while is_supervisor(group) {
        let below = descendants(group);
        // One may have ended.
        for process in &below {
            kill_process(*process, Signal::KILL).ok();
        }
        if below.is_empty() || Instant::now() >= until {
            break;
        }
        std::thread::sleep(KILL_POLL);
    }
    kill_process_group(group, Signal::KILL).is_ok()
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

//! The facts about nodes, jobs and manifests that the checks need.

use crate::Micros;
use crate::explain::GateName;

/// The facts of one run of the checks.
#[derive(Clone, Debug)]
pub struct HealthFacts {
    /// The database's clock.
    pub now: Micros,
    /// Counts stop here: this number means this many or more.
    pub count_max: u64,
    /// Jobs that wait, for any reason.
    pub waiting: u64,
    /// Waiting jobs that could be claimed now if there were room.
    pub due: u64,
    /// Jobs that run.
    pub running: u64,
    /// Dead letters that wait for a person.
    pub dead_letters: u64,
    /// Since when the oldest waiting job is due.
    pub oldest_due_at: Option<Micros>,
    /// Counts of problems.
    pub trouble: Trouble,
    /// Nodes, last seen first; no remote workers.
    pub nodes: Vec<NodeState>,
    /// Remote workers that were heard of lately.
    pub workers: u64,
    /// Jobs that those workers run at once.
    pub worker_slots: u64,
    /// The node that planned last.
    pub leader: Option<Leader>,
    /// A few jobs whose time came long ago, and what each waits for.
    pub overdue: Vec<Overdue>,
    /// Facts that could not be read in time.
    pub not_checked: NotChecked,
}

/// Facts that could not be read in time, and why. Their fields have the values of a healthy cluster.
#[derive(Clone, Debug, Default)]
pub struct NotChecked {
    /// Counts of problems.
    pub trouble: Option<String>,
    /// Jobs whose time came long ago.
    pub overdue: Option<String>,
}

/// Counts of problems.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Leases that ran out a while ago and were not reclaimed.
    pub leases_over: u64,
    /// When the first of them ran out.
    pub lease_over_at: Option<Micros>,
    /// Jobs that are parked because no node knows their kind.
    pub unknown: u64,
    /// A few of those kinds.
    pub unknown_kinds: Vec<String>,
    /// When the first dead letter that waits for a person died.
    pub dead_at: Option<Micros>,
    /// Manifests whose time came a while ago.
    pub late: u64,
    /// When the first of them was due.
    pub late_since: Option<Micros>,
    /// Some manifest has a next tick.
    pub has_ticks: bool,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The machine it runs on.
    pub host: String,
    /// Its version.
    pub version: String,
    /// What it does.
    pub roles: Vec<String>,
    /// Jobs it runs at once.
    pub slots: u32,
    /// Its last heartbeat is recent enough: the node is not lost.
    pub live: bool,
    /// It was told to take nothing new.
    pub drains: bool,
    /// When it sent its last heartbeat.
    pub seen_at: Micros,
    /// Its loops whose last pass failed, and why.
    pub failing: Vec<(String, String)>,
    /// Its submitters that take no jobs, and why.
    pub blocked_submitters: Vec<(String, String)>,
    /// Jobs whose lease of this node ran out and was not reclaimed; counted up to a bound.
    pub abandoned: u64,
}

impl NodeState {
    /// Whether it is alive, has this role and does not drain.
    pub fn takes_part(&self, role: &str) -> bool {
        self.live && !self.drains && self.roles.iter().any(|name| name == role)
    }
}

impl HealthFacts {
    /// Slots of all live nodes that take work.
    pub fn slots(&self) -> u64 {
        let takes = self.nodes.iter().filter(|node| node.takes_part("workers"));
        takes.map(|node| u64::from(node.slots)).sum()
    }
}

/// The node that planned last.
#[derive(Clone, Debug)]
pub struct Leader {
    /// Its name.
    pub node: String,
    /// The machine it runs on.
    pub machine: String,
    /// Its process id there.
    pub pid: u32,
    /// Since when no other node has led.
    pub since: Micros,
    /// The last heartbeat with which it led.
    pub renewed_at: Micros,
    /// How often it sends a heartbeat.
    pub renew_ms: i64,
    /// When it resigned.
    pub released_at: Option<Micros>,
}

impl Leader {
    /// Whether it leads: it has not resigned, and has not missed three heartbeats.
    pub fn is_live(&self, now: Micros) -> bool {
        let patience = self.renew_ms.saturating_mul(3_000).max(30_000_000);
        self.released_at.is_none() && self.renewed_at.offset(patience) > now
    }
}

/// A job whose time came long ago.
#[derive(Clone, Debug)]
pub struct Overdue {
    /// Its id.
    pub job: i64,
    /// When it was due.
    pub due_at: Micros,
    /// The first gate that is closed; `None`: nothing blocks it.
    pub gate: Option<GateName>,
    /// Why, as a sentence.
    pub why: String,
    /// Free slots of nodes that would run it.
    pub free: u64,
    /// Within the last minute, jobs of its route were claimed, or jobs of its kind ended.
    pub moves: bool,
}

impl Overdue {
    /// No gate blocks it, a slot is free, and no other job of its route or kind moves.
    pub(super) fn is_stuck(&self) -> bool {
        self.gate.is_none() && self.free > 0 && !self.moves
    }
}

/// Facts about manifests.
#[derive(Clone, Debug, Default)]
pub struct ManifestHealth {
    /// How many were read.
    pub looked_at: u64,
    /// There are more, which were not read.
    pub more: bool,
    /// Switched on, and their schedule has no next tick: their keys, and the schedule.
    pub never: Vec<(String, String)>,
    /// Switched on, and with exclusions: whether any tick is left is unknown, because the search took too long.
    pub unsure: u64,
    /// They cannot be read: their keys, and why.
    pub unreadable: Vec<(String, String)>,
}

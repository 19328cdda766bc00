//! What must be known about nodes, jobs and manifests.

use crate::Micros;
use crate::explain::GateName;

/// How things stand.
#[derive(Clone, Debug)]
pub struct HealthFacts {
    /// The database's clock.
    pub now: Micros,
    /// Counts stop here: so many means at least so many.
    pub count_max: u64,
    /// Jobs that wait, for whatever.
    pub waiting: u64,
    /// Those of them that could be taken now, if there were room.
    pub due: u64,
    /// Jobs that run.
    pub running: u64,
    /// Dead letters that wait for a person.
    pub dead_letters: u64,
    /// Since when the first in line is due.
    pub oldest_due_at: Option<Micros>,
    /// What is not as it should be.
    pub trouble: Trouble,
    /// Nodes, last seen first.
    pub nodes: Vec<NodeState>,
    /// The node that planned last.
    pub leader: Option<Leader>,
    /// A few jobs whose time came long ago, and what each waits for.
    pub overdue: Vec<Overdue>,
    /// What could not be looked at in time.
    pub not_checked: NotChecked,
}

/// Parts that could not be looked at in time, and why: what is said about them otherwise is as if nothing were wrong.
#[derive(Clone, Debug, Default)]
pub struct NotChecked {
    /// What is not as it should be.
    pub trouble: Option<String>,
    /// Jobs whose time came long ago.
    pub overdue: Option<String>,
}

/// What is not as it should be.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Leases that ran out a while ago, and were not taken back.
    pub leases_over: u64,
    /// Since when the first of them is over.
    pub lease_over_at: Option<Micros>,
    /// Jobs that were set aside because nobody knows their kind.
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
    /// It was heard of within the time after which a node is lost.
    pub live: bool,
    /// It was told to take nothing new.
    pub drains: bool,
    /// When it was last heard of.
    pub seen_at: Micros,
    /// Its runners whose last pass failed, and why.
    pub failing: Vec<(String, String)>,
    /// Jobs whose lease of this node ran out, and that nobody took back; counted up to a bound.
    pub abandoned: u64,
}

impl NodeState {
    /// Whether it is there and plays this role, and was not told to take nothing new.
    pub fn takes_part(&self, role: &str) -> bool {
        self.live && !self.drains && self.roles.iter().any(|name| name == role)
    }
}

impl HealthFacts {
    /// Jobs that nodes would run at once now.
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
    /// Its process there.
    pub pid: u32,
    /// From when on no other node has led.
    pub since: Micros,
    /// When it last said so.
    pub renewed_at: Micros,
    /// How often it says so.
    pub renew_ms: i64,
    /// When it stopped in order.
    pub released_at: Option<Micros>,
}

impl Leader {
    /// Whether it can be believed to lead: it has not resigned, and has not missed three heartbeats.
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
    /// Slots that are free at nodes that would run it.
    pub free: u64,
    /// Jobs of its line were taken, or of its kind ended, within the last minute.
    pub moves: bool,
}

impl Overdue {
    /// Nothing is in its way, there is room for it, and nobody gets on with its line.
    pub(super) fn is_stuck(&self) -> bool {
        self.gate.is_none() && self.free > 0 && !self.moves
    }
}

/// What manifests say.
#[derive(Clone, Debug, Default)]
pub struct ManifestHealth {
    /// How many were looked at.
    pub looked_at: u64,
    /// There are more, which were not looked at.
    pub more: bool,
    /// Switched on, and their schedule has no next tick: their keys, and the schedule.
    pub never: Vec<(String, String)>,
    /// Switched on, and with exclusions: whether any tick is left was not looked at, because it took too long.
    pub unsure: u64,
    /// They cannot be read: their keys, and why.
    pub unreadable: Vec<(String, String)>,
}

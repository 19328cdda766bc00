//! The facts that an explanation needs.

use crate::{DeadReason, ExecutionOutcome, JobState, Manifest, Micros, Origin};

/// Facts about a job.
#[derive(Clone, Debug)]
pub struct JobFacts {
    /// The database's clock.
    pub now: Micros,
    /// Where it is.
    pub state: JobState,
    /// What made it.
    pub origin: Origin,
    /// The kind of work.
    pub kind: String,
    /// The lane it waits in; unknown once it is over.
    pub route: Option<String>,
    /// When it is or was due.
    pub due_at: Micros,
    /// When it ended, or died.
    pub finished_at: Option<Micros>,
    /// Tries that failed.
    pub failures: u32,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When a cancel was requested.
    pub cancel_requested_at: Option<Micros>,
    /// It was parked because the node that claimed it did not know its kind.
    pub unknown_kind: bool,
    /// The node that has it, or had it last: its id, and its name if it is still known.
    pub node: Option<(i64, Option<String>)>,
    /// Since when.
    pub claimed_at: Option<Micros>,
    /// When its lease ends.
    pub lease_ends_at: Option<Micros>,
    /// How its last claim ended, once it is over.
    pub outcome: Option<ExecutionOutcome>,
    /// Its dead letter.
    pub dead: Option<DeadFacts>,
    /// Its manifest.
    pub manifest: Option<JobManifest>,
    /// Its group.
    pub group: Option<LimitFacts>,
    /// The group of all.
    pub global: Option<LimitFacts>,
    /// Its limit key.
    pub key: Option<LimitFacts>,
    /// Nodes, last seen first.
    pub nodes: Vec<NodeFacts>,
}

/// The dead letter of a job.
#[derive(Clone, Debug)]
pub struct DeadFacts {
    /// Its id.
    pub letter: i64,
    /// Why it died.
    pub reason: DeadReason,
    /// A person has acknowledged it.
    pub acknowledged: bool,
}

/// The manifest of a job.
#[derive(Clone, Debug)]
pub struct JobManifest {
    /// Its key.
    pub key: String,
    /// Its switch.
    pub enabled: bool,
}

/// A group or a key, and the jobs that fill it.
#[derive(Clone, Debug)]
pub struct LimitFacts {
    /// The group, or the key.
    pub name: String,
    /// Its switch.
    pub enabled: bool,
    /// Its limit.
    pub limit: Option<u32>,
    /// Its active jobs.
    pub active: u32,
    /// A few of them.
    pub holders: Vec<Holder>,
}

/// An active job.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The job.
    pub job: i64,
    /// The node that has it; `None`: dispatched, and not yet claimed.
    pub node: Option<String>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its last heartbeat is recent enough: the node is not lost.
    pub live: bool,
    /// It was told to take nothing new.
    pub drains: bool,
    /// It runs jobs.
    pub works: bool,
    /// The routes it serves.
    pub routes: Vec<String>,
    /// The kinds it runs; `None`: it does not say.
    pub kinds: Option<Vec<String>>,
    /// Its free slots.
    pub free: u64,
}

impl NodeFacts {
    /// Whether it is alive, runs jobs, and serves this kind on this route.
    pub fn serves(&self, kind: &str, route: &str) -> bool {
        let knows = self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|own| own == kind));
        self.live && self.works && self.routes.iter().any(|own| own == route) && knows
    }
}

/// Facts about a manifest.
#[derive(Clone, Debug)]
pub struct ManifestFacts {
    /// The database's clock.
    pub now: Micros,
    /// The manifest.
    pub manifest: Manifest,
    /// It waits for a person.
    pub held: bool,
    /// When the planner plans it next.
    pub next_due_at: Option<Micros>,
    /// Jobs of it that are not over, a few of them.
    pub live: Vec<LiveJob>,
    /// Dead letters of it that await a person, a few of them.
    pub dead_letters: Vec<i64>,
    /// Its parents.
    pub parents: Vec<ParentFacts>,
    /// Its group.
    pub group: Option<LimitFacts>,
    /// The group of all.
    pub global: Option<LimitFacts>,
    /// Nodes, last seen first.
    pub nodes: Vec<NodeFacts>,
}

/// A job that is not over.
#[derive(Clone, Debug)]
pub struct LiveJob {
    /// The job.
    pub job: i64,
    /// It was never claimed, and its manifest may have only one such.
    pub fresh: bool,
    /// Where it is.
    pub state: JobState,
    /// The node that has it.
    pub node: Option<String>,
}

/// A parent of a manifest.
#[derive(Clone, Debug)]
pub struct ParentFacts {
    /// Its key.
    pub key: String,
    /// It has completed in this round.
    pub arrived: bool,
}

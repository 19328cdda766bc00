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
    /// The submitter whose route that is: where it sends jobs.
    pub submitter: Option<String>,
    /// The node that has it, or had it last: its id, and its name if it is still known.
    pub node: Option<(i64, Option<String>)>,
    /// What that node is.
    pub holder: HolderRole,
    /// Its name in the system that has accepted it.
    pub external_id: Option<String>,
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

/// What holds the lease of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HolderRole {
    /// A node: it runs the job itself.
    #[default]
    Node,
    /// A remote worker that has pulled it.
    Worker,
    /// A submitter that has accepted it.
    Submitter,
}

impl HolderRole {
    /// `node`, `worker` or `submitter`.
    pub fn as_str(self) -> &'static str {
        match self {
            HolderRole::Node => "node",
            HolderRole::Worker => "worker",
            HolderRole::Submitter => "submitter",
        }
    }

    /// From the roles in its row, as a JSON list.
    pub fn of_roles(roles: &str) -> HolderRole {
        match roles {
            r#"["worker"]"# => HolderRole::Worker,
            r#"["submitter"]"# => HolderRole::Submitter,
            _ => HolderRole::Node,
        }
    }
}

/// A submitter of a node, as of its last heartbeat.
#[derive(Clone, Debug)]
pub struct SubmitterFacts {
    /// Its name, which is also its route.
    pub name: String,
    /// `ready`, or why it takes nothing.
    pub state: String,
    /// More about the state, such as the last error.
    pub detail: Option<String>,
    /// When it tries again.
    pub retry_at: Option<Micros>,
    /// It takes jobs, as soon as it has room.
    pub takes: bool,
    /// Jobs that it has room for now.
    pub free: u64,
}

/// A node, or a remote worker.
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
    /// Its submitters.
    pub submitters: Vec<SubmitterFacts>,
    /// Its last heartbeat.
    pub seen_at: Micros,
}

impl NodeFacts {
    /// Whether it is alive, and runs this kind on this route, or hands its jobs to the submitter of the route.
    pub fn serves(&self, kind: &str, route: &str) -> bool {
        let knows = || self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|own| own == kind));
        let serves = self.live && self.works && self.routes.iter().any(|own| own == route);
        serves && (self.submitter(route).is_some() || knows())
    }

    /// Its submitter with this route.
    pub fn submitter(&self, route: &str) -> Option<&SubmitterFacts> {
        self.submitters.iter().find(|submitter| submitter.name == route)
    }

    /// Jobs that it has room for on this route.
    pub fn room(&self, route: &str) -> u64 {
        self.submitter(route).map_or(self.free, |submitter| submitter.free)
    }
}

/// Facts about a manifest.
#[derive(Clone, Debug)]
pub struct ManifestFacts {
    /// The database's clock.
    pub now: Micros,
    /// The manifest.
    pub manifest: Manifest,
    /// The route of its jobs: that of their kind, unless the manifest names one.
    pub route: String,
    /// The submitter whose route that is: where it sends jobs.
    pub submitter: Option<String>,
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

//! Why is this not running? Every gate between a job and its worker, open or closed, with the reason.
//!
//! Pure: the caller gathers the facts. The first closed gate is the verdict.

mod destination;
mod facts;
mod job;
mod manifest;
mod shared;

pub use facts::{
    DeadFacts, Holder, HolderRole, JobFacts, JobManifest, LimitFacts, LiveJob, ManifestFacts, NodeFacts,
    ParentFacts, SubmitterFacts,
};
pub use job::explain_job;
pub use manifest::explain_manifest;

use serde::{Deserialize, Serialize};

use crate::{Micros, duration, job::words};

words! {
    /// The gates between a job and its worker, in the order in which they are checked.
    GateName {
        /// Its manifest is switched on.
        Enabled = "enabled",
        /// Its group is switched on.
        GroupEnabled = "group_enabled",
        /// Everything is switched on: the group `*`.
        GlobalEnabled = "global_enabled",
        /// No dead letter waits for a person.
        DeadLetter = "dead_letter",
        /// The manifests that it waits for have completed.
        Dependency = "dependency",
        /// Its tick is not in an excluded time.
        Exclusion = "exclusion",
        /// Its time has come.
        Due = "due",
        /// The wait after a failure is over.
        Retry = "retry",
        /// No other job of the manifest holds it back.
        Overlap = "overlap",
        /// No cancel was requested.
        Cancel = "cancel",
        /// Its group is below its limit.
        GroupLimit = "group_limit",
        /// The global limit is not reached.
        GlobalLimit = "global_limit",
        /// Its limit key is below its limit.
        KeyLimit = "key_limit",
        /// A live node or remote worker runs its kind, on its route; or a live node has its submitter.
        Node = "node",
        /// Its submitter takes jobs.
        Submitter = "submitter",
        /// No worker has it yet.
        Taken = "taken",
    }
}

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Which one.
    pub name: GateName,
    /// Whether it lets the job through; `None`: it does not apply.
    pub open: Option<bool>,
    /// Why, as a sentence.
    pub why: String,
    /// What blocks it, a few of them at most.
    pub blockers: Vec<Blocker>,
}

/// Something that blocks a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// `job`, `manifest`, `group`, `dead_letter`, `limit_key` or `node`.
    pub what: &'static str,
    /// Its id, or its name.
    pub id: String,
    /// The node that has it, by name.
    pub node: Option<String>,
}

/// All gates, and the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In one sentence.
    pub verdict: String,
    /// When the facts were read, on the database's clock.
    pub now: Micros,
    /// Each gate once, in the order of [`GateName::ALL`].
    pub gates: Vec<Gate>,
}

impl Gate {
    fn open(name: GateName, why: impl Into<String>) -> Gate {
        Gate { name, open: Some(true), why: why.into(), blockers: Vec::new() }
    }

    fn closed(name: GateName, why: impl Into<String>) -> Gate {
        Gate { open: Some(false), ..Gate::open(name, why) }
    }

    fn not_applicable(name: GateName, why: impl Into<String>) -> Gate {
        Gate { open: None, ..Gate::open(name, why) }
    }

    fn blocked_by(mut self, what: &'static str, id: impl ToString) -> Gate {
        self.blockers.push(Blocker { what, id: id.to_string(), node: None });
        self
    }
}

impl Explanation {
    /// Sorts the gates, and makes the first closed one the verdict, or else `free`. The verdict also mentions that no node runs
    /// it, even if another gate comes first: other gates open in time, but a missing node must be started.
    fn of(now: Micros, mut gates: Vec<Gate>, free: impl FnOnce() -> String) -> Explanation {
        gates.sort_by_key(|gate| gate.name);
        let mut closed = gates.iter().filter(|gate| gate.open == Some(false));
        let mut verdict = closed.next().map_or_else(free, |gate| gate.why.clone());
        let needs_help = |gate: &&Gate| matches!(gate.name, GateName::Node | GateName::Submitter);
        if let Some(node) = closed.find(needs_help) {
            verdict = format!("{verdict}; also, {}", node.why);
        }
        Explanation { verdict, now, gates }
    }

    /// The job is over: no gate applies any more.
    fn over(now: Micros, verdict: String) -> Explanation {
        let gates = GateName::ALL.iter().map(|name| Gate::not_applicable(*name, "it is over")).collect();
        Explanation { verdict, now, gates }
    }
}

/// A moment, and how far it is from now.
fn when(at: Micros, now: Micros) -> String {
    let apart = at.get().abs_diff(now.get());
    let length = std::time::Duration::from_secs(apart / 1_000_000);
    match at > now {
        true => format!("{at} (in {})", duration::format(length)),
        false => format!("{at} ({} ago)", duration::format(length)),
    }
}

#[cfg(test)]
mod tests;

//! Why a job does not run, or how it ended.

use super::destination::{Destination, names};
use super::shared::{global_enabled, group_enabled, limit};
use super::{Blocker, Explanation, Gate, GateName, HolderRole, JobFacts, LimitFacts, when};
use crate::{DeadReason, ExecutionOutcome, JobState, Origin};

/// A key with this beginning is the overlap rule of a manifest.
const OVERLAP_KEY: &str = "manifest:";

/// Every gate of a job.
pub fn explain_job(facts: &JobFacts) -> Explanation {
    match facts.state {
        JobState::Completed | JobState::Cancelled => Explanation::over(facts.now, ended(facts)),
        JobState::Running => passed(facts, running(facts)),
        JobState::Dead => passed(facts, dead(facts)),
        _ => waiting(facts),
    }
}

fn ended(facts: &JobFacts) -> String {
    let at = facts.finished_at.map(|at| when(at, facts.now)).unwrap_or_default();
    let by = match node_name(facts) {
        Some(node) => format!(" on {node}"),
        None => String::new(),
    };
    let error = facts.last_error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    match (facts.state, facts.outcome) {
        (JobState::Completed, _) => format!("completed{by} at {at}"),
        (_, Some(ExecutionOutcome::Cancelled) | None) if facts.node.is_none() => {
            format!("cancelled while it waited, at {at}{error}")
        }
        (_, outcome) => {
            let outcome = outcome.map_or("cancelled", ExecutionOutcome::as_str);
            format!("cancelled while it ran{by}, at {at}; its last claim ended as {outcome}{error}")
        }
    }
}

fn node_name(facts: &JobFacts) -> Option<String> {
    facts.node.as_ref().map(|(id, name)| name.clone().unwrap_or_else(|| format!("node {id}")))
}

/// A job that has passed all gates but one.
fn passed(facts: &JobFacts, gates: Vec<Gate>) -> Explanation {
    let mut all = gates;
    for name in GateName::ALL {
        if all.iter().all(|gate| gate.name != *name) {
            all.push(Gate::not_applicable(*name, "already passed"));
        }
    }
    Explanation::of(facts.now, all, || "nothing blocks it".to_owned())
}

fn dead(facts: &JobFacts) -> Vec<Gate> {
    let Some(dead) = &facts.dead else { return Vec::new() };
    let reason = match dead.reason {
        DeadReason::RetriesUsedUp => "all its tries failed",
        DeadReason::Permanent => "its error is permanent",
        DeadReason::WorkerLost => "its workers kept vanishing",
    };
    let error = facts.last_error.as_deref().map(|error| format!(" ({error})")).unwrap_or_default();
    let rest = match dead.acknowledged {
        true => format!("dead letter {} was acknowledged", dead.letter),
        false => format!("dead letter {} must be revived or acknowledged", dead.letter),
    };
    let why = format!("it is dead, because {reason}{error}; {rest}");
    vec![Gate::closed(GateName::DeadLetter, why).blocked_by("dead_letter", dead.letter)]
}

fn running(facts: &JobFacts) -> Vec<Gate> {
    let by = node_name(facts).unwrap_or_else(|| "a node".to_owned());
    let since = facts.claimed_at.map(|at| format!(" since {}", when(at, facts.now))).unwrap_or_default();
    let lease = match facts.lease_ends_at {
        Some(end) if end <= facts.now => {
            "; its lease has run out, so that another node takes it unless this one comes back"
        }
        _ => "",
    };
    let why = match facts.holder {
        HolderRole::Submitter => {
            let id = facts.external_id.as_deref().map(|id| format!(" as {id}")).unwrap_or_default();
            let end = facts.lease_ends_at.filter(|end| *end > facts.now).map(|end| when(end, facts.now));
            let end = end.map(|end| format!("; it reports before {end}, or the job is sent again"));
            format!("is with submitter {by}{id}{since}{}", end.unwrap_or_default())
        }
        HolderRole::Worker => format!("is being run by worker {by}{since}"),
        HolderRole::Node => format!("is being run by {by}{since}"),
    };
    let mut taken = Gate::closed(GateName::Taken, format!("{why}{lease}"));
    taken.blockers.push(Blocker { what: "node", id: by, node: None });
    vec![cancel(facts), taken]
}

fn cancel(facts: &JobFacts) -> Gate {
    match facts.cancel_requested_at {
        None => Gate::open(GateName::Cancel, "no cancellation was requested"),
        Some(at) => {
            let by = node_name(facts).unwrap_or_else(|| "its node".to_owned());
            let why =
                format!("cancellation was requested at {}; {by} tells its handler", when(at, facts.now));
            Gate::closed(GateName::Cancel, why)
        }
    }
}

fn waiting(facts: &JobFacts) -> Explanation {
    let handed = facts.state == JobState::Ready;
    let destination = destination(facts);
    let behind = |name| Gate::not_applicable(name, "already dispatched");
    let limits = match handed {
        true => vec![behind(GateName::GroupLimit), behind(GateName::GlobalLimit), behind(GateName::KeyLimit)],
        false => limits(facts),
    };
    let mut gates = vec![
        enabled(facts),
        group_enabled(facts.group.as_ref()),
        global_enabled(facts.global.as_ref()),
        Gate::not_applicable(GateName::DeadLetter, "it is not dead"),
        Gate::not_applicable(GateName::Dependency, "its dependencies were met when it was accepted"),
        Gate::not_applicable(GateName::Exclusion, "excluded times make no jobs"),
        due(facts),
        retry(facts),
        if handed { behind(GateName::Overlap) } else { overlap(facts) },
        cancel(facts),
        serving_node(facts, &destination),
        destination.submitter(),
        Gate::open(
            GateName::Taken,
            if handed { "dispatched, and not yet claimed" } else { "no worker has it" },
        ),
    ];
    if handed {
        // A dispatched job is claimed, whatever was switched off since.
        for gate in gates.iter_mut().filter(|gate| gate.name <= GateName::GlobalEnabled) {
            gate.open = None;
        }
    }
    gates.extend(limits);
    Explanation::of(facts.now, gates, || {
        let nodes = names(&destination.serving());
        format!("nothing blocks it: it is next when {nodes} has a free slot and its rank has come")
    })
}

fn enabled(facts: &JobFacts) -> Gate {
    let name = GateName::Enabled;
    let Some(manifest) = &facts.manifest else { return Gate::not_applicable(name, "it has no manifest") };
    let key = &manifest.key;
    if facts.origin == Origin::Trigger {
        return Gate::not_applicable(
            name,
            format!("manifest {key} was run by hand: pausing it does not matter"),
        );
    }
    match (manifest.enabled, facts.state == JobState::Parked && !facts.unknown_kind) {
        (false, _) => Gate::closed(name, format!("manifest {key} is paused")).blocked_by("manifest", key),
        (true, true) => {
            let why =
                format!("it was parked when manifest {key} was paused; the cleaner queues it again soon");
            Gate::closed(name, why).blocked_by("manifest", key)
        }
        (true, false) => Gate::open(name, format!("manifest {key} is switched on")),
    }
}

fn due(facts: &JobFacts) -> Gate {
    let at = when(facts.due_at, facts.now);
    match facts.state {
        JobState::Retrying => {
            Gate::not_applicable(GateName::Due, "it was due before, and waits for its next try")
        }
        JobState::Scheduled if facts.due_at > facts.now => {
            Gate::closed(GateName::Due, format!("is due at {at}"))
        }
        _ => Gate::open(GateName::Due, format!("its time came at {at}")),
    }
}

fn retry(facts: &JobFacts) -> Gate {
    let name = GateName::Retry;
    if facts.state != JobState::Retrying {
        return Gate::not_applicable(name, "it does not wait for another try");
    }
    let error = facts.last_error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let failed = match facts.failures {
        0 if facts.submitter.is_some() && !error.is_empty() => {
            format!("its submitter did not take it{error}")
        }
        0 => "its handler asked to be run again later".to_owned(),
        n => format!("it failed {n} times{error}").replace("failed 1 times", "failed once"),
    };
    let at = when(facts.due_at, facts.now);
    match facts.due_at > facts.now {
        true => Gate::closed(name, format!("waits for its next try at {at}; {failed}")),
        false => Gate::open(name, format!("its next try was due at {at}; {failed}")),
    }
}

fn is_overlap(key: &LimitFacts) -> bool {
    key.name.starts_with(OVERLAP_KEY)
}

fn overlap(facts: &JobFacts) -> Gate {
    let name = GateName::Overlap;
    let Some(key) = facts.key.as_ref().filter(|key| is_overlap(key)) else {
        return Gate::not_applicable(name, "its manifest's overlap rule has let it in");
    };
    let mut gate = limit(name, Some(key), "", "");
    let manifest = facts.manifest.as_ref().map_or("its manifest", |manifest| manifest.key.as_str());
    gate.why = match gate.open {
        Some(false) => {
            let jobs: Vec<String> = key.holders.iter().map(|holder| holder.job.to_string()).collect();
            format!("waits until job {} of manifest {manifest} is over", jobs.join(", "))
        }
        _ => format!("no other job of manifest {manifest} is running"),
    };
    gate
}

fn limits(facts: &JobFacts) -> Vec<Gate> {
    let group = limit(GateName::GroupLimit, facts.group.as_ref(), "no limit of a group applies", "group");
    let global = limit(GateName::GlobalLimit, facts.global.as_ref(), "there is no global limit", "group");
    let key = facts.key.as_ref().filter(|key| !is_overlap(key));
    vec![group, global, limit(GateName::KeyLimit, key, "it has no limit key", "limit key")]
}

fn destination(facts: &JobFacts) -> Destination<'_> {
    Destination {
        kind: &facts.kind,
        route: facts.route.as_deref().unwrap_or("main"),
        submitter: facts.submitter.as_deref(),
        nodes: &facts.nodes,
        now: facts.now,
    }
}

fn serving_node(facts: &JobFacts, destination: &Destination<'_>) -> Gate {
    let gate = destination.node();
    if facts.unknown_kind && gate.open == Some(true) {
        let why = format!(
            "it was parked by a node that does not know kind {}; {} does, and queues it again with its next heartbeat",
            facts.kind,
            names(&destination.serving())
        );
        return Gate::closed(GateName::Node, why);
    }
    gate
}

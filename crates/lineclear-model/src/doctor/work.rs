//! Checks of jobs: leases, overdue jobs, unknown kinds, dead letters.

use std::collections::BTreeMap;

use super::{Check, CheckName, HealthFacts, Overdue, a_few, length, many};
use crate::explain::GateName;

/// Checks of jobs.
pub fn work(facts: &HealthFacts) -> Vec<Check> {
    vec![leases(facts), overdue(facts), kinds(facts), dead_letters(facts)]
}

fn leases(facts: &HealthFacts) -> Check {
    let (name, trouble) = (CheckName::Leases, &facts.trouble);
    if let Some(why) = &facts.not_checked.trouble {
        return Check::not_checked(name, why);
    }
    if trouble.leases_over == 0 {
        return Check::ok(name, "no expired lease is left");
    }
    let ago = trouble.lease_over_at.map(|at| length(facts.now.get() - at.get())).unwrap_or_default();
    let message = format!(
        "{} with an expired lease that no node has reclaimed, the first {ago} ago",
        many(trouble.leases_over, facts.count_max, "job")
    );
    let remedy =
        "a live node with the role dispatcher or planner reclaims them; is one alive? lineclear serve";
    Check::failure(name, message, remedy)
}

/// Names the gate that blocks most of the overdue jobs.
fn overdue(facts: &HealthFacts) -> Check {
    let name = CheckName::Overdue;
    if let Some(why) = &facts.not_checked.overdue {
        return Check::not_checked(name, why);
    }
    let Some(first) = facts.overdue.iter().map(|job| job.due_at).min() else {
        return Check::ok(name, "no job waits long past its time");
    };
    let waits =
        format!("the oldest job that is due has waited for {}", length(facts.now.get() - first.get()));
    let all = facts.overdue.len();
    let mut gates: BTreeMap<Option<GateName>, usize> = BTreeMap::new();
    for job in &facts.overdue {
        *gates.entry(job.gate).or_default() += 1;
    }
    // One job that no node can run, or that no node claims, is worse than many that an operator has paused.
    let stranded = gates.get(&Some(GateName::Node)).copied().unwrap_or(0);
    let stuck = facts.overdue.iter().filter(|job| job.is_stuck()).count();
    let (top, count) = gates.into_iter().max_by_key(|(_, count)| *count).unwrap_or((None, 0));
    let example = |of: &dyn Fn(&Overdue) -> bool| facts.overdue.iter().find(|job| of(job));
    let look = |job: Option<&Overdue>| {
        job.map(|job| format!("lineclear job explain {}", job.job)).unwrap_or_default()
    };
    let blocks = top.map(|gate| {
        let why = example(&|job| job.gate == top).map(|job| format!("job {}: {}", job.job, job.why));
        let why = why.unwrap_or_default();
        format!("; the gate `{gate}` blocks {count} of the {all} that were checked ({why})")
    });
    let message = format!("{waits}{}", blocks.unwrap_or_default());
    if stranded > 0 {
        let node = GateName::Node;
        let also =
            if top == Some(node) { String::new() } else { format!(", and the gate `{node}` {stranded}") };
        let look = look(example(&|job| job.gate == Some(node)));
        return Check::failure(
            name,
            format!("{message}{also}"),
            format!("start a node or a remote worker that runs them; {look}"),
        );
    }
    if stuck > 0 {
        let job = example(&Overdue::is_stuck);
        let free = job.map_or(0, |job| job.free);
        let message = format!(
            "{message}; nothing blocks {stuck} of the {all} that were checked, {}, and no node dispatches them",
            many(free, 0, "slot").replace(" slot", " free slot")
        );
        let look = look(job);
        return Check::failure(
            name,
            message,
            format!("see the check `runners`, and the log of a node; {look}"),
        );
    }
    let look = look(example(&|job| job.gate == top));
    match top {
        Some(GateName::Enabled | GateName::GroupEnabled | GateName::GlobalEnabled) => {
            Check::warning(name, message, format!("should it still be switched off? {look}"))
        }
        Some(GateName::GroupLimit | GateName::GlobalLimit | GateName::KeyLimit | GateName::Overlap) => {
            Check::warning(
                name,
                message,
                format!("is the limit right, and do its holders make progress? {look}"),
            )
        }
        Some(_) => Check::warning(name, message, look),
        None => {
            let full = facts.overdue.iter().all(|job| job.gate.is_some() || job.free == 0);
            let why = match full {
                true => "all slots of the nodes that run it are taken",
                false => "nothing blocks it, and its queue moves: more jobs arrive than are done",
            };
            Check::warning(name, format!("{message}; {why}"), "use more nodes, or more --slots")
        }
    }
}

fn kinds(facts: &HealthFacts) -> Check {
    let trouble = &facts.trouble;
    if let Some(why) = &facts.not_checked.trouble {
        return Check::not_checked(CheckName::Kinds, why);
    }
    match trouble.unknown {
        0 => Check::ok(CheckName::Kinds, "no job is parked because its kind is unknown"),
        jobs => Check::failure(
            CheckName::Kinds,
            format!(
                "{} parked because no node that claimed them knows their kind: {}",
                many(jobs, facts.count_max, "job"),
                a_few(&trouble.unknown_kinds)
            ),
            "start a node that runs it, and they are queued again; or cancel them: lineclear job list -q state:parked",
        ),
    }
}

fn dead_letters(facts: &HealthFacts) -> Check {
    let name = CheckName::DeadLetters;
    if facts.dead_letters == 0 {
        return Check::ok(name, "no dead letter waits for a person");
    }
    let oldest = facts.trouble.dead_at.map(|at| length(facts.now.get() - at.get())).unwrap_or_default();
    let verb = if facts.dead_letters == 1 { "waits" } else { "wait" };
    Check::warning(
        name,
        format!(
            "{} {verb} for a person, the oldest for {oldest}",
            many(facts.dead_letters, facts.count_max, "dead letter")
        ),
        "see why they died, then revive or acknowledge them: lineclear dead families",
    )
}

//! Jobs that should have been taken.

use std::collections::BTreeMap;

use super::{Check, CheckName, Condition, a_few, length, many};
use crate::explain::GateName;

/// Checks of jobs.
pub fn work(facts: &Condition) -> Vec<Check> {
    vec![leases(facts), overdue(facts), kinds(facts), dead_letters(facts)]
}

fn leases(facts: &Condition) -> Check {
    let (name, trouble) = (CheckName::Leases, &facts.trouble);
    if trouble.leases_over == 0 {
        return Check::ok(name, "no lease that ran out is left lying");
    }
    let ago = trouble.lease_over_at.map(|at| length(facts.now.get() - at.get())).unwrap_or_default();
    let says = format!(
        "{} whose lease ran out, the first {ago} ago, and that nobody has taken back",
        many(trouble.leases_over, facts.count_max, "job")
    );
    let todo =
        "a live node with the role dispatcher or planner does so by itself; is one alive? lineclear serve";
    Check::failure(name, says, todo)
}

/// What most of those wait for that wait for long.
fn overdue(facts: &Condition) -> Check {
    let name = CheckName::Overdue;
    let Some(first) = facts.overdue.iter().map(|job| job.due_at).min() else {
        return Check::ok(name, "no job waits long past its time");
    };
    let ago = length(facts.now.get() - first.get());
    let mut gates: BTreeMap<Option<GateName>, usize> = BTreeMap::new();
    for job in &facts.overdue {
        *gates.entry(job.gate).or_default() += 1;
    }
    let all = facts.overdue.len();
    // One that nobody can run is worse than many that somebody has switched off.
    let stranded = gates.get(&Some(GateName::Node)).copied().unwrap_or(0);
    let (top, count) = gates.into_iter().max_by_key(|(_, count)| *count).unwrap_or((None, 0));
    let example = facts.overdue.iter().find(|job| job.gate == top);
    let why = example.map(|job| format!("job {}: {}", job.job, job.why)).unwrap_or_default();
    let look = example.map(|job| format!("lineclear job explain {}", job.job)).unwrap_or_default();
    let waits = format!("the oldest job that is due has waited for {ago}");
    if let Some(gate) = top {
        let says =
            format!("{waits}; the gate `{gate}` blocks {count} of the {all} that were looked at ({why})");
        return match gate {
            gate if gate != GateName::Node && stranded > 0 => {
                let says = format!("{says}, and the gate `{}` {stranded}", GateName::Node);
                Check::failure(name, says, format!("start a node that runs them; {look}"))
            }
            GateName::Node => Check::failure(name, says, format!("start a node that runs it; {look}")),
            GateName::Enabled | GateName::GroupEnabled | GateName::GlobalEnabled => {
                Check::warning(name, says, format!("is it still to be switched off? {look}"))
            }
            GateName::GroupLimit | GateName::GlobalLimit | GateName::KeyLimit | GateName::Overlap => {
                Check::warning(
                    name,
                    says,
                    format!("is the limit as it should be, and do its holders get on? {look}"),
                )
            }
            _ => Check::warning(name, says, look),
        };
    }
    let slots = facts.slots();
    if facts.running >= slots {
        let says = format!("{waits}; nothing is in its way but that all {slots} slots are taken");
        return Check::warning(name, says, "more nodes, or more --slots, take more at once");
    }
    let says = format!(
        "{waits}; nothing is in its way and {} of {slots} slots are taken, and nobody takes it",
        facts.running
    );
    Check::failure(name, says, format!("see the check `runners`, and the log of a node; {look}"))
}

fn kinds(facts: &Condition) -> Check {
    let trouble = &facts.trouble;
    match trouble.unknown {
        0 => Check::ok(CheckName::Kinds, "no job is set aside because nobody knows its kind"),
        jobs => Check::failure(
            CheckName::Kinds,
            format!(
                "{} set aside because no node that took them knows their kind: {}",
                many(jobs, facts.count_max, "job"),
                a_few(&trouble.unknown_kinds)
            ),
            "start a node that runs it, and they come back by themselves; or cancel them: lineclear job list -q state:parked",
        ),
    }
}

fn dead_letters(facts: &Condition) -> Check {
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
        "look what they died of, then revive or acknowledge them: lineclear dead families",
    )
}

//! Gates that jobs and manifests have in common.

use super::{Blocker, Gate, GateName, LimitFacts};

pub(super) fn group_enabled(group: Option<&LimitFacts>) -> Gate {
    let name = GateName::GroupEnabled;
    match group {
        None => Gate::not_applicable(name, "it is in no group"),
        Some(group) if group.enabled => Gate::open(name, format!("group {} is switched on", group.name)),
        Some(group) => {
            let why = format!("group {} is switched off: none of its jobs is dispatched", group.name);
            Gate::closed(name, why).blocked_by("group", &group.name)
        }
    }
}

pub(super) fn global_enabled(global: Option<&LimitFacts>) -> Gate {
    match global {
        Some(global) if !global.enabled => {
            let why = "everything is switched off (group *): no job is dispatched";
            Gate::closed(GateName::GlobalEnabled, why).blocked_by("group", "*")
        }
        _ => Gate::open(GateName::GlobalEnabled, "everything is switched on (group *)"),
    }
}

/// A limit, and whether it is reached.
pub(super) fn limit(name: GateName, facts: Option<&LimitFacts>, none: &str, what: &str) -> Gate {
    let Some((facts, limit)) = facts.and_then(|facts| Some((facts, facts.limit?))) else {
        return Gate::not_applicable(name, none);
    };
    let taken = format!("{} of {limit}", facts.active.min(limit));
    let place = match name {
        GateName::GlobalLimit => "under the global limit".to_owned(),
        _ => format!("in {what} {}", facts.name),
    };
    if facts.active < limit {
        return Gate::open(name, format!("there is a place {place}: {taken} are taken"));
    }
    let verb = if limit == 1 { "is" } else { "are" };
    let mut gate = Gate::closed(name, format!("waits for a place {place}: {taken} {verb} taken"));
    gate.blockers.extend(facts.holders.iter().map(|holder| Blocker {
        what: "job",
        id: holder.job.to_string(),
        node: holder.node.clone(),
    }));
    gate
}

//! Why a manifest makes no job now, and whether the next one would run.

use super::destination::Destination;
use super::shared::{global_enabled, group_enabled, limit};
use super::{Blocker, Explanation, Gate, GateName, LiveJob, ManifestFacts, when};
use crate::schedule::Need;
use crate::{Excluded, Overlap, exclude, preview};

/// Every gate of a manifest.
pub fn explain_manifest(facts: &ManifestFacts) -> Explanation {
    let manifest = &facts.manifest;
    let on_job = |name| Gate::not_applicable(name, "not applicable to manifests");
    let destination = Destination {
        kind: manifest.kind.as_str(),
        route: &facts.route,
        submitter: facts.submitter.as_deref(),
        nodes: &facts.nodes,
        now: facts.now,
    };
    let gates = vec![
        enabled(facts),
        group_enabled(facts.group.as_ref()),
        global_enabled(facts.global.as_ref()),
        dead_letter(facts),
        dependency(facts),
        exclusion(facts),
        due(facts),
        on_job(GateName::Retry),
        overlap(facts),
        on_job(GateName::Cancel),
        limit(GateName::GroupLimit, facts.group.as_ref(), "no limit of a group applies", "group"),
        limit(GateName::GlobalLimit, facts.global.as_ref(), "there is no global limit", "group"),
        on_job(GateName::KeyLimit),
        destination.node(),
        destination.submitter(),
        on_job(GateName::Taken),
    ];
    Explanation::of(facts.now, gates, || match manifest.schedule.is_timed() {
        true => "nothing blocks it: the planner makes its next job in a moment".to_owned(),
        false if manifest.schedule.parents().is_empty() => {
            "nothing blocks it: it runs when it is triggered".to_owned()
        }
        false => "nothing blocks it: it runs when a manifest that it waits for completes".to_owned(),
    })
}

fn enabled(facts: &ManifestFacts) -> Gate {
    match facts.manifest.enabled {
        true => Gate::open(GateName::Enabled, "it is switched on"),
        false => Gate::closed(GateName::Enabled, "is paused: it makes no jobs by itself"),
    }
}

fn dead_letter(facts: &ManifestFacts) -> Gate {
    let name = GateName::DeadLetter;
    let ids: Vec<String> = facts.dead_letters.iter().map(ToString::to_string).collect();
    if !facts.held {
        let why = match ids.is_empty() {
            true => "no dead letter of it waits for a person".to_owned(),
            false => {
                format!("dead letter {} waits for a person, and it goes on (on_dead = go_on)", ids.join(", "))
            }
        };
        return Gate::open(name, why);
    }
    let why = match ids.is_empty() {
        true => "is held until a person has looked at its dead letter".to_owned(),
        false => format!("is held until a person has looked at dead letter {}", ids.join(", ")),
    };
    ids.iter().fold(Gate::closed(name, why), |gate, id| gate.blocked_by("dead_letter", id))
}

fn dependency(facts: &ManifestFacts) -> Gate {
    let name = GateName::Dependency;
    let schedule = &facts.manifest.schedule;
    if schedule.parents().is_empty() {
        return Gate::not_applicable(name, "it waits for no other manifest");
    }
    let keys = |arrived: bool| -> Vec<&str> {
        let those = facts.parents.iter().filter(|parent| parent.arrived == arrived);
        those.map(|parent| parent.key.as_str()).collect()
    };
    let (arrived, missing) = (keys(true), keys(false));
    if schedule.is_dormant() {
        let why = format!("is dormant: a running job of {} wakes it", missing.join(" or "));
        return missing.iter().fold(Gate::closed(name, why), |gate, key| gate.blocked_by("manifest", key));
    }
    let why = match (schedule.need(), arrived.as_slice()) {
        (Need::Any, _) => format!("waits for the next completion of {}", missing.join(" or ")),
        (Need::All, []) => format!("waits for {}; none has completed in this round", missing.join(", ")),
        (Need::All, here) => {
            format!("waits for {}; in this round {} completed", missing.join(", "), here.join(", "))
        }
    };
    missing.iter().fold(Gate::closed(name, why), |gate, key| gate.blocked_by("manifest", key))
}

fn exclusion(facts: &ManifestFacts) -> Gate {
    let name = GateName::Exclusion;
    let rules = facts.manifest.rules();
    if rules.exclude.is_empty() {
        return Gate::not_applicable(name, "it excludes no times");
    }
    let Some(tick) = rules.schedule.next_after(facts.now.offset(-1)) else {
        return Gate::not_applicable(name, "it has no further tick");
    };
    let Some(at) = exclude::covering(&rules.exclude, rules.schedule.zone(), tick) else {
        return Gate::open(name, format!("its next tick, {}, is not excluded", when(tick, facts.now)));
    };
    let rule = serde_json::to_string(&rules.exclude[at]).unwrap_or_default();
    let ahead = preview(&rules, &facts.manifest.key, facts.now.offset(-1), 1);
    let next = match (ahead.ticks.first(), ahead.excluded_through) {
        (None, Some(through)) => format!("and so is every later one up to {}", when(through, facts.now)),
        (None, None) => "no later one fires".to_owned(),
        (Some(next), _) if rules.excluded == Excluded::Defer => {
            format!(
                "the newest excluded one fires when that time is over, at {}",
                when(next.due_at, facts.now)
            )
        }
        (Some(next), _) => format!("the next that fires is {}", when(next.tick_at, facts.now)),
    };
    let why =
        format!("its next tick, {}, is excluded by exclude[{at}] {rule}; {next}", when(tick, facts.now));
    Gate::closed(name, why)
}

fn due(facts: &ManifestFacts) -> Gate {
    let name = GateName::Due;
    if !facts.manifest.schedule.is_timed() {
        return Gate::not_applicable(name, "its schedule has no times");
    }
    match facts.next_due_at {
        Some(at) if at <= facts.now => {
            Gate::open(name, format!("a tick is due since {}", when(at, facts.now)))
        }
        Some(at) => Gate::closed(name, format!("waits for its next tick at {}", when(at, facts.now))),
        None => Gate::closed(name, "its schedule has no further tick"),
    }
}

fn overlap(facts: &ManifestFacts) -> Gate {
    let name = GateName::Overlap;
    let queued = |job: &&LiveJob| job.fresh;
    let (keeps, what): (Vec<&LiveJob>, &str) = match facts.manifest.overlap() {
        Overlap::Allow => return Gate::not_applicable(name, "its jobs may overlap (overlap = allow)"),
        Overlap::Skip => (facts.live.iter().collect(), "is not over: a tick that comes now is skipped"),
        Overlap::QueueOne => (
            facts.live.iter().filter(queued).collect(),
            "is queued already: a tick that comes now is skipped",
        ),
        Overlap::Cancel => (
            facts.live.iter().filter(queued).collect(),
            "is queued already: a tick that comes now is skipped",
        ),
    };
    let rule = facts.manifest.overlap();
    let Some(first) = keeps.first() else {
        return Gate::open(name, format!("no job keeps the next one back (overlap = {rule})"));
    };
    let mut gate =
        Gate::closed(name, format!("job {} ({}) {what} (overlap = {rule})", first.job, first.state));
    gate.blockers.extend(keeps.iter().map(|job| Blocker {
        what: "job",
        id: job.job.to_string(),
        node: job.node.clone(),
    }));
    gate
}

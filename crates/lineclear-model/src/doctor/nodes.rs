//! Checks of nodes.

use std::collections::BTreeSet;

use super::{Check, CheckName, HealthFacts, NodeState, a_few, length, many};

/// Checks of nodes.
pub fn nodes(facts: &HealthFacts) -> Vec<Check> {
    vec![alive(facts), leader(facts), lost(facts), versions(facts), runners(facts), submitters(facts)]
}

fn live(facts: &HealthFacts) -> impl Iterator<Item = &NodeState> {
    facts.nodes.iter().filter(|node| node.live)
}

fn plays(node: &NodeState, role: &str) -> bool {
    node.roles.iter().any(|own| own == role)
}

fn alive(facts: &HealthFacts) -> Check {
    let name = CheckName::Alive;
    let alive = live(facts).count() as u64;
    let start = "start one: lineclear serve";
    if alive == 0 {
        let last = facts.nodes.iter().max_by_key(|node| node.seen_at);
        let last = last.map_or("none was ever started".to_owned(), |node| {
            let ago = length(facts.now.get() - node.seen_at.get());
            format!("{} was heard of last, {ago} ago", node.name)
        });
        let message = format!("no node is alive, so nothing runs; {last}");
        // Without work, no node is needed yet.
        let idle = facts.waiting == 0 && facts.running == 0 && !facts.trouble.has_ticks;
        return if idle {
            Check::warning(name, message, start)
        } else {
            Check::failure(name, message, start)
        };
    }
    let verb = if alive == 1 { "is" } else { "are" };
    let (works, takes) = (|node: &&NodeState| plays(node, "workers"), |node: &&NodeState| !node.drains);
    if live(facts).filter(works).count() > 0 && !live(facts).filter(works).any(|node| takes(&node)) {
        let message = format!("{} {verb} alive, and all that run jobs drain", many(alive, 0, "node"));
        return Check::failure(name, message, "let one take work again: lineclear node resume NODE");
    }
    if facts.workers == 0 && !live(facts).any(|node| plays(node, "workers")) {
        let message = format!("{} {verb} alive, and none of them runs jobs", many(alive, 0, "node"));
        return Check::failure(name, message, "start one with the role workers: lineclear work");
    }
    if live(facts).any(|node| plays(node, "dispatcher"))
        && !live(facts).any(|node| node.takes_part("dispatcher"))
    {
        let message = format!("{} {verb} alive, and all that hand out jobs drain", many(alive, 0, "node"));
        return Check::failure(name, message, "let one take work again: lineclear node resume NODE");
    }
    let slots = facts.slots();
    let workers = match facts.workers {
        0 => String::new(),
        workers => format!(
            "; and {}, with {}",
            many(workers, facts.count_max, "remote worker"),
            many(facts.worker_slots, 0, "slot")
        ),
    };
    Check::ok(
        name,
        format!("{} {verb} alive, with {}{workers}", many(alive, 0, "node"), many(slots, 0, "slot")),
    )
}

fn leader(facts: &HealthFacts) -> Check {
    let name = CheckName::Leader;
    if let Some(why) = &facts.not_checked.trouble {
        return Check::not_checked(name, why);
    }
    let drains = live(facts).any(|node| plays(node, "planner") && node.drains);
    let plans = live(facts).any(|node| plays(node, "planner") && !node.drains);
    if facts.trouble.has_ticks && !plans && drains {
        let message = "all nodes that plan drain, so manifests make no jobs";
        return Check::failure(name, message, "let one take work again: lineclear node resume NODE");
    }
    if facts.trouble.has_ticks && !plans {
        let message = "no live node plans, so manifests make no jobs";
        return Check::failure(name, message, "start one with the role planner: lineclear serve");
    }
    match &facts.leader {
        Some(leader) if leader.is_live(facts.now) => {
            let (ago, led) =
                (facts.now.get() - leader.renewed_at.get(), facts.now.get() - leader.since.get());
            let message = format!(
                "{} has led the planning for {}, and said so {} ago",
                leader.node,
                length(led),
                length(ago)
            );
            Check::ok(name, message)
        }
        Some(leader) => {
            let end = leader.released_at.unwrap_or(leader.renewed_at);
            let how = if leader.released_at.is_some() { "stopped" } else { "went silent" };
            let ago = length(facts.now.get() - end.get());
            let message =
                format!("no node leads the planning now: {} led last, and {how} {ago} ago", leader.node);
            match facts.trouble.late > 0 {
                true => Check::failure(name, message, "see the check `late`: manifests wait for a planner"),
                // The node that wins the next planning cycle leads.
                false if plans => Check::ok(name, format!("{message}; the next node that plans will lead")),
                false => Check::ok(name, format!("{message}; there is nothing to plan")),
            }
        }
        None if facts.trouble.late > 0 => Check::failure(
            name,
            "no node leads the planning, and manifests are late",
            "is a node with the role planner alive? start one: lineclear serve",
        ),
        None => Check::ok(name, "no node has led yet: there was nothing to plan"),
    }
}

fn lost(facts: &HealthFacts) -> Check {
    let name = CheckName::Lost;
    let lost: Vec<String> = facts
        .nodes
        .iter()
        .filter(|node| !node.live && node.abandoned > 0)
        .map(|node| {
            let ago = length(facts.now.get() - node.seen_at.get());
            format!("{} (silent for {ago}, holds {})", node.name, many(node.abandoned, 0, "job"))
        })
        .collect();
    if !lost.is_empty() {
        let message = format!("lost, with jobs that no node has reclaimed: {}", a_few(&lost));
        let remedy = "a live node takes them back by itself within seconds; if none is alive, start one: lineclear serve";
        return Check::failure(name, message, remedy);
    }
    let silent: Vec<String> =
        facts.nodes.iter().filter(|node| !node.live).map(|node| node.name.clone()).collect();
    Check::ok(
        name,
        match silent.len() {
            0 => "no node has gone".to_owned(),
            n => format!(
                "{} stopped or went silent, and hold no jobs: {}",
                many(n as u64, 0, "node"),
                a_few(&silent)
            ),
        },
    )
}

fn versions(facts: &HealthFacts) -> Check {
    let versions: BTreeSet<&str> = live(facts).map(|node| node.version.as_str()).collect();
    let named: Vec<String> = versions.iter().map(ToString::to_string).collect();
    match named.as_slice() {
        [] => Check::skipped(CheckName::Versions, "no node is alive"),
        [one] => Check::ok(CheckName::Versions, format!("every node that is alive is of version {one}")),
        several => Check::warning(
            CheckName::Versions,
            format!("nodes of several versions are alive: {}", a_few(several)),
            "that is well during an upgrade; finish it: stop and start the older ones (lineclear api GET /nodes)",
        ),
    }
}

fn runners(facts: &HealthFacts) -> Check {
    let name = CheckName::Runners;
    let failing: Vec<String> = live(facts)
        .flat_map(|node| {
            node.failing.iter().map(move |(runner, why)| format!("{} of {}: {why}", runner, node.name))
        })
        .collect();
    match failing.is_empty() {
        true if live(facts).next().is_none() => Check::skipped(name, "no node is alive"),
        true => Check::ok(name, "what nodes do by themselves works"),
        false => Check::warning(
            name,
            format!("the last pass failed: {}", a_few(&failing)),
            "the log of that node says more; it tries again by itself",
        ),
    }
}

fn submitters(facts: &HealthFacts) -> Check {
    let name = CheckName::Submitters;
    let blocked: Vec<String> = live(facts)
        .flat_map(|node| {
            let blocked = node.blocked_submitters.iter();
            blocked.map(move |(submitter, why)| format!("{submitter} on {} ({why})", node.name))
        })
        .collect();
    match blocked.is_empty() {
        true => Check::ok(name, "no submitter refuses jobs"),
        false => Check::warning(
            name,
            format!("takes no jobs now: {}", a_few(&blocked)),
            "its jobs wait, and spend no retry; check that its endpoint answers: lineclear submitter list",
        ),
    }
}

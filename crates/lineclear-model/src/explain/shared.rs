//! Gates that jobs and manifests have in common.

use super::{Blocker, Gate, GateName, LimitFacts, NodeFacts};

/// Nodes that a sentence names.
const NODES_NAMED: usize = 5;

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

/// The live nodes that take a kind on a route.
pub(super) fn serving<'a>(nodes: &'a [NodeFacts], kind: &str, route: &str) -> Vec<&'a NodeFacts> {
    knowing(nodes, kind, route).into_iter().filter(|node| !node.drains).collect()
}

/// Like `serving`, and those that drain.
fn knowing<'a>(nodes: &'a [NodeFacts], kind: &str, route: &str) -> Vec<&'a NodeFacts> {
    nodes.iter().filter(|node| node.serves(kind, route)).collect()
}

pub(super) fn names(nodes: &[&NodeFacts]) -> String {
    let named: Vec<&str> = nodes.iter().take(NODES_NAMED).map(|node| node.name.as_str()).collect();
    match nodes.len().saturating_sub(NODES_NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

pub(super) fn node(nodes: &[NodeFacts], kind: &str, route: &str) -> Gate {
    let serving = serving(nodes, kind, route);
    if !serving.is_empty() {
        return Gate::open(GateName::Node, format!("{} runs kind {kind} on route {route}", names(&serving)));
    }
    let mut live: Vec<&NodeFacts> = nodes.iter().filter(|node| node.live && node.works).collect();
    let drain = knowing(nodes, kind, route);
    let why = if !drain.is_empty() {
        live.clone_from(&drain);
        let (verb, them) = if drain.len() == 1 { ("drains", "it") } else { ("drain", "them") };
        format!(
            "only {} could run kind {kind} on route {route}, and {verb}: `lineclear node resume` lets {them} take work",
            names(&drain)
        )
    } else if live.is_empty() {
        format!("no live node runs jobs, so none runs kind {kind} on route {route}")
    } else {
        let others: Vec<String> = live.iter().take(NODES_NAMED).map(|node| serves(node)).collect();
        format!("no live node runs kind {kind} on route {route}: {}", others.join("; "))
    };
    let mut gate = Gate::closed(GateName::Node, why);
    gate.blockers.extend(live.iter().take(NODES_NAMED).map(|node| Blocker {
        what: "node",
        id: node.name.clone(),
        node: None,
    }));
    gate
}

/// What a node serves, in words.
fn serves(node: &NodeFacts) -> String {
    const KINDS_NAMED: usize = 10;
    let routes = if node.routes.is_empty() { "no route".to_owned() } else { node.routes.join(", ") };
    let kinds = match &node.kinds {
        None => "does not say which kinds".to_owned(),
        Some(kinds) if kinds.is_empty() => "knows no kinds".to_owned(),
        Some(kinds) => {
            let more = if kinds.len() > KINDS_NAMED { ", …" } else { "" };
            format!("knows {}{more}", kinds[..kinds.len().min(KINDS_NAMED)].join(", "))
        }
    };
    format!("{} serves {routes} and {kinds}", node.name)
}

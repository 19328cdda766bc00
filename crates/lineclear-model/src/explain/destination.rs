//! Where jobs of a kind go: to nodes that run it, to remote workers that pull it, or to a submitter.

use super::{Blocker, Gate, GateName, NodeFacts, when};
use crate::Micros;
use crate::job::PULL_PREFIX;

/// Nodes that a sentence names.
const NODES_NAMED: usize = 5;

/// Where the jobs of a kind go.
pub(super) struct Destination<'a> {
    pub(super) kind: &'a str,
    pub(super) route: &'a str,
    /// Where the submitter of the route sends jobs, if the route is one's.
    pub(super) submitter: Option<&'a str>,
    /// Nodes, or the remote workers of the route, last seen first.
    pub(super) nodes: &'a [NodeFacts],
    pub(super) now: Micros,
}

impl<'a> Destination<'a> {
    /// The live nodes that take the jobs.
    pub(super) fn serving(&self) -> Vec<&'a NodeFacts> {
        self.knowing().into_iter().filter(|node| !node.drains).collect()
    }

    /// Like `serving`, and those that drain.
    fn knowing(&self) -> Vec<&'a NodeFacts> {
        self.nodes.iter().filter(|node| node.serves(self.kind, self.route)).collect()
    }

    fn is_submitter(&self) -> bool {
        self.submitter.is_some() || self.nodes.iter().any(|node| node.submitter(self.route).is_some())
    }

    /// The gate of a live node or worker.
    pub(super) fn node(&self) -> Gate {
        let Destination { kind, route, .. } = self;
        let (is_pulled, is_submitter) = (route.starts_with(PULL_PREFIX), self.is_submitter());
        let serving = self.serving();
        if !serving.is_empty() {
            let nodes = names(&serving);
            return Gate::open(
                GateName::Node,
                match (is_pulled, is_submitter) {
                    (true, _) => format!("worker {nodes} pulls kind {kind}"),
                    (_, true) => format!("{nodes} hands kind {kind} to submitter {route}{}", self.target()),
                    _ => format!("{nodes} runs kind {kind} on route {route}"),
                },
            );
        }
        let drain = self.knowing();
        if !drain.is_empty() {
            return self.drains(&drain);
        }
        if is_pulled {
            return self.no_worker();
        }
        if is_submitter {
            let why = format!(
                "no live node has submitter {route}{}, which gets kind {kind}: start a node with this submitter",
                self.target()
            );
            return Gate::closed(GateName::Node, why);
        }
        let live: Vec<&NodeFacts> = self.nodes.iter().filter(|node| node.live && node.works).collect();
        let why = if live.is_empty() {
            format!("no live node runs jobs, so none runs kind {kind} on route {route}")
        } else {
            let others: Vec<String> = live.iter().take(NODES_NAMED).map(|node| serves(node)).collect();
            format!("no live node runs kind {kind} on route {route}: {}", others.join("; "))
        };
        blocked_by(Gate::closed(GateName::Node, why), &live)
    }

    fn target(&self) -> String {
        self.submitter.map(|target| format!(" ({target})")).unwrap_or_default()
    }

    fn drains(&self, drain: &[&NodeFacts]) -> Gate {
        let (verb, them) = if drain.len() == 1 { ("drains", "it") } else { ("drain", "them") };
        let why = format!(
            "only {} could run kind {} on route {}, and {verb}: `lineclear node resume` lets {them} take work",
            names(drain),
            self.kind,
            self.route
        );
        blocked_by(Gate::closed(GateName::Node, why), drain)
    }

    fn no_worker(&self) -> Gate {
        let kind = self.kind;
        let last = match self.nodes.iter().max_by_key(|node| node.seen_at) {
            Some(worker) => {
                format!("{} was the last one, heard of at {}", worker.name, when(worker.seen_at, self.now))
            }
            None => "no live worker pulls it".to_owned(),
        };
        let why = format!("no worker for kind {kind}: {last}; start a remote worker that asks for this kind");
        Gate::closed(GateName::Node, why)
    }

    /// The gate of a submitter: closed if none of the nodes that have it can hand over jobs.
    pub(super) fn submitter(&self) -> Gate {
        let name = GateName::Submitter;
        let of = |node: &'a NodeFacts| node.submitter(self.route).map(|submitter| (node, submitter));
        let all: Vec<_> = self.serving().into_iter().filter_map(of).collect();
        let Some((node, first)) = all.first() else {
            let why = if self.is_submitter() {
                "no live node has its submitter"
            } else {
                "it goes to no submitter"
            };
            return Gate::not_applicable(name, why);
        };
        if let Some((node, submitter)) = all.iter().find(|(_, submitter)| submitter.takes) {
            let why = format!("submitter {} takes jobs from {}: {}", self.route, node.name, submitter.state);
            return Gate::open(name, why);
        }
        let detail = first.detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        let again = match all.iter().filter_map(|(_, submitter)| submitter.retry_at).min() {
            Some(at) => format!("; it tries again at {}", when(at, self.now)),
            None => String::new(),
        };
        let why = format!(
            "submitter {} takes no jobs from {}: {}{detail}{again}; check that {} answers",
            self.route,
            node.name,
            first.state,
            self.submitter.unwrap_or("its endpoint")
        );
        Gate::closed(name, why)
    }
}

fn blocked_by(mut gate: Gate, nodes: &[&NodeFacts]) -> Gate {
    let blocker = |node: &&NodeFacts| Blocker { what: "node", id: node.name.clone(), node: None };
    gate.blockers.extend(nodes.iter().take(NODES_NAMED).map(blocker));
    gate
}

pub(super) fn names(nodes: &[&NodeFacts]) -> String {
    let named: Vec<&str> = nodes.iter().take(NODES_NAMED).map(|node| node.name.as_str()).collect();
    match nodes.len().saturating_sub(NODES_NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
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

//! The node's description of itself.

use std::collections::BTreeSet;

use lineclear_model::Name;

use crate::handler::{Kind, Kinds};
use crate::options::{NodeOptions, Role};
use crate::store::{NodeInfo, main_route};
use crate::submitters::SubmitterStatus;
use crate::submitters::routing::{Destination, Routing};

/// The routes that a node serves: those of its options, or those of its kinds; `main` for a dispatcher without workers.
pub(crate) fn routes(options: &NodeOptions, kinds: &Kinds) -> BTreeSet<Name> {
    let mut routes: BTreeSet<Name> = options.routes.iter().cloned().collect();
    if routes.is_empty() {
        let local = kinds.values().filter(|kind| kind.is_local());
        routes = local.map(|kind| kind.options.route.clone()).collect();
    }
    if routes.is_empty() && options.has(Role::Dispatcher) && !options.has(Role::Workers) {
        routes.insert(main_route());
    }
    routes
}

/// The routes of the submitters that a node serves.
pub(crate) fn submitter_routes(options: &NodeOptions, routing: &Routing) -> Vec<Name> {
    let is_served = |route: &&Name| options.routes.is_empty() || options.routes.contains(route);
    routing.submitters.keys().filter(is_served).cloned().collect()
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".to_owned());
    host.trim().to_owned()
}

/// The node's row in the database.
pub(crate) fn node_info(options: &NodeOptions, kinds: &Kinds, routing: &Routing) -> NodeInfo {
    let (host, pid) = (host(), std::process::id());
    let json = |words: Vec<String>| serde_json::to_string(&words).expect("words are JSON");
    let served: BTreeSet<Name> =
        routes(options, kinds).into_iter().chain(submitter_routes(options, routing)).collect();
    // Remote workers run the kinds that they pull, and this node does not.
    let runs = |kind: &Kind| kind.destination != Destination::Pull;
    let known: BTreeSet<String> =
        kinds.iter().filter(|(_, kind)| runs(kind)).map(|(name, _)| name.to_string()).collect();
    NodeInfo {
        name: format!("{host}/{pid}"),
        host,
        pid,
        // Process ids are reused, and one process may have several nodes.
        incarnation: uuid::Uuid::new_v4().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: json(options.roles.iter().map(|role| role.as_str().to_owned()).collect()),
        routes: json(served.iter().map(ToString::to_string).collect()),
        kinds: json(known.into_iter().collect()),
        slots: options.slots,
        runners: "{}".to_owned(),
    }
}

/// The role of a submitter in its row of `node`.
pub(crate) const SUBMITTER_ROLE: &str = "submitter";

/// The row of a submitter, which holds the leases of jobs that it has accepted. It has no heartbeat: if nothing is heard about such a
/// job until its lease ends, the worker that had it is gone.
pub(crate) fn submitter_info(name: &Name, status: &SubmitterStatus, kinds: &Kinds) -> NodeInfo {
    let json = |words: Vec<String>| serde_json::to_string(&words).expect("words are JSON");
    let to = Destination::Submitter(name.clone());
    let kinds = kinds.iter().filter(|(_, kind)| kind.destination == to).map(|(kind, _)| kind.to_string());
    let mut kinds: Vec<String> = kinds.collect();
    kinds.sort_unstable();
    NodeInfo {
        name: name.to_string(),
        host: status.target.clone(),
        pid: 0,
        incarnation: format!("{SUBMITTER_ROLE}:{name}"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: json(vec![SUBMITTER_ROLE.to_owned()]),
        routes: json(vec![name.to_string()]),
        kinds: json(kinds),
        slots: 0,
        runners: "{}".to_owned(),
    }
}

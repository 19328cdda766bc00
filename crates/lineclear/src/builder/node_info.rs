//! The node's description of itself.

use std::collections::BTreeSet;

use lineclear_model::Name;

use crate::handler::Kinds;
use crate::options::{NodeOptions, Role};
use crate::store::{NodeInfo, main_route};

/// The routes that a node serves: those of its options, or those of its kinds; `main` for a dispatcher without workers.
pub(crate) fn routes(options: &NodeOptions, kinds: &Kinds) -> BTreeSet<Name> {
    let mut routes: BTreeSet<Name> = options.routes.iter().cloned().collect();
    if routes.is_empty() {
        routes = kinds.values().map(|kind| kind.options.route.clone()).collect();
    }
    if routes.is_empty() && options.has(Role::Dispatcher) && !options.has(Role::Workers) {
        routes.insert(main_route());
    }
    routes
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".to_owned());
    host.trim().to_owned()
}

/// The node's row in the database.
pub(crate) fn node_info(options: &NodeOptions, kinds: &Kinds) -> NodeInfo {
    let (host, pid) = (host(), std::process::id());
    let json = |words: Vec<String>| serde_json::to_string(&words).expect("words are JSON");
    NodeInfo {
        name: format!("{host}/{pid}"),
        host,
        pid,
        // Process ids are reused, and one process may have several nodes.
        incarnation: uuid::Uuid::new_v4().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: json(options.roles.iter().map(|role| role.as_str().to_owned()).collect()),
        routes: json(routes(options, kinds).iter().map(ToString::to_string).collect()),
        kinds: json(kinds.keys().map(ToString::to_string).collect::<BTreeSet<_>>().into_iter().collect()),
        slots: options.slots,
        runners: "{}".to_owned(),
    }
}

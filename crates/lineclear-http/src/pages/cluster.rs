//! The cluster page: nodes, remote workers, submitters, runners, locks, and the history of locks.

use lineclear_model::Micros;
use maud::html;
use serde::Deserialize;

use super::locks::{self, HolderNames};
use super::{Page, Region, Tab, View, nodes, runners};
use crate::DatabaseLocks;
use crate::api::nodes::NODES_MAX;
use crate::api::{runners as api_runners, submitters};
use crate::problem::Problem;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterParams {
    #[serde(default)]
    range: locks::timeline::Range,
}

pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let ClusterParams { range } = view.params()?;
    let (nodes, registry) = tokio::join!(
        view.app.reading.nodes(NODES_MAX),
        locks::read_registry(view.app.locks.as_ref().map(DatabaseLocks::registry))
    );
    let nodes = nodes?;
    let submitters = submitters::all(view.app, &nodes).await?;
    let this = view.app.client.incarnation();
    let leases = registry.as_ref().map_or(&[][..], |registry| &registry.leases);
    let names = HolderNames { nodes: &nodes, leases, this };
    let now = nodes.first().map_or_else(|| Micros::from(jiff::Timestamp::now()), |node| node.now);
    let mut regions = vec![
        Region::new("this", nodes::this_node(&nodes, this)),
        Region::new("nodes", nodes::section(view, &nodes, this)),
        Region::new("workers", nodes::workers::section(view, &nodes)),
        Region::new("submitters", nodes::submitters::section(view, &submitters)),
    ];
    // A registry that does not answer has a section of its own, which says so.
    let all_runners = match &registry {
        Ok(_) => api_runners::all(view.app, &nodes).await,
        Err(_) => Ok(Vec::new()),
    };
    let all_runners = html! { @if let Ok(all) = &all_runners { (runners::section(all)) } };
    regions.push(Region::new("runners", all_runners));
    let (timeline, table) = match &registry {
        Ok(registry) => (
            locks::timeline::section(view, registry, &names, range, now),
            locks::section(view, registry, &names),
        ),
        Err(why) => (locks::unavailable(why), html! {}),
    };
    regions.extend([Region::new("timeline", timeline), Region::new("locks", table)]);
    Ok(Page { title: "Cluster".to_owned(), tab: Tab::Cluster, regions, live: true })
}

/// Checks the parameters of an export.
pub(super) fn check(view: &View<'_>) -> Result<(), Problem> {
    view.params::<ClusterParams>().map(drop)
}

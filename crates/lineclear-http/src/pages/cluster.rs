//! The cluster: which nodes there are, which locks they hold, and how those went from one to another.

pub(super) mod change;
mod lanes;
mod nodes;
pub(super) mod take_away;
mod tenures;

use std::time::Duration;

use lineclear::read::NodeView;
use lineclear_lock::{LeaseRecord, LeaseState, LockEvent, Registry};
use lineclear_model::{Micros, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::part::{cli, empty, moment, number};
use super::{Page, Region, Tab, View, export};
use crate::ShownLocks;
use crate::api::lock_break::own_store;
use crate::api::nodes::NODES_MAX;
use crate::problem::Problem;
use tenures::{incarnation, micros};

/// Locks that are shown.
const LOCKS_MAX: u32 = 200;
/// Events of locks that are read.
const EVENTS_MAX: u32 = 500;
/// A registry that takes longer is said not to answer: the rest of the page does not wait for it.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    #[serde(default)]
    range: lanes::Range,
}

/// What the registry knows.
struct Known {
    leases: Vec<LeaseRecord>,
    /// Newest first.
    events: Vec<LockEvent>,
}

/// Names of holders, for people.
struct Names<'a> {
    nodes: &'a [NodeView],
    leases: &'a [LeaseRecord],
    this: &'a str,
}

impl Names<'_> {
    fn of(&self, holder: &str) -> String {
        let own = incarnation(holder);
        let process = || holder.rsplit_once('/').map_or(holder, |(process, _)| process).to_owned();
        if let Some(node) = self.nodes.iter().find(|node| node.incarnation == own) {
            // One that was started again has the same name, and is another node.
            let alone = self.nodes.iter().filter(|other| other.name == node.name).count() == 1;
            return if alone { node.name.clone() } else { format!("{} ({})", node.name, node.pid) };
        }
        let lease = self.leases.iter().find(|lease| lease.incarnation == own);
        lease.map_or_else(process, |lease| lease.node.clone())
    }

    fn is_this(&self, holder: &str) -> bool {
        incarnation(holder) == self.this
    }

    /// Holders that are there, by name.
    fn living(&self) -> Vec<String> {
        let alive = |node: &&NodeView| !matches!(node.state(), "silent" | "lost");
        let mut nodes: Vec<&NodeView> = self.nodes.iter().filter(alive).collect();
        nodes.sort_by_key(|node| (&node.name, node.id));
        nodes.iter().map(|node| format!("{}/{}/{}", node.host, node.pid, node.incarnation)).collect()
    }
}

pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let Which { range } = view.asked()?;
    let (nodes, known) = tokio::join!(
        view.app.reading.nodes(NODES_MAX),
        known(view.app.locks.as_ref().map(ShownLocks::registry))
    );
    let nodes = nodes?;
    let this = view.app.client.incarnation();
    let leases = known.as_ref().map_or(&[][..], |known| &known.leases);
    let names = Names { nodes: &nodes, leases, this };
    let now = nodes.first().map_or_else(|| Micros::from(jiff::Timestamp::now()), |node| node.now);
    let mut regions = vec![
        Region::new("this", nodes::this(&nodes, this)),
        Region::new("nodes", nodes::section(view, &nodes, this)),
    ];
    let (lanes, leases) = match &known {
        Ok(known) => (lanes::section(view, known, &names, range, now), section(view, known, &names)),
        Err(why) => (absent(why), html! {}),
    };
    regions.extend([Region::new("lanes", lanes), Region::new("leases", leases)]);
    Ok(Page { title: "Cluster".to_owned(), tab: Tab::Cluster, regions, live: true })
}

/// The list takes no parameters, and neither do its files.
pub(super) fn check(view: &View<'_>) -> Result<(), Problem> {
    view.asked::<Which>().map(drop)
}

/// What the registry knows, or why nothing is known.
async fn known(registry: Option<&Registry>) -> Result<Known, &'static str> {
    let registry = registry
        .ok_or("This server has no lease registry, so that it does not know who holds which lock.")?;
    let read =
        async { tokio::try_join!(registry.leases(LOCKS_MAX), registry.history(None, None, EVENTS_MAX)) };
    match tokio::time::timeout(ANSWER_WITHIN, read).await {
        Ok(Ok((leases, events))) => Ok(Known { leases, events }),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the lease registry cannot be read");
            Err(
                "The lease registry cannot be read now. The locks themselves do not depend on it; the server's log says why.",
            )
        }
        Err(_) => Err("The lease registry does not answer. The locks themselves do not depend on it."),
    }
}

fn absent(why: &str) -> Markup {
    html! { section.card { h2 { "Locks" } p.wrong role="status" { (why) } } }
}

/// The state of a lease: glyph, class, and what it means.
fn badge(state: LeaseState) -> Markup {
    let (glyph, class, means) = match state {
        LeaseState::Held => ("●", "running", "its holder has it, and says so"),
        LeaseState::Idle => ("○", "cancelled", "it was given back, and is free"),
        LeaseState::Stale => ("◌", "retrying", "its holder has not been heard of lately, and it is not free"),
        LeaseState::Orphan => {
            ("✕", "dead", "nobody has it, and it was never given back: its holder went away")
        }
        LeaseState::Drift => ("≠", "dead", "another has it than the registry says"),
    };
    html! { span class={ "badge " (class) } title=(means) { span.glyph aria-hidden="true" { (glyph) } " " (state) } }
}

/// Somebody has it, and it is in the server's own database: not in a Redis that is only recorded here, and not what a node does.
fn can_be_broken(view: &View<'_>, lease: &LeaseRecord) -> bool {
    lease.store == own_store(view.app) && !matches!(lease.state, LeaseState::Idle | LeaseState::Orphan)
}

fn section(view: &View<'_>, known: &Known, names: &Names<'_>) -> Markup {
    if known.leases.is_empty() {
        let how = html! { p { "Locks that were taken in this database would be here, and the node that plans." } (cli("lineclear lock run nightly -- sleep 60")) };
        return html! { h2 { "Locks" } (empty("Nobody holds a lock", how)) };
    }
    let may = view.may(Scope::Operate);
    html! {
        div.bar { h2 { "Locks" } (export::links(view, "/locks")) }
        div.scroll { table.list {
            thead { tr {
                @for name in ["Lock", "State", "Holder", "Kind", "Store"] { th scope="col" { (name) } }
                th.number scope="col" { "Epoch" }
                @for name in ["Acquired", "Renewed"] { th scope="col" { (name) } }
                th.number scope="col" title="How often this node has taken it since others had it" { "Holds" }
                th.number scope="col" title="How often others found it busy since then" { "Contended" }
                @if may { th { span.hidden { "Actions" } } }
            } }
            tbody { @for lease in &known.leases {
                tr data-key={ "l" (lease.store) "/" (lease.name) } {
                    td { strong { (lease.name) } }
                    td { (badge(lease.state)) }
                    td { (lease.node) @if names.is_this(&lease.incarnation) { " " span.badge.this { "this node" } } }
                    td { (lease.kind.as_deref().unwrap_or("–")) }
                    td { (lease.store) }
                    td.number { (number(lease.epoch.get().unsigned_abs())) }
                    td { (moment(micros(lease.acquired_at))) }
                    td { (moment(micros(lease.renewed_at))) }
                    td.number { (number(lease.holds)) }
                    td.number { (number(lease.contended)) }
                    @if may { td { @if can_be_broken(view, lease) { a.button.danger href=(view.link(&take_away::address(&lease.name))) { "Break" } } } }
                }
            } }
        } }
        @if known.leases.len() == LOCKS_MAX as usize { p.muted { "The first " (LOCKS_MAX) " by name; the files have all." } }
    }
}

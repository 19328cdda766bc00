//! Locks of the cluster page: the table, and what the registry knows.

pub(super) mod break_lock;
mod tenures;
pub(super) mod timeline;

use std::time::Duration;

use lineclear::read::NodeView;
use lineclear_lock::{LeaseRecord, LeaseState, LockEvent, Registry};
use lineclear_model::Scope;
use maud::{Markup, html};

use super::components::{cli_hint, empty_state, moment, number};
use super::{View, export};
use crate::api::locks::break_lock::own_store;
use tenures::{incarnation, micros};

/// Locks on the page.
const LOCKS_MAX: u32 = 200;
/// Lock events that are read.
const EVENTS_MAX: u32 = 500;
/// How long the page waits for the registry.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The content of the lease registry.
pub(super) struct RegistryView {
    pub(super) leases: Vec<LeaseRecord>,
    /// Newest first.
    events: Vec<LockEvent>,
}

/// Finds the display names of holders.
pub(super) struct HolderNames<'a> {
    pub(super) nodes: &'a [NodeView],
    pub(super) leases: &'a [LeaseRecord],
    /// The incarnation of this server's node.
    pub(super) this: &'a str,
}

impl HolderNames<'_> {
    fn of(&self, holder: &str) -> String {
        let own = incarnation(holder);
        let process = || holder.rsplit_once('/').map_or(holder, |(process, _)| process).to_owned();
        if let Some(node) = self.nodes.iter().find(|node| node.incarnation == own) {
            // A restarted node has the same name, and is another node.
            let alone = self.nodes.iter().filter(|other| other.name == node.name).count() == 1;
            return if alone { node.name.clone() } else { format!("{} ({})", node.name, node.pid) };
        }
        let lease = self.leases.iter().find(|lease| lease.incarnation == own);
        lease.map_or_else(process, |lease| lease.node.clone())
    }

    fn is_this(&self, holder: &str) -> bool {
        incarnation(holder) == self.this
    }

    /// Live holders, by name.
    fn live(&self) -> Vec<String> {
        let alive = |node: &&NodeView| node.is_alive() && !node.is_worker();
        let mut nodes: Vec<&NodeView> = self.nodes.iter().filter(alive).collect();
        nodes.sort_by_key(|node| (&node.name, node.id));
        nodes.iter().map(|node| format!("{}/{}/{}", node.host, node.pid, node.incarnation)).collect()
    }
}

/// Reads the registry, or says why that fails.
pub(super) async fn read_registry(registry: Option<&Registry>) -> Result<RegistryView, &'static str> {
    let registry =
        registry.ok_or("This server has no lease registry, so it does not know the holders of locks.")?;
    let read =
        async { tokio::try_join!(registry.leases(LOCKS_MAX), registry.history(None, None, EVENTS_MAX)) };
    match tokio::time::timeout(ANSWER_WITHIN, read).await {
        Ok(Ok((leases, events))) => Ok(RegistryView { leases, events }),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the lease registry cannot be read");
            Err(
                "The lease registry cannot be read; see the server's log. The locks themselves do not depend on it.",
            )
        }
        Err(_) => Err("The lease registry does not answer. The locks themselves do not depend on it."),
    }
}

/// The section without a registry.
pub(super) fn unavailable(why: &str) -> Markup {
    html! { section.card { h2 { "Locks" } p.wrong role="status" { (why) } } }
}

/// The badge of a lease state.
fn badge(state: LeaseState) -> Markup {
    let (glyph, class, means) = match state {
        LeaseState::Held => ("●", "running", "held, and renewed"),
        LeaseState::Idle => ("○", "cancelled", "released, and free"),
        LeaseState::Stale => ("◌", "retrying", "not renewed lately, and not free yet"),
        LeaseState::Orphan => ("✕", "dead", "free, but never released: its holder disappeared"),
        LeaseState::Drift => ("≠", "dead", "held by another holder than the registry says"),
    };
    html! { span class={ "badge " (class) } title=(means) { span.glyph aria-hidden="true" { (glyph) } " " (state) } }
}

/// Whether a lock is held and in the server's own database, not in another store.
fn can_be_broken(view: &View<'_>, lease: &LeaseRecord) -> bool {
    lease.store == own_store(view.app) && !matches!(lease.state, LeaseState::Idle | LeaseState::Orphan)
}

/// The table of locks.
pub(super) fn section(view: &View<'_>, registry: &RegistryView, names: &HolderNames<'_>) -> Markup {
    if registry.leases.is_empty() {
        let how = html! { p { "This list has the locks of this database, and the node that plans." } (cli_hint("lineclear lock run nightly -- sleep 60")) };
        return html! { h2 { "Locks" } (empty_state("No locks", how)) };
    }
    let can_operate = view.can(Scope::Operate);
    html! {
        div.bar { h2 { "Locks" } (export::links(view, "/locks")) }
        div.scroll { table.list {
            thead { tr {
                @for name in ["Lock", "State", "Holder", "Kind", "Store"] { th scope="col" { (name) } }
                th.number scope="col" { "Epoch" }
                @for name in ["Acquired", "Renewed"] { th scope="col" { (name) } }
                th.number scope="col" title="How often this node has acquired it since another node held it" { "Holds" }
                th.number scope="col" title="How often others found it held since then" { "Contended" }
                @if can_operate { th { span.hidden { "Actions" } } }
            } }
            tbody { @for lease in &registry.leases {
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
                    @if can_operate { td { @if can_be_broken(view, lease) { a.button.danger href=(view.link(&break_lock::path(&lease.name))) { "Break" } } } }
                }
            } }
        } }
        @if registry.leases.len() == LOCKS_MAX as usize { p.muted { "The first " (LOCKS_MAX) " by name; the CSV and NDJSON files have all." } }
    }
}

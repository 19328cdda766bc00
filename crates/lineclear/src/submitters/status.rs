//! What operators see of submitters.

use std::time::Duration;

use lineclear_model::Name;

use crate::node::Shared;
use crate::submitters::routing::Destination;

/// Hosts that are shown.
#[cfg(feature = "outbound")]
const HOSTS_MAX: usize = 100;

/// The state of a submitter on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubmitterStatus {
    /// Where it sends jobs: `push https://billing.internal/jobs`.
    pub target: String,
    /// `ready`, or why it takes nothing.
    pub state: String,
    /// More about the state, such as the last error.
    pub detail: Option<String>,
    /// When it tries again.
    pub retry_in: Option<Duration>,
}

impl SubmitterStatus {
    /// It takes jobs.
    pub fn ready(target: impl Into<String>) -> SubmitterStatus {
        SubmitterStatus { target: target.into(), state: "ready".to_owned(), detail: None, retry_in: None }
    }

    /// It takes none, or fewer.
    pub fn not_ready(
        target: impl Into<String>,
        state: impl Into<String>,
        detail: Option<String>,
        retry_in: Option<Duration>,
    ) -> SubmitterStatus {
        SubmitterStatus { target: target.into(), state: state.into(), detail, retry_in }
    }
}

/// A submitter of a node, with the kinds that go to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubmitterInfo {
    /// Its name; `local` for the handlers of the node.
    pub name: String,
    /// Kinds whose jobs go to it.
    pub kinds: Vec<Name>,
    /// Jobs that are with it now, from this node.
    pub in_flight: u32,
    /// Jobs that may be with it at once, from this node.
    pub capacity: u32,
    /// Its state.
    pub status: SubmitterStatus,
    /// It is no submitter but a host that handlers of the kind `http` call, and whose breaker is not closed.
    pub is_host: bool,
}

/// All submitters of a node.
pub(crate) fn of_node(shared: &Shared) -> Vec<SubmitterInfo> {
    let kinds = |to: &dyn Fn(&Destination) -> bool| kinds_of(shared, to);
    let mut all = vec![SubmitterInfo {
        name: "local".to_owned(),
        kinds: kinds(&|to| *to == Destination::Local),
        in_flight: shared.running.count_here(),
        capacity: shared.tunable().slots,
        status: SubmitterStatus::ready("handlers of this node"),
        is_host: false,
    }];
    let inline = kinds(&|to| *to == Destination::Inline);
    if !inline.is_empty() {
        all.push(SubmitterInfo {
            name: "inline".to_owned(),
            kinds: inline,
            in_flight: 0,
            capacity: 0,
            status: SubmitterStatus::ready("the caller that enqueues"),
            is_host: false,
        });
    }
    all.extend(registered(shared));
    all.extend(suspended_hosts(shared));
    let polls = shared.polls.count();
    let mut pulled = kinds(&|to| *to == Destination::Pull);
    let wanted = shared.polls.wanted();
    pulled.extend(wanted.keys().filter(|kind| !pulled.contains(kind)).cloned().collect::<Vec<_>>());
    all.push(SubmitterInfo {
        name: "pull".to_owned(),
        kinds: pulled,
        in_flight: 0,
        capacity: wanted.values().fold(0, |sum, slots| sum.saturating_add(*slots)),
        status: SubmitterStatus::ready(format!("remote workers; {polls} wait here")),
        is_host: false,
    });
    all
}

/// The submitters that the program has registered.
pub(crate) fn registered(shared: &Shared) -> impl Iterator<Item = SubmitterInfo> {
    shared.routing.submitters.values().map(|to| SubmitterInfo {
        name: to.name.to_string(),
        kinds: kinds_of(shared, &|of| *of == Destination::Submitter(to.name.clone())),
        in_flight: shared.running.count_of(&to.name),
        capacity: to.capacity(),
        status: to.status(),
        is_host: false,
    })
}

/// Hosts whose breaker is not closed: jobs of the kind `http` for them wait.
#[cfg(feature = "outbound")]
pub(crate) fn suspended_hosts(shared: &Shared) -> Vec<SubmitterInfo> {
    use crate::outbound::{BreakerState, BreakerStatus, Outbound, http};
    let outbound = shared.states.get(&std::any::TypeId::of::<Outbound>());
    let Some(outbound) = outbound.and_then(|state| state.downcast_ref::<Outbound>()) else {
        return Vec::new();
    };
    let is_http = |kind: &&Name| kind.as_str() == http::KIND;
    let kinds: Vec<Name> = shared.kinds.keys().filter(is_http).cloned().collect();
    let info = |host: BreakerStatus| SubmitterInfo {
        name: format!("host {}", host.host),
        kinds: kinds.clone(),
        in_flight: 0,
        capacity: u32::from(host.state == BreakerState::HalfOpen),
        status: SubmitterStatus::not_ready(
            "calls of the kind http",
            format!("breaker {}", host.state),
            Some(host.failures_in_words()),
            host.retry_in,
        ),
        is_host: true,
    };
    outbound.suspended_hosts().into_iter().take(HOSTS_MAX).map(info).collect()
}

/// Without the feature, nothing calls hosts.
#[cfg(not(feature = "outbound"))]
pub(crate) fn suspended_hosts(_: &Shared) -> Vec<SubmitterInfo> {
    Vec::new()
}

fn kinds_of(shared: &Shared, to: &dyn Fn(&Destination) -> bool) -> Vec<Name> {
    let kinds = shared.kinds.iter().filter(|(_, kind)| to(&kind.destination));
    let mut kinds: Vec<Name> = kinds.map(|(name, _)| name.clone()).collect();
    kinds.sort_unstable();
    kinds
}

//! What a node reports about its submitters with each heartbeat, so that other nodes can show it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::node::Shared;
use crate::submitters::SubmitterStatus;
use crate::submitters::status::SubmitterInfo;

/// The key of the submitters in the report of a node, beside the names of its loops.
pub(crate) const SUBMITTERS: &str = "submitters";
/// Submitters that a node reports, and bytes of each text: a heartbeat must stay small.
const REPORTED_MAX: usize = 100;
const TEXT_BYTES_MAX: usize = 200;

/// A submitter, as a node saw it at its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReportedSubmitter {
    /// Its name.
    pub name: String,
    /// Where it sends jobs.
    pub target: String,
    /// `ready`, or why it takes nothing.
    pub state: String,
    /// More about the state, such as the last error.
    pub detail: Option<String>,
    /// When it tries again, in milliseconds from the heartbeat.
    pub retry_in_ms: Option<u64>,
    /// Jobs that are with it, from that node.
    pub in_flight: u32,
    /// Jobs that may be with it at once, from that node; 0: it takes none.
    pub capacity: u32,
    /// It is no submitter but a host that handlers of the kind `http` call, and whose breaker is not closed.
    #[serde(default)]
    pub is_host: bool,
}

impl ReportedSubmitter {
    fn of(info: SubmitterInfo) -> ReportedSubmitter {
        let SubmitterStatus { target, state, detail, retry_in } = info.status;
        let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        ReportedSubmitter {
            name: info.name,
            target: cut(target),
            state: cut(state),
            detail: detail.map(cut),
            retry_in_ms: retry_in.map(millis),
            in_flight: info.in_flight,
            capacity: info.capacity,
            is_host: info.is_host,
        }
    }

    /// The submitters in the report of a node.
    pub(crate) fn all(report: &str) -> Vec<ReportedSubmitter> {
        let report: serde_json::Value = serde_json::from_str(report).unwrap_or_default();
        Vec::deserialize(&report[SUBMITTERS]).unwrap_or_default()
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

/// The submitters that the program has registered with this node, and hosts that are suspended.
pub(crate) fn of_node(shared: &Shared) -> Vec<ReportedSubmitter> {
    let all = super::status::registered(shared).chain(super::status::suspended_hosts(shared));
    all.take(REPORTED_MAX).map(ReportedSubmitter::of).collect()
}

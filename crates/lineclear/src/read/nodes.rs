//! Nodes, remote workers and submitters.

use lineclear_model::Micros;
use lineclear_model::explain::HolderRole;

use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::read::PAGE_MAX;
use crate::store::{NodeId, Store, StoreResult};
use crate::submitters::ReportedSubmitter;

/// A node in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Unique for each start.
    pub incarnation: String,
    /// The version of the program.
    pub version: String,
    /// Its roles, as a JSON list.
    pub roles: String,
    /// The routes it serves, as a JSON list.
    pub routes: String,
    /// The kinds it runs, as a JSON list; `None`: its version does not report them.
    pub kinds: Option<String>,
    /// Jobs it runs at once.
    pub slots: u32,
    /// The status of its loops, as JSON: cycles, failures, the last error, and the time since the last cycle.
    pub runners: String,
    /// When it started.
    pub started_at: Micros,
    /// Its last heartbeat, on the database's clock.
    pub seen_at: Micros,
    /// When it was told to drain; `None`: it takes work.
    pub drain_at: Option<Micros>,
    /// Who told it to drain.
    pub drain_by: Option<String>,
    /// It has confirmed that it takes no more work.
    pub takes_nothing: bool,
    /// Jobs that it holds now.
    pub holds: u64,
    /// The database's clock.
    pub now: Micros,
}

/// A node without a heartbeat for this long is silent, in microseconds.
const SILENT_AFTER: i64 = 30_000_000;

/// A submitter that nodes have registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitterView {
    /// Holds the leases of the jobs that it has accepted.
    pub id: NodeId,
    /// Its name, which is also its route.
    pub name: String,
    /// Where it sends jobs, as the node that started last says.
    pub target: String,
    /// When a node with it started last.
    pub registered_at: Micros,
    /// Accepted jobs that have not ended.
    pub holds: u64,
}

impl NodeView {
    /// How far its clock is ahead of the database's, by its last measurement; `None`: it has not reported one.
    pub fn clock_skew_ms(&self) -> Option<i64> {
        let report: serde_json::Value = serde_json::from_str(&self.runners).ok()?;
        report["clock"]["skew_ms"].as_i64()
    }

    /// Whether it is a remote worker: it gets its jobs from nodes, and has no loops.
    pub fn is_worker(&self) -> bool {
        HolderRole::of_roles(&self.roles) == HolderRole::Worker
    }

    /// Whether its last heartbeat is recent.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state(), "silent" | "lost")
    }

    /// Its submitters, as of its last heartbeat.
    pub fn submitters(&self) -> Vec<ReportedSubmitter> {
        ReportedSubmitter::all(&self.runners)
    }

    /// `alive`, `draining`, `drained` (it holds no jobs), `silent`, or `lost` (silent while it holds jobs).
    pub fn state(&self) -> &'static str {
        match (self.now.get() - self.seen_at.get(), self.drain_at) {
            (SILENT_AFTER.., _) if self.holds > 0 => "lost",
            (SILENT_AFTER.., _) => "silent",
            (_, Some(_)) if self.takes_nothing && self.holds == 0 => "drained",
            (_, Some(_)) => "draining",
            (_, None) => "alive",
        }
    }
}

impl Store {
    /// Submitters that nodes have registered, by name. Nodes report their state: [`NodeView::submitters`].
    pub async fn submitters(&self, most: u32) -> StoreResult<Vec<SubmitterView>> {
        let of = |row: &Row| {
            Ok(SubmitterView {
                id: NodeId(row.get("id")?),
                name: row.get("name")?,
                target: row.get("target")?,
                registered_at: row.get("registered_at")?,
                holds: row.get("holds")?,
            })
        };
        self.db.read(Query::each(Statement::ListSubmitters, values![most.clamp(1, PAGE_MAX)], of)).await
    }

    /// Nodes, the last seen first; after them remote workers, the last seen first.
    pub async fn nodes(&self, most: u32) -> StoreResult<Vec<NodeView>> {
        let of = |row: &Row| {
            Ok(NodeView {
                id: NodeId(row.get("id")?),
                name: row.get("name")?,
                host: row.get("host")?,
                pid: row.get("pid")?,
                incarnation: row.get("incarnation")?,
                version: row.get("version")?,
                roles: row.get("roles")?,
                routes: row.get("routes")?,
                kinds: row.get("kinds")?,
                slots: row.get("slots")?,
                runners: row.get("runners")?,
                started_at: row.get("started_at")?,
                seen_at: row.get("seen_at")?,
                drain_at: row.get("drain_at")?,
                drain_by: row.get("drain_by")?,
                takes_nothing: row.get("takes_nothing")?,
                holds: row.get("holds")?,
                now: row.get("now")?,
            })
        };
        self.db.read(Query::each(Statement::ListNodes, values![most.clamp(1, PAGE_MAX), true], of)).await
    }
}

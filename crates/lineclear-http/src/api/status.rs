//! Status: an overview, and whether the cluster is healthy.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use lineclear_model::doctor::{self, DatabaseCondition, HealthFacts, Leader, NodeState};
use serde::Serialize;
use utoipa::ToSchema;

use super::doctor::DoctorCheck;
use super::stats::BoundedCount;
use crate::App;
use crate::api::json_types::{Id, time};
use crate::problem::Problem;

/// Nodes in the response.
const NODES_MAX: usize = 100;
/// Late jobs that the checks explain.
const EXPLAINED: u32 = 5;

/// The status of the cluster.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusResponse {
    /// At least one node is alive, and no check of nodes, jobs and manifests failed.
    healthy: bool,
    /// The database, as the node of this server sees it.
    database: StatusDatabase,
    /// Checks with warnings or failures.
    problems: Vec<DoctorCheck>,
    /// The node that planned last. Leadership is not exclusive: the winner of a planning cycle leads.
    leader: Option<StatusLeader>,
    /// Nodes with a heartbeat in the last 30 seconds.
    alive: u64,
    /// Nodes that stopped or went silent in the last day.
    silent: u64,
    /// The slots of all live nodes.
    slots: u64,
    /// Remote workers that were heard of in the last 30 seconds. Those that have left are not counted.
    workers: u64,
    /// The slots of those workers.
    worker_slots: u64,
    /// Up to 100 nodes, last seen first.
    nodes: Vec<StatusNode>,
    /// Waiting jobs.
    waiting: BoundedCount,
    /// Waiting jobs that a worker could claim now.
    due: BoundedCount,
    /// Running jobs.
    running: BoundedCount,
    /// How long the oldest waiting job has been due.
    oldest_waiting_ms: Option<i64>,
    /// Awaiting dead letters.
    dead_letters: BoundedCount,
    /// Manifests that have been due for a minute and are not planned.
    late_manifests: BoundedCount,
    at: String,
}

/// The condition of the database.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusDatabase {
    /// `ok`, `read_only`, `full`, `locked`, `denied` or `storage`; one that is `unreachable` or `silent` is a problem (503).
    state: &'static str,
    /// Since when.
    since: String,
    /// What it does, in one sentence.
    message: String,
}

impl StatusDatabase {
    fn of(condition: &DatabaseCondition) -> StatusDatabase {
        let (state, message) = (condition.state.as_str(), condition.sentence());
        StatusDatabase { state, since: time(condition.since), message }
    }
}

/// The node that plans.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusLeader {
    node: String,
    machine: String,
    pid: u32,
    /// Since when no other node has led.
    since: String,
    /// Its last renewal.
    renewed_at: String,
    /// Whether it is alive: it has not stopped, and has not missed three heartbeats.
    live: bool,
}

/// A summary of a node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusNode {
    id: Id,
    name: String,
    host: String,
    version: String,
    /// `alive`, `draining` (takes no new jobs), `silent` (stopped, or no heartbeat for 30 seconds) or `lost` (silent while it holds jobs).
    state: &'static str,
    roles: Vec<String>,
    slots: u32,
    seen_at: String,
}

impl StatusLeader {
    fn of(leader: Leader, now: lineclear_model::Micros) -> StatusLeader {
        StatusLeader {
            live: leader.is_live(now),
            node: leader.node,
            machine: leader.machine,
            pid: leader.pid,
            since: time(leader.since),
            renewed_at: time(leader.renewed_at),
        }
    }
}

impl StatusNode {
    fn of(node: NodeState) -> StatusNode {
        StatusNode {
            id: Id::of(node.id),
            state: if node.live && node.drains {
                "draining"
            } else if node.live {
                "alive"
            } else if node.abandoned > 0 {
                "lost"
            } else {
                "silent"
            },
            name: node.name,
            host: node.host,
            version: node.version,
            roles: node.roles,
            slots: node.slots,
            seen_at: time(node.seen_at),
        }
    }
}

/// Returns the leader, the nodes, current counts, and the problems with what to do about them. The cost does not grow with the number of
/// jobs.
#[utoipa::path(
    get, path = "/status", operation_id = "status", tag = "stats",
    security(("token" = ["read"])),
    responses((status = 200, body = StatusResponse),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn status(state: State<App>) -> Result<Json<StatusResponse>, Problem> {
    let condition = state.reading.database_condition().await;
    if condition.state.is_lost() {
        return Err(Problem::database(&condition));
    }
    let facts = state.reading.health_facts(EXPLAINED).await?;
    let migrations = state.reading.check_migrations().await;
    Ok(Json(answer(facts, &condition, migrations)))
}

fn answer(facts: HealthFacts, condition: &DatabaseCondition, migrations: doctor::Check) -> StatusResponse {
    // A database that cannot be written explains what follows: nodes that seem to be silent, jobs that wait.
    let database = vec![doctor::condition(condition, Timestamp::now().into()), migrations];
    let late = doctor::late(&facts);
    let mut checks = [database, doctor::nodes(&facts), doctor::work(&facts), vec![late]].concat();
    let alive = facts.nodes.iter().filter(|node| node.live).count() as u64;
    let healthy = alive > 0 && doctor::is_healthy(&checks);
    checks.retain(doctor::Check::is_trouble);
    let (now, slots) = (facts.now, facts.slots());
    StatusResponse {
        healthy,
        database: StatusDatabase::of(condition),
        problems: checks.into_iter().map(DoctorCheck::of).collect(),
        leader: facts.leader.map(|leader| StatusLeader::of(leader, now)),
        alive,
        silent: facts.nodes.len() as u64 - alive,
        slots,
        workers: facts.workers,
        worker_slots: facts.worker_slots,
        waiting: BoundedCount::of(facts.waiting),
        due: BoundedCount::of(facts.due),
        running: BoundedCount::of(facts.running),
        oldest_waiting_ms: facts.oldest_due_at.map(|due| (now.get() - due.get()).max(0) / 1_000),
        dead_letters: BoundedCount::of(facts.dead_letters),
        late_manifests: BoundedCount::of(facts.trouble.late),
        nodes: facts.nodes.into_iter().take(NODES_MAX).map(StatusNode::of).collect(),
        at: time(now),
    }
}

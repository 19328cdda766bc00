//! Status: all that one screen needs, and whether it is well.

use axum::Json;
use axum::extract::State;
use lineclear_model::doctor::{self, HealthFacts, Leader, NodeState};
use serde::Serialize;
use utoipa::ToSchema;

use super::checks::CheckShape;
use super::shape::{Id, time};
use super::stats::Figure;
use crate::App;
use crate::problem::Problem;

/// Nodes that are shown at most.
const NODES_MAX: usize = 100;
/// Late jobs that are explained.
const EXPLAINED: u32 = 5;

/// How things stand, and whether that is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusAnswer {
    /// A node is alive, and no check of nodes, jobs and manifests failed.
    healthy: bool,
    /// Checks that somebody should look at.
    problems: Vec<CheckShape>,
    /// The node that planned last. Nothing waits for it: whoever wins a planning cycle leads.
    leader: Option<LeaderShape>,
    /// Nodes that were heard of in the last 30 seconds.
    alive: u64,
    /// Nodes that stopped or went silent within the last day.
    silent: u64,
    /// Jobs that the live nodes together run at once.
    slots: u64,
    /// Nodes, last seen first; a hundred at most.
    nodes: Vec<StatusNode>,
    /// Jobs that wait, for whatever.
    waiting: Figure,
    /// Those of them that could be taken now, if there were room.
    due: Figure,
    /// Jobs that run.
    running: Figure,
    /// How long the first in line has been due.
    oldest_waiting_ms: Option<i64>,
    /// Dead letters that await a person.
    dead_letters: Figure,
    /// Manifests that were due a minute ago, and were not planned.
    late_manifests: Figure,
    at: String,
}

/// Who leads the planning.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaderShape {
    node: String,
    machine: String,
    pid: u32,
    /// From when on no other node has led.
    since: String,
    /// When it last said so.
    renewed_at: String,
    /// It has not stopped, and has not missed three heartbeats.
    live: bool,
}

/// A node, in short.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusNode {
    id: Id,
    name: String,
    host: String,
    version: String,
    /// `alive`, `draining` (told to take nothing new), `silent` (stopped, or not heard of for 30 seconds) or `lost` (silent, with jobs in its hands).
    state: &'static str,
    roles: Vec<String>,
    slots: u32,
    seen_at: String,
}

impl LeaderShape {
    fn of(leader: Leader, now: lineclear_model::Micros) -> LeaderShape {
        LeaderShape {
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

/// Who leads, who is alive, what waits, runs and is late; and whether that is well, with what to do where it is not. Costs the same with
/// a million jobs as with ten thousand.
#[utoipa::path(
    get, path = "/status", operation_id = "status", tag = "stats",
    security(("token" = ["read"])),
    responses((status = 200, body = StatusAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn status(state: State<App>) -> Result<Json<StatusAnswer>, Problem> {
    Ok(Json(answer(state.reading.health_facts(EXPLAINED).await?)))
}

fn answer(facts: HealthFacts) -> StatusAnswer {
    let mut checks = [doctor::nodes(&facts), doctor::work(&facts), vec![doctor::late(&facts)]].concat();
    let alive = facts.nodes.iter().filter(|node| node.live).count() as u64;
    let healthy = alive > 0 && doctor::is_healthy(&checks);
    checks.retain(doctor::Check::is_trouble);
    let (now, slots) = (facts.now, facts.slots());
    StatusAnswer {
        healthy,
        problems: checks.into_iter().map(CheckShape::of).collect(),
        leader: facts.leader.map(|leader| LeaderShape::of(leader, now)),
        alive,
        silent: facts.nodes.len() as u64 - alive,
        slots,
        waiting: Figure::of(facts.waiting),
        due: Figure::of(facts.due),
        running: Figure::of(facts.running),
        oldest_waiting_ms: facts.oldest_due_at.map(|due| (now.get() - due.get()).max(0) / 1_000),
        dead_letters: Figure::of(facts.dead_letters),
        late_manifests: Figure::of(facts.trouble.late),
        nodes: facts.nodes.into_iter().take(NODES_MAX).map(StatusNode::of).collect(),
        at: time(now),
    }
}

//! Reads the facts that tell whether nodes, jobs and manifests are healthy. The model draws the conclusions.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use lineclear_model::Micros;
use lineclear_model::doctor::{HealthFacts, Leader, NodeState, NotChecked, Overdue, Trouble};
use lineclear_model::explain::NodeFacts;

use crate::db::statements::Statement;
use crate::db::{Row, Session, Verb, values};
use crate::operate::explain;
use crate::operate::explain::{Explained, LOST_AFTER, NODES_MAX};
use crate::read::stats::{COUNT_MAX, read_now};
use crate::store::{Store, StoreError, StoreResult};
use crate::submitters::ReportedSubmitter;

/// A job or tick is late if it is due for this long. Nodes poll once a second.
const LATE: Duration = Duration::from_secs(60);
/// A lease is abandoned if it expired this long ago. Nodes reclaim once a second.
const ABANDONED: Duration = Duration::from_secs(10);
/// The timeout of a statement.
const STATEMENT_TIMEOUT: &str = "2s";
/// Claims that are read to see which routes progress, the last ones first.
const MOVES_MAX: i64 = 5_000;
/// The time for explaining late jobs: readers wait for two seconds.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Kinds that are named at most.
const KINDS_MAX: i64 = 20;

/// Reads nodes, counts and the leader. The other parts build on it.
struct ReadOverview;

/// Nodes, counts and the leader.
struct Overview {
    facts: HealthFacts,
    nodes: Vec<NodeFacts>,
}

/// Reads abandoned leases, unknown kinds and late jobs.
struct ReadTrouble(Vec<NodeFacts>);

/// Reads late jobs, each with an explanation, as far as the time allows.
struct ReadOverdue {
    explained: u32,
    nodes: Vec<NodeFacts>,
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// Limits the time of the transaction's statements, and forces index scans if `by_index`.
pub(crate) async fn set_statement_timeout(session: &mut Session, by_index: bool) -> StoreResult<()> {
    session.rows(Statement::SetStatementTimeout, values![STATEMENT_TIMEOUT, by_index]).await.map(drop)
}

impl Verb for ReadOverview {
    type Answer = Overview;

    async fn run(&self, session: &mut Session) -> StoreResult<Overview> {
        set_statement_timeout(session, true).await?;
        let now = read_now().run(session).await?;
        let rows = session.rows(Statement::ListNodes, values![NODES_MAX, false]).await?;
        let nodes = explain::nodes_of(&rows)?;
        let abandoned = abandoned(session).await?;
        let facts = HealthFacts {
            now: now.now,
            count_max: u64::from(COUNT_MAX),
            waiting: now.waiting,
            due: now.due,
            running: now.running,
            dead_letters: now.dead_letters,
            oldest_due_at: now.oldest_due_at,
            trouble: Trouble::default(),
            nodes: rows.iter().map(|row| node_of(row, &abandoned)).collect::<StoreResult<_>>()?,
            workers: now.workers,
            worker_slots: now.worker_slots,
            leader: leader(session).await?,
            overdue: Vec::new(),
            not_checked: NotChecked::default(),
        };
        Ok(Overview { facts, nodes })
    }
}

impl Verb for ReadTrouble {
    type Answer = Trouble;

    async fn run(&self, session: &mut Session) -> StoreResult<Trouble> {
        set_statement_timeout(session, true).await?;
        trouble(session, &self.0).await
    }
}

impl Verb for ReadOverdue {
    type Answer = Vec<Overdue>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Overdue>> {
        set_statement_timeout(session, true).await?;
        overdue(session, i64::from(self.explained), &self.nodes).await
    }
}

/// A part that timed out records why, and does not fail the others.
fn or_not_checked<T: Default>(part: StoreResult<T>, not_checked: &mut Option<String>) -> StoreResult<T> {
    match part {
        Err(
            error @ (StoreError::Unavailable { .. }
            | StoreError::Contended { .. }
            | StoreError::Locked { .. }),
        ) => {
            *not_checked = Some(error.to_string());
            Ok(T::default())
        }
        other => other,
    }
}

async fn trouble(session: &mut Session, nodes: &[NodeFacts]) -> StoreResult<Trouble> {
    let leases = session.rows(Statement::HealthTrouble, values![COUNT_MAX, micros(ABANDONED)]).await?;
    let late = session.rows(Statement::HealthTrouble, values![COUNT_MAX, micros(LATE)]).await?;
    let (leases, late) =
        leases.first().zip(late.first()).ok_or_else(|| crate::error::no_answer("health_trouble"))?;
    let kinds = session.rows(Statement::HealthUnknownKinds, values![KINDS_MAX]).await?;
    let mut kinds: Vec<String> = kinds.iter().map(|row| row.get("kind")).collect::<StoreResult<_>>()?;
    // A node that has a handler for a kind unparks its jobs with its next heartbeat.
    kinds.retain(|kind| !nodes.iter().any(|node| runs(node, kind)));
    let next_due_at: Option<Micros> = late.get("next_due_at")?;
    Ok(Trouble {
        leases_over: leases.get("leases_over")?,
        lease_over_at: leases.get("lease_over_at")?,
        unknown: if kinds.is_empty() { 0 } else { late.get("unknown")? },
        unknown_kinds: kinds,
        dead_at: late.get("dead_at")?,
        late: late.get("late")?,
        late_since: next_due_at,
        has_ticks: next_due_at.is_some(),
    })
}

fn runs(node: &NodeFacts, kind: &str) -> bool {
    node.live
        && node.works
        && !node.drains
        && node.kinds.as_ref().is_some_and(|kinds| kinds.iter().any(|own| own == kind))
}

/// The number of abandoned leases, by node.
async fn abandoned(session: &mut Session) -> StoreResult<HashMap<i64, u64>> {
    let rows = session.rows(Statement::HealthAbandoned, values![COUNT_MAX, micros(ABANDONED)]).await?;
    rows.iter().map(|row| Ok((row.get("node")?, row.get("jobs")?))).collect()
}

fn node_of(row: &Row, abandoned: &HashMap<i64, u64>) -> StoreResult<NodeState> {
    let (id, seen_at, now): (i64, Micros, Micros) = (row.get("id")?, row.get("seen_at")?, row.get("now")?);
    let runners: HashMap<String, serde_json::Value> =
        serde_json::from_str(&row.get::<String>("runners")?).unwrap_or_default();
    let failing =
        |(name, report): (String, serde_json::Value)| Some((name, report["error"].as_str()?.to_owned()));
    let mut failing: Vec<(String, String)> = runners.into_iter().filter_map(failing).collect();
    failing.sort();
    Ok(NodeState {
        id,
        name: row.get("name")?,
        host: row.get("host")?,
        version: row.get("version")?,
        roles: serde_json::from_str(&row.get::<String>("roles")?).unwrap_or_default(),
        slots: row.get("slots")?,
        live: seen_at.offset(micros(LOST_AFTER)) > now,
        drains: row.get::<Option<Micros>>("drain_at")?.is_some(),
        seen_at,
        failing,
        blocked_submitters: blocked_submitters(&row.get::<String>("runners")?),
        abandoned: abandoned.get(&id).copied().unwrap_or(0),
    })
}

/// Submitters of a node that take no jobs, and why.
fn blocked_submitters(report: &str) -> Vec<(String, String)> {
    // A host that fails holds up its own jobs only.
    let is_blocked = |submitter: &ReportedSubmitter| submitter.capacity == 0 && !submitter.is_host;
    let blocked = ReportedSubmitter::all(report).into_iter().filter(is_blocked);
    let why = |submitter: ReportedSubmitter| {
        let detail = submitter.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        (submitter.name, format!("{}{detail}", submitter.state))
    };
    blocked.map(why).collect()
}

async fn leader(session: &mut Session) -> StoreResult<Option<Leader>> {
    let rows = session.rows(Statement::HealthLeader, values![]).await?;
    let of = |row: &Row| {
        Ok(Leader {
            node: row.get("node")?,
            machine: row.get("machine")?,
            pid: row.get("pid")?,
            since: row.get("since_at")?,
            renewed_at: row.get("renewed_at")?,
            renew_ms: row.get("renew_ms")?,
            released_at: row.get("released_at")?,
        })
    };
    rows.first().map(of).transpose()
}

/// Late jobs, of each lane and route in turn, each with the first closed gate.
async fn overdue(session: &mut Session, most: i64, nodes: &[NodeFacts]) -> StoreResult<Vec<Overdue>> {
    let rows = session.rows(Statement::HealthOverdue, values![micros(LATE), most]).await?;
    let mut overdue = Vec::new();
    let mut lanes = Vec::new();
    let begun = Instant::now();
    for row in &rows {
        // A few are enough; this part must not take longer than the caller waits.
        if begun.elapsed() > EXPLAIN_TIMEOUT {
            break;
        }
        let job: i64 = row.get("id")?;
        // It was claimed in the meantime.
        let explained = explain::explain_with(session, job, nodes.to_vec()).await?;
        let Some(Explained { explanation, free }) = explained else { continue };
        let closed = explanation.gates.iter().find(|gate| gate.open == Some(false));
        let gate = closed.map(|gate| gate.name);
        let (kind, route): (String, String) = (row.get("kind")?, row.get("route")?);
        let (due_at, why) = (row.get("due_at")?, explanation.verdict);
        overdue.push(Overdue { job, due_at, gate, why, free, moves: false });
        lanes.push((kind, route));
    }
    if overdue.iter().any(|job| job.gate.is_none()) {
        mark_moving(session, &mut overdue, &lanes).await?;
    }
    Ok(overdue)
}

/// Marks late jobs whose route progresses: a job of the route was claimed recently, or one of a kind that waits there has ended.
async fn mark_moving(
    session: &mut Session,
    overdue: &mut [Overdue],
    lanes: &[(String, String)],
) -> StoreResult<()> {
    let rows = session.rows(Statement::HealthMoves, values![micros(LATE), MOVES_MAX]).await?;
    let (mut routes, mut kinds): (HashSet<String>, HashSet<String>) = Default::default();
    for row in &rows {
        let word = row.get("word")?;
        match row.get::<String>("what")?.as_str() {
            "route" => routes.insert(word),
            _ => kinds.insert(word),
        };
    }
    let moving = lanes.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, route)| route.clone());
    routes.extend(moving);
    for (job, (_, route)) in overdue.iter_mut().zip(lanes) {
        job.moves = routes.contains(route);
    }
    Ok(())
}

impl Store {
    /// The facts that tell whether nodes, jobs and manifests are healthy, with at most `explained` late jobs explained. Each part
    /// has its own timeout; the facts name the parts that were not checked.
    pub async fn health_facts(&self, explained: u32) -> StoreResult<HealthFacts> {
        let Overview { mut facts, nodes } = self.db.read(ReadOverview).await?;
        let trouble = self.db.read(ReadTrouble(nodes.clone())).await;
        facts.trouble = or_not_checked(trouble, &mut facts.not_checked.trouble)?;
        let overdue = self.db.read(ReadOverdue { explained, nodes }).await;
        facts.overdue = or_not_checked(overdue, &mut facts.not_checked.overdue)?;
        Ok(facts)
    }
}

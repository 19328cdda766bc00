//! condition: how nodes, jobs and manifests stand, as far as that tells whether they are well. Only looks; what follows is the
//! model's to say.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use lineclear_model::Micros;
use lineclear_model::doctor::{HealthFacts, Leader, NodeState, NotChecked, Overdue, Trouble};
use lineclear_model::explain::NodeFacts;

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::operate::explain;
use crate::operate::explain::{LOST_AFTER, NODES_MAX};
use crate::read::stats::{COUNT_MAX, ReadNow};
use crate::store::{Store, StoreError, StoreResult};

/// What came due this long ago, and was not taken, is late. Nodes look for work once a second.
const LATE: Duration = Duration::from_secs(60);
/// A lease that ran out this long ago is left lying. Nodes look for those once a second, too.
const LEFT: Duration = Duration::from_secs(10);
/// Longest time of a statement.
const WITHIN: &str = "2s";
/// Claims that are looked at for what gets on, last ones first.
const MOVES_MAX: i64 = 5_000;
/// Late jobs are explained so long: readers wait for two seconds.
const EXPLAIN_WITHIN: Duration = Duration::from_secs(1);
/// Kinds that are named.
const KINDS_MAX: i64 = 20;

/// Verb: who is there, how much waits, and who leads. The other parts build on it.
pub(crate) struct ReadStanding;

/// Who is there, and how much waits.
pub(crate) struct Standing {
    pub(crate) condition: HealthFacts,
    pub(crate) nodes: Vec<NodeFacts>,
}

/// Verb: what is not as it should be.
pub(crate) struct ReadTrouble(pub(crate) Vec<NodeFacts>);

/// Verb: so many jobs that are late, explained as far as there is time.
pub(crate) struct ReadOverdue {
    pub(crate) explained: u32,
    pub(crate) nodes: Vec<NodeFacts>,
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

fn int(value: i64) -> Value {
    Value::Int(Some(value))
}

/// What follows in the transaction ends in time, and goes by indexes if it must.
pub(crate) async fn within(session: &mut Session, by_index: bool) -> StoreResult<()> {
    let params = vec![Value::Text(Some(WITHIN.to_owned())), Value::Bool(by_index)];
    session.rows(Statement::SetStatementTimeout, params).await.map(drop)
}

impl Verb for ReadStanding {
    type Answer = Standing;

    async fn run(&self, session: &mut Session) -> StoreResult<Standing> {
        within(session, true).await?;
        let now = ReadNow.run(session).await?;
        let rows = session.rows(Statement::ListNodes, vec![int(NODES_MAX)]).await?;
        let nodes = explain::nodes_of(&rows)?;
        let abandoned = abandoned(session).await?;
        let condition = HealthFacts {
            now: now.now,
            count_max: u64::from(COUNT_MAX),
            waiting: now.waiting,
            due: now.due,
            running: now.running,
            dead_letters: now.dead_letters,
            oldest_due_at: now.oldest_due_at,
            trouble: Trouble::default(),
            nodes: rows.iter().map(|row| node_of(row, &abandoned)).collect::<StoreResult<_>>()?,
            leader: leader(session).await?,
            overdue: Vec::new(),
            not_checked: NotChecked::default(),
        };
        Ok(Standing { condition, nodes })
    }
}

impl Verb for ReadTrouble {
    type Answer = Trouble;

    async fn run(&self, session: &mut Session) -> StoreResult<Trouble> {
        within(session, true).await?;
        trouble(session, &self.0).await
    }
}

impl Verb for ReadOverdue {
    type Answer = Vec<Overdue>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Overdue>> {
        within(session, true).await?;
        overdue(session, i64::from(self.explained), &self.nodes).await
    }
}

/// A part that took too long leaves its sentence, and not the others without theirs.
pub(crate) fn or_unseen<T: Default>(part: StoreResult<T>, unseen: &mut Option<String>) -> StoreResult<T> {
    match part {
        Err(error @ (StoreError::Unavailable { .. } | StoreError::Contended { .. })) => {
            *unseen = Some(error.to_string());
            Ok(T::default())
        }
        other => other,
    }
}

async fn trouble(session: &mut Session, nodes: &[NodeFacts]) -> StoreResult<Trouble> {
    let count = i64::from(COUNT_MAX);
    let leases = session.rows(Statement::HealthTrouble, vec![int(count), int(micros(LEFT))]).await?;
    let late = session.rows(Statement::HealthTrouble, vec![int(count), int(micros(LATE))]).await?;
    let (leases, late) =
        leases.first().zip(late.first()).ok_or_else(|| crate::error::no_answer("health_trouble"))?;
    let kinds = session.rows(Statement::HealthUnknownKinds, vec![int(KINDS_MAX)]).await?;
    let mut kinds: Vec<String> = kinds.iter().map(|row| row.get("kind")).collect::<StoreResult<_>>()?;
    // A node that knows a kind brings its jobs back with its next heartbeat.
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

/// Jobs in the hands of nodes that do not renew them, by node.
async fn abandoned(session: &mut Session) -> StoreResult<HashMap<i64, u64>> {
    let rows =
        session.rows(Statement::HealthAbandoned, vec![int(i64::from(COUNT_MAX)), int(micros(LEFT))]).await?;
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
        abandoned: abandoned.get(&id).copied().unwrap_or(0),
    })
}

async fn leader(session: &mut Session) -> StoreResult<Option<Leader>> {
    let rows = session.rows(Statement::HealthLeader, Vec::<Value>::new()).await?;
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

/// Jobs that are late, of each line and route in turn, each with the first gate that is closed.
async fn overdue(session: &mut Session, most: i64, nodes: &[NodeFacts]) -> StoreResult<Vec<Overdue>> {
    let rows = session.rows(Statement::HealthOverdue, vec![int(micros(LATE)), int(most)]).await?;
    let mut overdue = Vec::new();
    let mut places = Vec::new();
    let begun = Instant::now();
    for row in &rows {
        // A few say enough; the whole part must not take longer than whoever asks waits for it.
        if begun.elapsed() > EXPLAIN_WITHIN {
            break;
        }
        let job: i64 = row.get("id")?;
        // Taken in the meantime.
        let Some(explanation) = explain::job(session, job, nodes.to_vec()).await? else { continue };
        let closed = explanation.gates.iter().find(|gate| gate.open == Some(false));
        let gate = closed.map(|gate| gate.name);
        let (kind, route): (String, String) = (row.get("kind")?, row.get("route")?);
        let serving = nodes.iter().filter(|node| !node.drains && node.serves(&kind, &route));
        let free = serving.map(|node| node.free).sum();
        let (due_at, why) = (row.get("due_at")?, explanation.verdict);
        overdue.push(Overdue { job, due_at, gate, why, free, moves: false });
        places.push((kind, route));
    }
    if overdue.iter().any(|job| job.gate.is_none()) {
        mark_moving(session, &mut overdue, &places).await?;
    }
    Ok(overdue)
}

/// Which of them are in a line that gets on: a job of its route was claimed lately, or one of a kind that waits there has ended.
async fn mark_moving(
    session: &mut Session,
    overdue: &mut [Overdue],
    places: &[(String, String)],
) -> StoreResult<()> {
    let rows = session.rows(Statement::HealthMoves, vec![int(micros(LATE)), int(MOVES_MAX)]).await?;
    let (mut routes, mut kinds): (HashSet<String>, HashSet<String>) = Default::default();
    for row in &rows {
        let word = row.get("word")?;
        match row.get::<String>("what")?.as_str() {
            "route" => routes.insert(word),
            _ => kinds.insert(word),
        };
    }
    let moving = places.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, route)| route.clone());
    routes.extend(moving);
    for (job, (_, route)) in overdue.iter_mut().zip(places) {
        job.moves = routes.contains(route);
    }
    Ok(())
}

impl Store {
    /// How nodes, jobs and manifests stand, with so many late jobs explained: what tells whether they are well. Each part has its own
    /// time, and what was not seen in it is said.
    pub async fn condition(&self, explained: u32) -> StoreResult<HealthFacts> {
        let Standing { condition: mut facts, nodes } = self.db.read(ReadStanding).await?;
        let trouble = self.db.read(ReadTrouble(nodes.clone())).await;
        facts.trouble = or_unseen(trouble, &mut facts.not_checked.trouble)?;
        let overdue = self.db.read(ReadOverdue { explained, nodes }).await;
        facts.overdue = or_unseen(overdue, &mut facts.not_checked.overdue)?;
        Ok(facts)
    }
}

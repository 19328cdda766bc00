//! Reads the facts that decide whether a job runs, or a manifest makes one. The model draws the conclusions.

use std::time::Duration;

use lineclear_model::explain::{
    DeadFacts, Explanation, Holder, JobFacts, JobManifest, LimitFacts, LiveJob, ManifestFacts, NodeFacts,
    ParentFacts, SubmitterFacts, explain_job, explain_manifest,
};
use lineclear_model::{DeadReason, ExecutionOutcome, JobState, Micros, Name, Origin};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Verb, values};
use crate::journey::submit::routes::is_pull_route;
use crate::journey::submit::workers::WORKER_ROLE;
use crate::manifests::stored::manifest_of;
use crate::read::jobs::holder_role;
use crate::store::{JobId, Store, StoreError, StoreResult};
use crate::submitters::ReportedSubmitter;

/// Jobs, nodes or dead letters that an explanation names at most.
const NAMED_MAX: i64 = 5;
/// Counting of active jobs stops here.
const COUNT_MAX: i64 = 100_000;
/// Nodes that are read at most, the last seen first.
pub(crate) const NODES_MAX: i64 = 1_000;
/// A node without a heartbeat for this long is lost.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(30);

/// Explains a job. Several statements, and no transaction: a reader must not hold locks.
struct ExplainJob(JobId);

impl Verb for ExplainJob {
    type Answer = Option<Explanation>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Explanation>> {
        let nodes = nodes(session).await?;
        Ok(explain_with(session, self.0.0, nodes).await?.map(|explained| explained.explanation))
    }
}

/// A job, explained.
pub(crate) struct Explained {
    pub(crate) explanation: Explanation,
    /// Jobs of its kind and route that live nodes and workers have room for.
    pub(crate) free: u64,
}

/// Explains a job, given the nodes.
pub(crate) async fn explain_with(
    session: &mut Session,
    id: i64,
    nodes: Vec<NodeFacts>,
) -> StoreResult<Option<Explained>> {
    let mut rows = session.rows(Statement::ExplainJob, values![id]).await?;
    if rows.is_empty() {
        // The job may have been moving between tables.
        rows = session.rows(Statement::ExplainJob, values![id]).await?;
    }
    let Some(row) = rows.first() else { return Ok(None) };
    let limits = Limits::read(session, row.get("group_id")?, row.get("limit_key")?).await?;
    let nodes = match row.get::<Option<String>>("route")? {
        Some(route) => nodes_of_route(session, &route, nodes).await?,
        None => nodes,
    };
    let facts = job_facts(row, limits, nodes)?;
    let route = facts.route.as_deref().unwrap_or_default();
    let serving = facts.nodes.iter().filter(|node| !node.drains && node.serves(&facts.kind, route));
    let free = serving.map(|node| node.room(route)).sum();
    Ok(Some(Explained { explanation: explain_job(&facts), free }))
}

fn job_facts(row: &Row, limits: Limits, nodes: Vec<NodeFacts>) -> StoreResult<JobFacts> {
    let word = |column| row.get::<Option<String>>(column);
    let node: Option<i64> = row.get("node")?;
    let name: Option<String> = row.get("node_name")?;
    let manifest = match row.get::<Option<String>>("manifest_key")? {
        Some(key) => Some(JobManifest { key, enabled: row.get("enabled")? }),
        None => None,
    };
    let dead = match row.get::<Option<i64>>("letter")? {
        Some(letter) => Some(DeadFacts {
            letter,
            reason: row.word("reason", DeadReason::from_word)?,
            acknowledged: word("status")?.as_deref() == Some("acknowledged"),
        }),
        None => None,
    };
    Ok(JobFacts {
        now: row.get("now")?,
        state: row.word("state", JobState::from_word)?,
        origin: row.word("origin", Origin::from_word)?,
        kind: row.get("kind")?,
        route: row.get("route")?,
        due_at: row.get("due_at")?,
        finished_at: row.get("finished_at")?,
        failures: row.get("failures")?,
        last_error: row.get("last_error")?,
        cancel_requested_at: row.get("cancel_requested_at")?,
        unknown_kind: row.get("unknown_kind")?,
        submitter: row.get("submitter")?,
        node: node.map(|id| (id, name)),
        holder: holder_role(row)?,
        external_id: row.get("external_id")?,
        claimed_at: row.get("claimed_at")?,
        lease_ends_at: row.get("lease_ends_at")?,
        outcome: word("outcome")?.as_deref().and_then(ExecutionOutcome::from_word),
        dead,
        manifest,
        group: limits.group,
        global: limits.global,
        key: limits.key,
        nodes,
    })
}

/// Explains a manifest.
struct ExplainManifest(Name);

impl Verb for ExplainManifest {
    type Answer = Option<Explanation>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Explanation>> {
        let rows = session.rows(Statement::ExplainManifest, values![&self.0]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let id: i64 = row.get("id")?;
        let waiting = session.rows(Statement::ExplainWaiting, values![id, NAMED_MAX]).await?;
        let limits = Limits::read(session, row.get("group_id")?, None).await?;
        let arrived: Vec<i64> = serde_json::from_str(&row.get::<String>("arrived")?).unwrap_or_default();
        let route: String = row.get("goes_to")?;
        let nodes = nodes(session).await?;
        let nodes = nodes_of_route(session, &route, nodes).await?;
        let mut facts = ManifestFacts {
            now: row.get("now")?,
            route,
            submitter: row.get("submitter")?,
            manifest: manifest_of(row).map_err(|bad| StoreError::refused("unreadable", bad.to_string()))?,
            held: row.get("held")?,
            next_due_at: row.get("next_due_at")?,
            live: Vec::new(),
            dead_letters: Vec::new(),
            parents: Vec::new(),
            group: limits.group,
            global: limits.global,
            nodes,
        };
        for row in &waiting {
            let id: i64 = row.get("id")?;
            match row.get::<String>("what")?.as_str() {
                "job" => facts.live.push(LiveJob {
                    job: id,
                    fresh: row.get("fresh")?,
                    state: row.word("state", JobState::from_word)?,
                    node: row.get("node_name")?,
                }),
                "dead_letter" => facts.dead_letters.push(id),
                _ => {
                    let arrived = arrived.contains(&id);
                    facts.parents.push(ParentFacts { key: row.get("key")?, arrived });
                }
            }
        }
        Ok(Some(explain_manifest(&facts)))
    }
}

/// The limits that apply to a job.
#[derive(Default)]
struct Limits {
    group: Option<LimitFacts>,
    global: Option<LimitFacts>,
    key: Option<LimitFacts>,
}

impl Limits {
    async fn read(session: &mut Session, group: Option<i64>, key: Option<String>) -> StoreResult<Limits> {
        let mut limits = Limits::default();
        let params = values![group, key, NAMED_MAX, COUNT_MAX];
        for row in session.rows(Statement::ExplainLimits, params).await? {
            let limit = match row.get::<String>("scope")?.as_str() {
                "group" => &mut limits.group,
                "global" => &mut limits.global,
                _ => &mut limits.key,
            };
            let facts = limit.get_or_insert(LimitFacts {
                name: row.get("name")?,
                enabled: row.get("enabled")?,
                limit: row.get("max_active")?,
                active: row.get("active")?,
                holders: Vec::new(),
            });
            if let Some(job) = row.get::<Option<i64>>("job")? {
                facts.holders.push(Holder { job, node: row.get("node_name")? });
            }
        }
        Ok(limits)
    }
}

async fn nodes(session: &mut Session) -> StoreResult<Vec<NodeFacts>> {
    let rows = session.rows(Statement::ListNodes, values![NODES_MAX, false]).await?;
    nodes_of(&rows)
}

/// The nodes that may serve a route: of a kind that is pulled, its remote workers.
async fn nodes_of_route(
    session: &mut Session,
    route: &str,
    nodes: Vec<NodeFacts>,
) -> StoreResult<Vec<NodeFacts>> {
    if !Name::new(route).is_ok_and(|route| is_pull_route(&route)) {
        return Ok(nodes);
    }
    let rows = session.rows(Statement::ExplainWorkers, values![route, NODES_MAX]).await?;
    nodes_of(&rows)
}

pub(crate) fn nodes_of(rows: &[Row]) -> StoreResult<Vec<NodeFacts>> {
    let words = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap_or_default();
    let lost_after = i64::try_from(LOST_AFTER.as_micros()).unwrap_or(i64::MAX);
    let of = |row: &Row| {
        let (seen, now): (Micros, Micros) = (row.get("seen_at")?, row.get("now")?);
        let runs_jobs = |role: &String| role == "workers" || role == WORKER_ROLE;
        let submitters = ReportedSubmitter::all(&row.get::<String>("runners")?);
        Ok(NodeFacts {
            name: row.get("name")?,
            live: seen.offset(lost_after) > now,
            drains: row.get::<Option<Micros>>("drain_at")?.is_some(),
            works: words(&row.get::<String>("roles")?).iter().any(runs_jobs),
            routes: words(&row.get::<String>("routes")?),
            kinds: row.get::<Option<String>>("kinds")?.as_deref().map(words),
            free: row.get::<u64>("slots")?.saturating_sub(row.get("holds")?),
            submitters: submitters.into_iter().map(|submitter| submitter_facts(submitter, seen)).collect(),
            seen_at: seen,
        })
    };
    rows.iter().map(of).collect()
}

fn submitter_facts(submitter: ReportedSubmitter, seen: Micros) -> SubmitterFacts {
    let micros = |ms: u64| i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
    SubmitterFacts {
        takes: submitter.capacity > 0,
        free: submitter.capacity.saturating_sub(submitter.in_flight).into(),
        retry_at: submitter.retry_in_ms.map(|ms| seen.offset(micros(ms))),
        name: submitter.name,
        state: submitter.state,
        detail: submitter.detail,
    }
}

impl Store {
    /// Explains why a job does not run, gate by gate, or how it ended. `None`: there is no such job, or its history was cleaned.
    pub async fn explain_job(&self, job: JobId) -> StoreResult<Option<Explanation>> {
        self.db.read(ExplainJob(job)).await
    }

    /// Explains why a manifest makes no job now, gate by gate, and whether the next one would run. `None`: there is no such
    /// manifest.
    pub async fn explain_manifest(&self, key: Name) -> StoreResult<Option<Explanation>> {
        self.db.read(ExplainManifest(key)).await
    }
}

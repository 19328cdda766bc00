//! claim: background_job, ready → leased.

pub(crate) mod isolation;
pub(crate) mod reclaim;
pub(crate) mod renew;
pub(crate) mod renewer;
pub(crate) mod take_back;

use std::time::Duration;

use lineclear_model::job::Origin;
use lineclear_model::{Backoff, DeadReason, Failure, Micros, Name, Outcome, Payload, Verdict};

use crate::db;
use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::journey::claim::renew::claim_columns;
use crate::journey::enqueue::insert::millis;
use crate::journey::settle::Settlement;
use crate::store::{BATCH, BATCH_MAX, ClaimRef, JobId, ManifestId, NodeId, Store, StoreResult};

/// A lease to acquire: the node and the length.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// The node that holds it.
    pub node: NodeId,
    /// How long it lasts unless it is renewed.
    pub length: Duration,
}

/// One worker's turn at a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The job.
    pub job: JobId,
    /// The number of this claim; it fences every write that follows.
    pub no: u32,
    /// The kind of work.
    pub kind: Name,
    /// The lane it came from.
    pub route: Name,
    /// What the handler gets.
    pub input: Payload,
    /// The manifest it stands for, if any.
    pub manifest: Option<ManifestId>,
    /// The tick it stands for, if any.
    pub tick_at: Option<Micros>,
    /// What made it.
    pub origin: Origin,
    /// The key whose limit it counts under.
    pub limit_key: Option<String>,
    /// How long to wait between tries, if its manifest says.
    pub backoff: Option<Backoff>,
    /// Tries after the first, if the job says.
    pub retries: Option<u32>,
    /// Longest run, if the job says.
    pub timeout: Option<Duration>,
    /// Tries that failed before.
    pub failures: u32,
    /// Workers that vanished before.
    pub crashes: u32,
    /// Trace context of the caller that enqueued it.
    pub trace: Option<String>,
    /// When it was due, on the database's clock.
    pub due_at: Micros,
    /// When it was claimed, on the database's clock.
    pub claimed_at: Micros,
    /// When the lease ends, on the database's clock.
    pub lease_ends_at: Micros,
}

impl Claim {
    /// The job and claim number, which later writes name.
    pub fn reference(&self) -> ClaimRef {
        ClaimRef { job: self.job, no: self.no }
    }

    /// The waits between tries. If they cannot be read, the kind decides.
    pub(crate) fn backoff(row: &Row) -> StoreResult<Option<Backoff>> {
        Ok(row.get::<Option<String>>("backoff")?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) fn of(row: &Row) -> StoreResult<Claim> {
        let timeout: Option<u64> = row.get("timeout_ms")?;
        Ok(Claim {
            job: JobId(row.get("id")?),
            no: row.get("claim_no")?,
            kind: row.word("kind", |kind| Name::new(kind).ok())?,
            route: row.word("route", |route| Name::new(route).ok())?,
            input: row.word("input", |input| Payload::parse(input).ok())?,
            manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
            tick_at: row.get("tick_at")?,
            origin: row.word("origin", Origin::from_word)?,
            limit_key: row.get("limit_key")?,
            backoff: Claim::backoff(row)?,
            retries: row.get("retries")?,
            timeout: timeout.map(Duration::from_millis),
            failures: row.get("failures")?,
            crashes: row.get("crashes")?,
            trace: row.get("trace")?,
            due_at: row.get("was_due_at")?,
            claimed_at: row.get("claimed_at")?,
            lease_ends_at: row.get("lease_ends_at")?,
        })
    }
}

/// Decodes claims from their rows; those that cannot be decoded become settlements that bury them.
pub(crate) fn read(rows: &[Row]) -> StoreResult<(Vec<Claim>, Vec<Settlement>)> {
    let mut claims = Vec::with_capacity(rows.len());
    let mut unreadable = Vec::new();
    for row in rows {
        match Claim::of(row) {
            Ok(claim) => claims.push(claim),
            Err(error) => unreadable.push(Settlement {
                claim: ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? },
                manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
                outcome: Outcome::DeadLetter(Failure::new("unreadable", error.to_string())),
                verdict: Verdict::Bury { reason: DeadReason::Permanent },
                note: None,
                ran: None,
            }),
        }
    }
    Ok((claims, unreadable))
}

/// Claims up to `most` jobs of a route that were dispatched without a lease.
pub(crate) fn claim_query(route: &Name, most: u32, lease: Lease) -> Query<Vec<Row>> {
    Query::rows(Statement::Claim, values![route, most, lease.node.0, millis(lease.length)])
}

/// The claims that a node holds according to the database, each as a settlement that releases it.
fn leases_of(node: NodeId) -> Query<Vec<Settlement>> {
    Query::each(Statement::LeasesOfNode, values![node.0], |row| {
        Ok(Settlement {
            claim: ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? },
            manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
            outcome: Outcome::Released,
            verdict: Verdict::Release,
            note: None,
            ran: None,
        })
    })
}

impl Store {
    /// Claims up to `most` jobs of a route that were dispatched without a lease.
    pub async fn claim(&self, route: Name, most: u32, lease: Lease) -> StoreResult<Vec<Claim>> {
        let rows = self.run(claim_query(&route, most.min(BATCH), lease)).await?;
        self.read_claims(&rows, lease.node).await
    }

    /// Marks a claim as started; its job's earlier workers vanished. From now on a crash is charged. False: the claim is lost.
    pub async fn mark_started(&self, claim: ClaimRef) -> StoreResult<bool> {
        self.run(Query::exists(Statement::MarkStarted, claim_columns(&[claim]))).await
    }

    /// Releases claims that `node` holds without knowing it, because the answer to a dispatch was lost; returns how many.
    pub(crate) async fn give_back_unknown(&self, node: NodeId, known: &[ClaimRef]) -> StoreResult<usize> {
        let mut unknown = self.db.read(leases_of(node)).await?;
        unknown.retain(|settlement| !known.contains(&settlement.claim));
        unknown.truncate(BATCH_MAX);
        let count = unknown.len();
        self.settle(node, unknown).await?;
        Ok(count)
    }

    /// Decodes claims from their rows. A row that cannot be read (another program wrote to our tables) is buried with the
    /// reason, and does not hold up the rest.
    pub(crate) async fn read_claims(&self, rows: &[db::Row], node: NodeId) -> StoreResult<Vec<Claim>> {
        let (claims, unreadable) = read(rows)?;
        if !unreadable.is_empty() {
            tracing::error!(jobs = ?unreadable, "jobs that cannot be read were buried");
            // The readable claims must run even if this settle fails: the leases of the others run out.
            if let Err(error) = self.settle(node, unreadable).await {
                tracing::warn!(%error, "jobs that cannot be read could not be buried");
            }
        }
        Ok(claims)
    }
}

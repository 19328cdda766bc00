//! renew: extends a lease.

use std::time::Duration;

use crate::db::statements::Statement;
use crate::db::{Column, Params, Query, Row, values};
use crate::journey::claim::Lease;
use crate::journey::enqueue::insert::millis;
use crate::store::{ClaimRef, JobId, Store, StoreResult};
use crate::validate;

/// The result of renewing a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Which claim.
    pub claim: ClaimRef,
    /// Whether it is still ours.
    pub status: RenewalStatus,
    /// A cancel of the job was requested.
    pub cancel_requested: bool,
}

/// Whether a lease is still ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalStatus {
    /// Ours, for another lease length.
    Renewed,
    /// Another transaction had the row locked; try again.
    Skipped,
    /// Another claim has the job, or it is over.
    Lost,
}

/// A claim whose lease is to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewing {
    pub(crate) claim: ClaimRef,
    /// How long after its start the job is reclaimed even from a worker that renews.
    pub(crate) deadline: Option<Duration>,
    /// For how long its handler has run; none: it has not begun.
    pub(crate) ran: Option<Duration>,
}

fn renewal(row: &Row) -> StoreResult<Renewal> {
    Ok(Renewal {
        claim: ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? },
        status: row.word("status", |word| match word {
            "renewed" => Some(RenewalStatus::Renewed),
            "skipped" => Some(RenewalStatus::Skipped),
            "lost" => Some(RenewalStatus::Lost),
            _ => None,
        })?,
        cancel_requested: row.get("cancel")?,
    })
}

/// Job ids and claim numbers as columns of a batch.
pub(crate) fn claim_columns(claims: &[ClaimRef]) -> Vec<Column> {
    vec![
        Column::Ints(claims.iter().map(|claim| Some(claim.job.0)).collect()),
        Column::Ints(claims.iter().map(|claim| Some(i64::from(claim.no))).collect()),
    ]
}

impl Store {
    /// Renews leases, all in one statement.
    pub async fn renew(&self, lease: Lease, claims: Vec<ClaimRef>) -> StoreResult<Vec<Renewal>> {
        let claims = claims.into_iter().map(|claim| Renewing { claim, deadline: None, ran: None }).collect();
        self.renew_until(lease, claims).await
    }

    /// Like [`Store::renew`], with a deadline for each claim.
    pub(crate) async fn renew_until(
        &self,
        lease: Lease,
        mut claims: Vec<Renewing>,
    ) -> StoreResult<Vec<Renewal>> {
        validate::check_batch(claims.len())?;
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        claims.sort_unstable_by_key(|renewing| (renewing.claim.job, renewing.claim.no));
        claims.dedup_by_key(|renewing| renewing.claim);
        let mut batch = claim_columns(&claims.iter().map(|renewing| renewing.claim).collect::<Vec<_>>());
        batch.push(Column::Ints(claims.iter().map(|renewing| renewing.deadline.map(millis)).collect()));
        batch.push(Column::Ints(claims.iter().map(|renewing| renewing.ran.map(millis)).collect()));
        let params = Params { values: values![lease.node.0, millis(lease.length)], batch };
        self.run(Query::each(Statement::Renew, params, renewal)).await
    }
}

//! take_back: a node that was taken for dead, and lives, takes back the crashes that its lost claims were charged with.
//!
//! No node can tell a machine that is paused from one that is dead, so the lease of a paused worker ends as a crash. When the worker is
//! back, its next renewal or result is refused; that is how it learns of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::db::statements::Statement;
use crate::db::{Params, Query, Row, values};
use crate::journey::claim::renew::claim_columns;
use crate::node::Shared;
use crate::store::{BATCH_MAX, ClaimRef, JobId, NodeId, Store, StoreResult};
use crate::validate;

/// How often a charge is tried to be taken back: the job's row may be locked, or on its way to another table.
const ATTEMPTS_MAX: u32 = 10;

/// What became of the charge of a lost claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// It was taken back.
    TakenBack,
    /// The job's row is locked; try again.
    Later,
    /// The claim was not charged, or its job is over.
    None,
}

/// Lost claims whose charges are to be taken back, and how often that was tried.
#[derive(Default)]
pub(crate) struct LateClaims(Mutex<HashMap<ClaimRef, u32>>);

impl LateClaims {
    fn claims(&self) -> MutexGuard<'_, HashMap<ClaimRef, u32>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn add(&self, claims: impl IntoIterator<Item = ClaimRef>) {
        let mut late = self.claims();
        for claim in claims {
            if late.len() < BATCH_MAX {
                late.entry(claim).or_default();
            }
        }
    }

    /// Those to try now; each that is tried too often is left out, and forgotten.
    fn next(&self) -> Vec<ClaimRef> {
        let mut late = self.claims();
        late.retain(|_, attempts| *attempts < ATTEMPTS_MAX);
        late.values_mut().for_each(|attempts| *attempts += 1);
        late.keys().copied().collect()
    }

    fn remove(&self, claim: ClaimRef) {
        self.claims().remove(&claim);
    }
}

/// Takes back the charges of claims that this node has lost although it lives. With the next heartbeat, it tries again what failed.
pub(crate) async fn take_back_charges(shared: &Shared) {
    let claims = shared.late_claims.next();
    if claims.is_empty() {
        return;
    }
    match shared.loop_store.take_back(shared.id, claims).await {
        Ok(charges) => {
            for (claim, charge) in charges.into_iter().filter(|(_, charge)| *charge != Charge::Later) {
                shared.late_claims.remove(claim);
                if charge == Charge::TakenBack {
                    tracing::warn!(node.id = %shared.id, job.id = %claim.job, claim.no = claim.no, "this node was taken for dead; the crash that the job was charged with is taken back");
                }
            }
        }
        Err(error) => {
            tracing::debug!(%error, node.id = %shared.id, "crashes that this node was charged with are not taken back yet");
        }
    }
}

fn charge(row: &Row) -> StoreResult<(ClaimRef, Charge)> {
    let claim = ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? };
    let charge = row.word("status", |word| match word {
        "taken_back" => Some(Charge::TakenBack),
        "later" => Some(Charge::Later),
        "none" => Some(Charge::None),
        _ => None,
    })?;
    Ok((claim, charge))
}

impl Store {
    /// Takes back the crashes that lost claims of a living node were charged with; returns what became of each.
    pub async fn take_back(
        &self,
        node: NodeId,
        mut claims: Vec<ClaimRef>,
    ) -> StoreResult<Vec<(ClaimRef, Charge)>> {
        validate::check_batch(claims.len())?;
        claims.sort_unstable_by_key(|claim| (claim.job, claim.no));
        claims.dedup();
        let params = Params { values: values![node.0], batch: claim_columns(&claims) };
        self.run(Query::each(Statement::TakeBack, params, charge)).await
    }
}

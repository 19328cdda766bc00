//! Leases that go from a node to a worker or a submitter.

use std::collections::HashSet;
use std::time::Duration;

use crate::db::statements::Statement;
use crate::db::{Column, Params, Query, values};
use crate::journey::claim::renew::claim_columns;
use crate::journey::enqueue::insert::millis;
use crate::store::{ClaimRef, JobId, NodeId, Store, StoreResult};

/// A lease that goes to another holder.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) claim: ClaimRef,
    pub(crate) holder: NodeId,
    pub(crate) lease: Duration,
    pub(crate) external_id: Option<String>,
}

impl Store {
    /// Transfers leases of `node` to workers, all in one statement; returns the claims that were transferred.
    pub(crate) async fn transfer_leases(
        &self,
        node: NodeId,
        transfers: &[Transfer],
    ) -> StoreResult<HashSet<ClaimRef>> {
        self.transfer(node, transfers, None).await
    }

    /// Transfers the lease of a job that a submitter has accepted, and that must end within `timeout` of its start. False: `node`
    /// still has it, because another transaction holds the row. A claim that its worker has settled by now needs no transfer.
    pub(crate) async fn hand_over(
        &self,
        node: NodeId,
        transfer: &Transfer,
        timeout: Duration,
    ) -> StoreResult<bool> {
        let moved = self.transfer(node, std::slice::from_ref(transfer), Some(timeout)).await?;
        Ok(!moved.is_empty() || self.holder(transfer.claim).await? != Some(node))
    }

    async fn transfer(
        &self,
        node: NodeId,
        transfers: &[Transfer],
        timeout: Option<Duration>,
    ) -> StoreResult<HashSet<ClaimRef>> {
        if transfers.is_empty() {
            return Ok(HashSet::new());
        }
        let claims: Vec<ClaimRef> = transfers.iter().map(|transfer| transfer.claim).collect();
        let mut batch = claim_columns(&claims);
        batch.extend([
            Column::Ints(transfers.iter().map(|transfer| Some(transfer.holder.0)).collect()),
            Column::Ints(transfers.iter().map(|transfer| Some(millis(transfer.lease))).collect()),
            Column::Texts(transfers.iter().map(|transfer| transfer.external_id.clone()).collect()),
        ]);
        let params = Params { values: values![node.0, timeout.map(millis)], batch };
        let transfer = Query::each(Statement::TransferLeases, params, |row| {
            Ok(ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? })
        });
        Ok(self.run(transfer).await?.into_iter().collect())
    }
}

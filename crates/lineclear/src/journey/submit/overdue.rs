//! Jobs that a submitter has accepted, and whose time is over. No call is open for them that a node could end, so the nodes that have
//! the submitter look for them together with leases that ran out.

use std::collections::HashMap;
use std::sync::Arc;

use lineclear_model::{Micros, Outcome};

use crate::client::Client;
use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::node::Shared;
use crate::store::{ClaimRef, JobId, NodeId, Store, StoreResult};

impl Store {
    /// Accepted jobs whose deadline was in this time, with the submitters that hold them.
    async fn overdue_accepted(
        &self,
        holders: &[NodeId],
        before: Micros,
        since: Option<Micros>,
        most: u32,
    ) -> StoreResult<Vec<(NodeId, ClaimRef)>> {
        let holders: Vec<i64> = holders.iter().map(|holder| holder.0).collect();
        let read = Query::each(Statement::OverdueAccepted, values![holders, before, since, most], |row| {
            let claim = ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? };
            Ok((NodeId(row.get("leased_by")?), claim))
        });
        self.db.read(read).await
    }
}

/// Settles them as timed out; returns how many there were.
pub(crate) async fn end_overdue(
    shared: &Arc<Shared>,
    before: Micros,
    since: Option<Micros>,
    most: u32,
) -> StoreResult<usize> {
    let holders: Vec<NodeId> =
        shared.routing.submitters.values().filter_map(|to| to.holder.get().copied()).collect();
    if holders.is_empty() {
        return Ok(0);
    }
    let overdue = shared.loop_store.overdue_accepted(&holders, before, since, most).await?;
    let mut by_holder: HashMap<NodeId, Vec<(ClaimRef, Outcome)>> = HashMap::new();
    for (holder, claim) in overdue {
        by_holder.entry(holder).or_default().push((claim, Outcome::TimedOut));
    }
    let client = Client { shared: shared.clone() };
    let mut settled = 0;
    for (holder, outcomes) in by_holder {
        // One whose row is locked is found again.
        settled += client.settle_claims(holder, outcomes).await?.iter().flatten().count();
    }
    Ok(settled)
}

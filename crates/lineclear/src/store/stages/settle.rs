//! Stage 7, settle: what came of a claim, written once.

use crate::store::verbs::settle;
use crate::store::{NodeId, Settled, Settlement, Store, StoreError, StoreResult, door};

impl Store {
    /// Settles claims of `node`; the answers are in the order of the settlements. They are one transaction, unless a
    /// rule refuses one of them: then that one is buried as unrecordable, and the others are settled without it.
    pub async fn settle(&self, node: NodeId, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        door::check_batch(settlements.len())?;
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let verb = settle::Settle { node, settlements: settlements.clone() };
        match self.run(verb).await {
            Ok(answer) => {
                self.wake_or_warn(answer.freed_keys).await;
                Ok(answer.settled)
            }
            Err(StoreError::Refused { rule, why, .. }) => {
                Box::pin(self.settle_in_halves(node, settlements, format!("{rule}: {why}"))).await
            }
            Err(error) => Err(error),
        }
    }

    /// Looks for the one that was refused.
    async fn settle_in_halves(
        &self,
        node: NodeId,
        mut all: Vec<Settlement>,
        why: String,
    ) -> StoreResult<Vec<Settled>> {
        if let [one] = all.as_mut_slice() {
            if one.is_unrecordable() {
                return Err(StoreError::Corrupt {
                    what: format!("a plain failure cannot be settled: {why}"),
                });
            }
            return self.settle(node, vec![one.as_unrecordable(&why)]).await;
        }
        let rest = all.split_off(all.len() / 2);
        let mut settled = self.settle(node, all).await?;
        settled.extend(self.settle(node, rest).await?);
        Ok(settled)
    }
}

//! One bad row does not hold up the others: enqueue, dispatch, reclaim and settle isolate it in this one way.
//!
//! A batch goes in one statement. If the database refuses that statement because of a row, the batch is halved until the
//! bad row stands alone: the others succeed, and the bad one gets its own error.

use crate::store::{StoreError, StoreResult};

/// An operation on a batch, and on parts of it if the whole is refused.
pub(crate) trait Attempt {
    type Item;
    type Answer;

    /// Applies it to all items or to none; the answers are in the order of the items.
    fn attempt(&self, items: &[Self::Item]) -> impl Future<Output = StoreResult<Vec<Self::Answer>>> + Send;
}

/// Attempts a batch; the results are in the order of the items. An error that no single row can cause, such as a database
/// that is away, is the result of every item of the part that met it.
pub(crate) async fn isolate<A: Attempt>(attempt: &A, items: &[A::Item]) -> Vec<StoreResult<A::Answer>> {
    let mut results = Vec::with_capacity(items.len());
    // Parts that are still to be attempted, the first on top.
    let mut parts = vec![items];
    while let Some(part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        match attempt.attempt(part).await {
            Ok(answers) => results.extend(answers.into_iter().map(Ok)),
            Err(error) if part.len() > 1 && error.may_concern_one_row() => {
                let (first, rest) = part.split_at(part.len() / 2);
                parts.extend([rest, first]);
            }
            Err(error) => results.extend(part.iter().map(|_| Err(error.again()))),
        }
    }
    results
}

impl StoreError {
    /// The database answered, and what it said may concern a single row for good: a rule refused it, or it cannot be read.
    pub(crate) fn may_be_one_rows_fault(&self) -> bool {
        matches!(self, StoreError::Refused { .. } | StoreError::Corrupt { .. })
    }

    /// The error may concern a single row, for good or because another transaction holds it.
    fn may_concern_one_row(&self) -> bool {
        self.may_be_one_rows_fault() || matches!(self, StoreError::Locked { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles numbers; refuses odd ones, and is away for those above a hundred.
    struct Double;

    impl Attempt for Double {
        type Item = u32;
        type Answer = u32;

        async fn attempt(&self, items: &[u32]) -> StoreResult<Vec<u32>> {
            if items.iter().any(|n| n % 2 == 1) {
                return Err(StoreError::refused("odd", "an odd number"));
            }
            if items.iter().any(|n| *n > 100) {
                return Err(StoreError::Unavailable { maybe_applied: false, source: "away".into() });
            }
            Ok(items.iter().map(|n| n * 2).collect())
        }
    }

    #[tokio::test]
    async fn a_bad_item_gets_its_own_error_and_the_others_their_answers_in_order() {
        let results = isolate(&Double, &[2, 4, 5, 8, 9, 12]).await;
        let answers: Vec<_> = results.into_iter().map(Result::ok).collect();
        assert_eq!(answers, [Some(4), Some(8), None, Some(16), None, Some(24)]);
    }

    #[tokio::test]
    async fn a_database_that_is_away_is_not_asked_again_for_each_item() {
        let results = isolate(&Double, &[102, 104]).await;
        assert!(results.iter().all(|result| matches!(result, Err(StoreError::Unavailable { .. }))));
        assert!(isolate(&Double, &[]).await.is_empty());
    }
}

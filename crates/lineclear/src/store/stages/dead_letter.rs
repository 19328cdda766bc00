//! Stage 8, dead letters: brought back, or let rest.

use crate::store::verbs::dead_letter;
use crate::store::{DeadLetterFilter, DeadLetterId, Resolved, Revival, Store, StoreResult, door};

/// Dead letters that one transaction resolves when all that match are.
const DEAD_LETTERS_PER_BATCH: u32 = 500;

impl Store {
    /// Brings dead letters back; those that were not awaiting are left out of the answer.
    pub async fn revive(&self, ids: Vec<DeadLetterId>, revival: Revival) -> StoreResult<Vec<Resolved>> {
        door::check_batch(ids.len())?;
        [Some(revival.by.as_str()), revival.note.as_deref()]
            .into_iter()
            .flatten()
            .try_for_each(door::check_text)?;
        door::check_due_at(revival.due_at)?;
        let resolved = self.run(dead_letter::Revive { ids, revival }).await?;
        self.orders_changed().await;
        Ok(resolved)
    }

    /// Brings back all awaiting dead letters that match, a batch at a time; returns how many. One that dies again
    /// meanwhile is not brought back again.
    pub async fn revive_matching(&self, filter: &DeadLetterFilter, revival: Revival) -> StoreResult<u64> {
        let mut after = None;
        let mut count = 0;
        while let Some(ids) = self.matching(filter, &mut after).await? {
            count += self.revive(ids, revival.clone()).await?.len() as u64;
        }
        Ok(count)
    }

    /// Lets dead letters rest; those that were not awaiting are left out of the answer.
    pub async fn acknowledge(
        &self,
        ids: Vec<DeadLetterId>,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<Vec<Resolved>> {
        door::check_batch(ids.len())?;
        [Some(by), note].into_iter().flatten().try_for_each(door::check_text)?;
        let verb = dead_letter::Acknowledge { ids, by: by.to_owned(), note: note.map(str::to_owned) };
        let resolved = self.run(verb).await?;
        // Manifests that these held may be due.
        self.orders_changed().await;
        Ok(resolved)
    }

    /// Lets all awaiting dead letters that match rest, a batch at a time; returns how many.
    pub async fn acknowledge_matching(
        &self,
        filter: &DeadLetterFilter,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<u64> {
        let mut after = None;
        let mut count = 0;
        while let Some(ids) = self.matching(filter, &mut after).await? {
            count += self.acknowledge(ids, by, note).await?.len() as u64;
        }
        Ok(count)
    }

    /// The next batch of dead letters that match; `place` is where the last one ended, and the newest of the first.
    async fn matching(
        &self,
        filter: &DeadLetterFilter,
        place: &mut Option<(i64, i64)>,
    ) -> StoreResult<Option<Vec<DeadLetterId>>> {
        filter.fingerprint.as_deref().map_or(Ok(()), door::check_text)?;
        let (filter, most) = (filter.clone(), DEAD_LETTERS_PER_BATCH);
        let (after, newest) = (place.map_or(0, |place| place.0), place.map(|place| place.1));
        let found = self.db.read(dead_letter::Find { filter, after, newest, most }).await?;
        let last = found.ids.last().map(|id| id.0);
        *place = last.zip(found.newest);
        Ok(last.map(|_| found.ids))
    }
}

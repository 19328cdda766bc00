//! Stage 8, dead letters: brought back, or let rest.

use crate::store::verbs::dead_letter;
use crate::store::{DeadLetterFilter, DeadLetterId, Resolved, Revival, Store, StoreResult, door};

/// Dead letters that one transaction resolves when all that match are.
const DEAD_LETTERS_PER_BATCH: u32 = 500;

/// Dead letters that one call resolves at most when all that match are: whoever asks is answered, however many there are.
pub const DEAD_LETTERS_PER_CALL: u64 = 5_000;

/// How many of the dead letters that match were resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// So many.
    pub count: u64,
    /// There are more that match: ask again.
    pub more: bool,
}

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

    /// Brings back awaiting dead letters that match, oldest first, a batch at a time and [`DEAD_LETTERS_PER_CALL`] at most. One
    /// that dies again meanwhile is not brought back again by this call; give `before` to leave it out of the next ones, too.
    pub async fn revive_matching(&self, filter: &DeadLetterFilter, revival: Revival) -> StoreResult<Swept> {
        let (mut after, mut count) = (None, 0);
        while let Some(ids) = self.matching(filter, &mut after).await? {
            if count >= DEAD_LETTERS_PER_CALL {
                return Ok(Swept { count, more: true });
            }
            count += self.revive(ids, revival.clone()).await?.len() as u64;
        }
        Ok(Swept { count, more: false })
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

    /// Lets awaiting dead letters that match rest, oldest first, a batch at a time and [`DEAD_LETTERS_PER_CALL`] at most.
    pub async fn acknowledge_matching(
        &self,
        filter: &DeadLetterFilter,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<Swept> {
        let (mut after, mut count) = (None, 0);
        while let Some(ids) = self.matching(filter, &mut after).await? {
            if count >= DEAD_LETTERS_PER_CALL {
                return Ok(Swept { count, more: true });
            }
            count += self.acknowledge(ids, by, note).await?.len() as u64;
        }
        Ok(Swept { count, more: false })
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

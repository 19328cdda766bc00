//! Limit keys: set a limit, and wake held jobs when a slot is free again.

use std::time::Duration;

use crate::db::statements::Statement;
use crate::db::{Query, Session, Value, Verb, values};
use crate::store::{Store, StoreResult};

const NOT_WOKEN: &str = "jobs held by a limit key could not be woken";
/// How often a locked key is tried again: the pauses add up to more than a second.
const WAKE_ATTEMPTS: u32 = 7;

/// Verb: let held jobs of these keys try again. Returns the keys that another transaction holds.
pub(crate) struct WakeKeys(pub(crate) Vec<String>);

impl Verb for WakeKeys {
    type Answer = Vec<String>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<String>> {
        let (mut free, mut locked) = (Vec::<String>::new(), Vec::new());
        for row in session.rows(Statement::WakeLock, values![self.0.clone()]).await? {
            if row.get("locked")? { free.push(row.get("key")?) } else { locked.push(row.get("key")?) }
        }
        if !free.is_empty() {
            session.rows(Statement::WakeKeys, values![free]).await?;
        }
        Ok(locked)
    }
}

/// Verb: at most `max` jobs with `key` active at once.
pub(crate) struct SetLimit {
    pub(crate) key: String,
    pub(crate) max: u32,
}

impl Verb for SetLimit {
    type Answer = ();

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        let params = vec![Value::Text(Some(self.key.clone())), Value::Int(Some(i64::from(self.max)))];
        session.rows(Statement::LimitSet, params).await.map(drop)
    }
}

impl Store {
    /// Lets jobs that these keys held back try again. Keys that another transaction holds, as a dispatcher does while it counts, are
    /// tried again in the background for a second; after that the cleaner wakes them.
    pub(crate) async fn wake(&self, mut keys: Vec<String>) -> StoreResult<()> {
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(());
        }
        let locked = self.run(WakeKeys(keys)).await?;
        self.note_work();
        if !locked.is_empty() {
            tokio::spawn(wake_later(self.clone(), locked));
        }
        Ok(())
    }

    /// Like `wake`, after a committed change that must not be reported as failed; if this fails, the cleaner wakes the jobs.
    pub(crate) async fn wake_or_warn(&self, keys: Vec<String>) {
        if let Err(error) = self.wake(keys).await {
            self.warn_folded(NOT_WOKEN, &error);
        }
    }

    /// Wakes jobs that a node did not wake because it died after settling.
    pub(crate) async fn wake_forgotten(&self) -> StoreResult<()> {
        const PAGE: usize = 500;
        let mut after = String::new();
        loop {
            let most = u32::try_from(PAGE).expect("a page fits");
            let held = Query::each(Statement::HeldKeys, values![after, most], |row| {
                Ok((row.get::<String>("key")?, row.get::<bool>("has_room")?))
            });
            let keys = self.db.read(held).await?;
            let (count, last) = (keys.len(), keys.last().map(|(key, _)| key.clone()));
            self.wake(keys.into_iter().filter_map(|(key, has_room)| has_room.then_some(key)).collect())
                .await?;
            match last {
                Some(last) if count == PAGE => after = last,
                _ => return Ok(()),
            }
        }
    }
}

/// Tries locked keys again, at longer and longer intervals.
async fn wake_later(store: Store, mut keys: Vec<String>) {
    for attempt in 0..WAKE_ATTEMPTS {
        tokio::time::sleep(Duration::from_millis(10 << attempt)).await;
        match store.run(WakeKeys(keys.clone())).await {
            Ok(locked) if locked.is_empty() => return store.announce_work(),
            Ok(locked) => keys = locked,
            Err(error) => return store.warn_folded(NOT_WOKEN, &error),
        }
    }
}

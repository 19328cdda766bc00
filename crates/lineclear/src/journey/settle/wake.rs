//! Limit keys: set a limit, and wake held jobs when a slot is free again.

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::store::{Store, StoreResult};

/// Verb: makes held jobs of these keys ready again.
pub(crate) struct WakeKeys(pub(crate) Vec<String>);

impl Verb for WakeKeys {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> StoreResult<u64> {
        session.rows(Statement::WakeLock, vec![Value::Texts(self.0.clone())]).await?;
        let woken = session.rows(Statement::WakeKeys, vec![Value::Texts(self.0.clone())]).await?;
        Ok(u64::try_from(woken.len()).expect("a count fits"))
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

/// Verb: keys that hold jobs back, a page at a time.
pub(crate) struct HeldKeys {
    pub(crate) after: String,
    pub(crate) most: u32,
}

impl Verb for HeldKeys {
    type Answer = Vec<String>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<String>> {
        let params = vec![Value::Text(Some(self.after.clone())), Value::Int(Some(i64::from(self.most)))];
        session.rows(Statement::HeldKeys, params).await?.iter().map(|row| row.get("key")).collect()
    }
}

impl Store {
    /// Makes held jobs of these keys ready again.
    pub(crate) async fn wake(&self, mut keys: Vec<String>) -> StoreResult<()> {
        keys.sort_unstable();
        keys.dedup();
        if !keys.is_empty() {
            self.run(WakeKeys(keys)).await?;
        }
        Ok(())
    }

    /// Like `wake`, after a committed change that must not be reported as failed; if this fails, the cleaner wakes the jobs.
    pub(crate) async fn wake_or_warn(&self, keys: Vec<String>) {
        if let Err(error) = self.wake(keys).await {
            tracing::warn!(%error, "jobs held by a limit key could not be woken");
        }
    }

    /// Wakes jobs that a node did not wake because it died after settling.
    pub(crate) async fn wake_forgotten(&self) -> StoreResult<()> {
        const PAGE: u32 = 500;
        let mut after = String::new();
        loop {
            let keys = self.run(HeldKeys { after: after.clone(), most: PAGE }).await?;
            let Some(last) = keys.last().cloned() else { return Ok(()) };
            self.wake(keys).await?;
            after = last;
        }
    }
}

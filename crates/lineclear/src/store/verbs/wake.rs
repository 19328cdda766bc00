//! Limit keys: set a limit, and wake jobs that one held back when there is a place again.

use crate::store::StoreResult;
use crate::store::db::{Session, Value, Verb};
use crate::store::sql::Statement;

/// Verb: let held jobs of these keys try again.
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

/// Verb: keys that jobs are held by, a page at a time.
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

//! remove: manifests go, with what was planned for them. What runs finishes, and history, ledger and dead letters stay.

use std::slice;

use lineclear_model::{Name, SkipReason};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::journey::plan::firing;
use crate::manifests::expected_version::ExpectedVersion;
use crate::manifests::pause::{move_jobs, skipped_until_now};
use crate::manifests::upsert;
use crate::manifests::upsert::{Stored, lock_states};
use crate::store::{Store, StoreError, StoreResult};
use crate::validate;

/// Dependents that a refusal names.
const NAMED_MAX: i64 = 10;

/// Verb: a person removes a manifest. Returns limit keys whose other jobs may now try; none if there is no such manifest.
pub(crate) struct RemoveManifest {
    pub(crate) key: Name,
    pub(crate) by: String,
    pub(crate) advisory_key: i64,
    /// Only if this was seen of it.
    pub(crate) seen: Option<ExpectedVersion>,
}

impl Verb for RemoveManifest {
    type Answer = Option<Vec<String>>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Vec<String>>> {
        session.rows(Statement::DeclareLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        let keys = || slice::from_ref(&self.key).iter();
        lock_states(session, keys()).await?;
        let stored = upsert::read(session, keys()).await?.remove(&self.key);
        let Some(stored) = stored.filter(|stored| !stored.removed) else { return Ok(None) };
        if let Some(seen) = &self.seen {
            seen.check(Some(stored.version))?;
        }
        let why = format!("its manifest was removed by {:?}", self.by);
        remove(session, vec![&stored], why).await.map(Some)
    }
}

/// Removes manifests, which are locked, and their planned jobs; returns limit keys whose other jobs may now try.
pub(crate) async fn remove(
    session: &mut Session,
    going: Vec<&Stored>,
    why: String,
) -> StoreResult<Vec<String>> {
    if going.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<i64> = going.iter().map(|stored| stored.id).collect();
    refuse_dependents(session, &ids).await?;
    let skipped = going.iter().filter_map(|stored| skipped_until_now(stored, SkipReason::Removed));
    firing::fire(session, Vec::new(), skipped.collect()).await?;
    session.rows(Statement::PruneRemove, vec![Value::Ints(ids.clone())]).await?;
    let params = vec![Value::Ints(ids.clone()), Value::Text(Some(why))];
    let mut limit_keys = Vec::new();
    for row in session.rows(Statement::PruneJobs, params).await? {
        limit_keys.extend(row.get::<Option<String>>("limit_key")?);
    }
    // What is left is not planned work; parked, it would wait for a manifest that never comes back.
    limit_keys.extend(move_jobs(session, ids, true).await?);
    Ok(limit_keys)
}

/// A manifest that others wait for must not go without them.
async fn refuse_dependents(session: &mut Session, going: &[i64]) -> StoreResult<()> {
    let params = vec![Value::Ints(going.to_vec()), Value::Int(Some(NAMED_MAX))];
    let rows = session.rows(Statement::PruneDependents, params).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let named = |row: &Row| {
        let (child, parent): (String, String) = (row.get("child")?, row.get("parent")?);
        Ok(format!("{child} waits for {parent}"))
    };
    let named = rows.iter().map(named).collect::<StoreResult<Vec<_>>>()?;
    let why = format!("{}; declare them without it, or remove them too", named.join(", "));
    Err(StoreError::refused("manifest_has_dependents", why))
}

impl Store {
    /// A person removes a manifest; false if there is none. Waiting jobs that were planned for it are cancelled; its running jobs
    /// finish, and its history, ledger and dead letters stay. One that others wait for is refused (`manifest_has_dependents`). Code
    /// that declares it again makes it anew.
    pub async fn remove_manifest(
        &self,
        key: Name,
        seen: Option<ExpectedVersion>,
        by: &str,
    ) -> StoreResult<bool> {
        validate::check_text(by)?;
        let advisory_key = self.options.advisory_key("declare");
        let removed = self.run(RemoveManifest { key, by: by.to_owned(), advisory_key, seen }).await?;
        let Some(limit_keys) = removed else { return Ok(false) };
        self.wake_or_warn(limit_keys).await;
        self.orders_changed().await;
        Ok(true)
    }
}

//! Removes manifests and cancels the jobs that were planned for them. Running jobs finish; history, ledger and dead letters
//! stay.

use std::slice;

use lineclear_model::{Name, SkipReason};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Verb, values};
use crate::journey::plan::firing;
use crate::manifests::expected_version::ExpectedVersion;
use crate::manifests::pause::{move_jobs, skipped_until_now};
use crate::manifests::stored::{self, Stored, lock_states};
use crate::store::{Store, StoreError, StoreResult};
use crate::validate;

/// Dependents that a refusal names.
const NAMED_MAX: i64 = 10;

/// Removes a manifest on behalf of a person. Returns limit keys that may have free capacity now; `None` if there is no such
/// manifest.
pub(crate) struct RemoveManifest {
    pub(crate) key: Name,
    pub(crate) by: String,
    pub(crate) advisory_key: i64,
    /// The version that the caller expects.
    pub(crate) expected: Option<ExpectedVersion>,
}

impl Verb for RemoveManifest {
    type Answer = Option<Vec<String>>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Vec<String>>> {
        session.rows(Statement::DeclareLock, values![self.advisory_key]).await?;
        let keys = || slice::from_ref(&self.key).iter();
        lock_states(session, keys()).await?;
        let stored = stored::read(session, keys()).await?.remove(&self.key);
        let Some(stored) = stored.filter(|stored| !stored.removed) else { return Ok(None) };
        if let Some(expected) = &self.expected {
            expected.check(Some(stored.version))?;
        }
        let why = format!("its manifest was removed by {:?}", self.by);
        remove(session, vec![&stored], why).await.map(Some)
    }
}

/// Removes locked manifests and their planned jobs; returns limit keys that may have free capacity now.
pub(crate) async fn remove(
    session: &mut Session,
    removed: Vec<&Stored>,
    why: String,
) -> StoreResult<Vec<String>> {
    if removed.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<i64> = removed.iter().map(|stored| stored.id).collect();
    refuse_dependents(session, &ids).await?;
    let skipped = removed.iter().filter_map(|stored| skipped_until_now(stored, SkipReason::Removed));
    firing::fire(session, Vec::new(), skipped.collect()).await?;
    session.rows(Statement::PruneRemove, values![ids.clone()]).await?;
    let mut limit_keys = Vec::new();
    for row in session.rows(Statement::PruneJobs, values![ids.clone(), why]).await? {
        limit_keys.extend(row.get::<Option<String>>("limit_key")?);
    }
    // The remaining jobs were not planned; parked, they would wait forever for the removed manifest.
    limit_keys.extend(move_jobs(session, ids, true).await?);
    Ok(limit_keys)
}

/// Refuses to remove a manifest that others depend on.
async fn refuse_dependents(session: &mut Session, removed: &[i64]) -> StoreResult<()> {
    let rows = session.rows(Statement::PruneDependents, values![removed.to_vec(), NAMED_MAX]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let named = |row: &Row| {
        let (child, parent): (String, String) = (row.get("child")?, row.get("parent")?);
        Ok(format!("{child} depends on {parent}"))
    };
    let named = rows.iter().map(named).collect::<StoreResult<Vec<_>>>()?;
    let why = format!("{}; declare them without it, or remove them, too", named.join(", "));
    Err(StoreError::refused("manifest_has_dependents", why))
}

impl Store {
    /// Removes a manifest on behalf of a person; false if there is none. Cancels waiting jobs that were planned for it; its
    /// running jobs finish, and its history, ledger and dead letters stay. Refused if others depend on it
    /// (`manifest_has_dependents`). Declaring it again creates it again.
    pub async fn remove_manifest(
        &self,
        key: Name,
        expected: Option<ExpectedVersion>,
        by: &str,
    ) -> StoreResult<bool> {
        validate::check_text(by)?;
        let advisory_key = self.options.advisory_key("declare");
        let removed = self.run(RemoveManifest { key, by: by.to_owned(), advisory_key, expected }).await?;
        let Some(limit_keys) = removed else { return Ok(false) };
        self.wake_or_warn(limit_keys).await;
        self.notify_manifests_changed().await;
        Ok(true)
    }
}

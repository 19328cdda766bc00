//! declare: a whole set of groups and manifests, and what is no longer in it goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use lineclear_model::{GroupSpec, Manifest, Name};

use serde::Serialize;

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::journey::enqueue::insert::BATCH_MAX;
use crate::manifests::declared_fields::Said;
use crate::manifests::groups;
use crate::manifests::groups::ChangeSource;
use crate::manifests::remove;
use crate::manifests::upsert;
use crate::manifests::upsert::{Stored, Written, lock_states};
use crate::store::{StoreError, StoreResult};

/// What became of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// It is so.
    Done {
        /// What became of each of its manifests.
        written: BTreeMap<Name, Written>,
        /// Manifests that were removed, because the declaration no longer has them.
        pruned: Vec<Name>,
    },
    /// A newer release of the same owner has declared: nothing was changed.
    Outdated {
        /// That release.
        newest: u64,
    },
}

/// Verb: a declaration, all or none.
pub(crate) struct Declare {
    pub(crate) groups: BTreeMap<String, GroupSpec>,
    pub(crate) manifests: BTreeMap<Name, Manifest>,
    pub(crate) owner: Option<String>,
    /// Manifests of the owner whose keys begin so, and that are not declared, go.
    pub(crate) prune: Option<String>,
    pub(crate) release: Option<i64>,
    pub(crate) advisory_key: i64,
    /// Somebody wants to know what changes.
    pub(crate) asked: Option<Asked>,
}

/// What somebody who declares wants to know.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    /// Nothing is to be changed: where the answer is left, because the transaction is taken back.
    pub(crate) dry: Option<Arc<Mutex<Option<Plan>>>>,
}

/// What a declaration changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Its groups.
    pub groups: BTreeMap<String, Change>,
    /// Its manifests.
    pub manifests: BTreeMap<Name, Change>,
    /// Manifests of its owner that it no longer has.
    pub removed: Vec<Name>,
}

/// What becomes of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Created,
    /// These fields of it are others than before.
    Changed(Vec<String>),
    /// It was so before.
    Unchanged,
}

/// The rule under which a transaction that was only to be looked at is taken back.
pub(crate) const DRY_RUN: &str = "dry_run";

/// What differs between two things of one shape.
fn change<T: Serialize>(before: Option<&T>, after: &T) -> Change {
    let Some(before) = before else { return Change::Created };
    let fields = Said::by(before).differs_from(&Said::by(after));
    if fields.is_empty() { Change::Unchanged } else { Change::Changed(fields) }
}

/// The answer, and what is to be done after the commit.
pub(crate) struct DeclareAnswer {
    pub(crate) declared: Declared,
    /// Waiting jobs need another rank.
    pub(crate) repriced: bool,
    pub(crate) limit_keys: Vec<String>,
    /// If somebody asked.
    pub(crate) plan: Option<Plan>,
}

impl Verb for Declare {
    type Answer = DeclareAnswer;

    async fn run(&self, session: &mut Session) -> StoreResult<DeclareAnswer> {
        session.rows(Statement::DeclareLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        if let Some(newest) = self.newer_release(session).await? {
            let declared = Declared::Outdated { newest };
            return Ok(DeclareAnswer { declared, repriced: false, limit_keys: Vec::new(), plan: None });
        }
        let groups_before = self.groups_now(session).await?;
        let repriced = groups::upsert(session, &self.groups, ChangeSource::Declaration).await?.repriced;
        // Nobody else adds or removes manifests while we have the lock, so what is to go can be looked for before
        // anything is locked. State rows of all of them, then manifests of all of them: the one order of locks.
        let unwanted = self.unwanted(session).await?;
        let all = || self.manifests.keys().chain(&unwanted);
        lock_states(session, all()).await?;
        let before = upsert::read(session, all()).await?;
        let mut upserted =
            upsert::upsert(session, &self.manifests, ChangeSource::Declaration, &before).await?;
        let going = unwanted.iter().filter_map(|key| before.get(key)).collect();
        let owner = self.owner.as_deref().unwrap_or_default();
        let why = format!("its manifest was removed by a declaration of {owner:?}");
        upserted.limit_keys.extend(remove::remove(session, going, why).await?);
        let plan = self.plan(session, &groups_before, &before, &unwanted).await?;
        if let Some(left) = self.asked.as_ref().and_then(|asked| asked.dry.as_ref()) {
            *left.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = plan;
            return Err(StoreError::refused(DRY_RUN, "nothing was to be changed"));
        }
        let declared = Declared::Done { written: upserted.written, pruned: unwanted };
        Ok(DeclareAnswer { declared, repriced, limit_keys: upserted.limit_keys, plan })
    }
}

impl Declare {
    /// Its groups as they are, if somebody wants to know.
    async fn groups_now(&self, session: &mut Session) -> StoreResult<BTreeMap<String, GroupSpec>> {
        if self.asked.is_none() || self.groups.is_empty() {
            return Ok(BTreeMap::new());
        }
        let names = Value::Texts(self.groups.keys().cloned().collect());
        let rows = session.rows(Statement::GroupRead, vec![names]).await?;
        let spec = |row: &crate::db::Row| {
            let (limit, priority) = (row.get("max_active")?, row.get("priority")?);
            Ok((row.get("name")?, GroupSpec { limit, priority, enabled: row.get("enabled")? }))
        };
        rows.iter().map(spec).collect()
    }

    /// What has changed since `before`, if somebody wants to know.
    async fn plan(
        &self,
        session: &mut Session,
        groups_before: &BTreeMap<String, GroupSpec>,
        before: &HashMap<Name, Stored>,
        removed: &[Name],
    ) -> StoreResult<Option<Plan>> {
        if self.asked.is_none() {
            return Ok(None);
        }
        let mut plan = Plan { removed: removed.to_vec(), ..Plan::default() };
        for (name, spec) in self.groups_now(session).await? {
            plan.groups.insert(name.clone(), change(groups_before.get(&name), &spec));
        }
        for (key, stored) in upsert::read(session, self.manifests.keys()).await? {
            let was = before.get(&key).filter(|was| !was.removed).and_then(|was| was.manifest.as_ref().ok());
            plan.manifests.insert(key, change(was, stored.readable()?));
        }
        Ok(Some(plan))
    }

    /// The release that has declared for the owner before, if it is a newer one. Ours is remembered if it is the newest.
    async fn newer_release(&self, session: &mut Session) -> StoreResult<Option<u64>> {
        let (Some(owner), Some(release)) = (&self.owner, self.release) else { return Ok(None) };
        let params = vec![Value::Text(Some(owner.clone())), Value::Int(Some(release))];
        let rows = session.rows(Statement::DeclareRelease, params).await?;
        let newest: i64 =
            rows.first().ok_or_else(|| crate::error::no_answer("declare_release"))?.get("release")?;
        Ok((newest > release).then_some(newest.cast_unsigned()))
    }

    /// Keys of the owner's manifests that are no longer declared.
    async fn unwanted(&self, session: &mut Session) -> StoreResult<Vec<Name>> {
        let (Some(owner), Some(prefix)) = (&self.owner, &self.prune) else { return Ok(Vec::new()) };
        let most = i64::try_from(BATCH_MAX).expect("a batch fits") + 1;
        let params = vec![
            Value::Text(Some(owner.clone())),
            Value::Text(Some(prefix.clone())),
            Value::Texts(self.manifests.keys().map(ToString::to_string).collect()),
            Value::Int(Some(most)),
        ];
        let rows = session.rows(Statement::PruneFind, params).await?;
        if rows.len() > BATCH_MAX {
            let why = format!("more than {BATCH_MAX} manifests of {owner:?} would go; prune by prefix");
            return Err(StoreError::refused("batch_max", why));
        }
        rows.iter().map(|row| row.word("key", |key| Name::new(key).ok())).collect()
    }
}

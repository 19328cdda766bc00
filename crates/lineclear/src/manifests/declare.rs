//! The transaction of a declaration: writes its groups and manifests, and removes those that it no longer contains.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use lineclear_model::{GroupSpec, Manifest, Name};

use serde::Serialize;

use crate::db::statements::Statement;
use crate::db::{Row, Session, Verb, values};
use crate::journey::enqueue::insert::BATCH_MAX;
use crate::manifests::declared_fields::DeclaredFields;
use crate::manifests::groups;
use crate::manifests::groups::ChangeSource;
use crate::manifests::remove;
use crate::manifests::stored::{self, Stored, lock_states};
use crate::manifests::upsert::{self, Written};
use crate::store::{StoreError, StoreResult};

/// The result of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// It was applied.
    Done {
        /// The result for each of its manifests.
        written: BTreeMap<Name, Written>,
        /// Manifests that were removed because the declaration no longer contains them.
        pruned: Vec<Name>,
    },
    /// A newer release of the same owner has declared: nothing was changed.
    Outdated {
        /// That release.
        newest: u64,
    },
}

/// Applies a declaration, all or none.
pub(crate) struct Declare {
    pub(crate) groups: BTreeMap<String, GroupSpec>,
    pub(crate) manifests: BTreeMap<Name, Manifest>,
    pub(crate) owner: Option<String>,
    /// Removes undeclared manifests of the owner whose keys have this prefix.
    pub(crate) prune: Option<String>,
    pub(crate) release: Option<i64>,
    pub(crate) advisory_key: i64,
    /// The caller wants to know what changes.
    pub(crate) request: Option<PlanRequest>,
}

/// A request for the plan of a declaration.
#[derive(Clone, Default)]
pub(crate) struct PlanRequest {
    /// A dry run: its transaction is rolled back, and the plan is stored here.
    pub(crate) dry_run: Option<Arc<Mutex<Option<Plan>>>>,
}

/// What a declaration changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Its groups.
    pub groups: BTreeMap<String, Change>,
    /// Its manifests.
    pub manifests: BTreeMap<Name, Change>,
    /// Manifests of its owner that it no longer contains.
    pub removed: Vec<Name>,
}

/// How a group or manifest changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is created.
    Created,
    /// These fields change.
    Changed(Vec<String>),
    /// It stays as it is.
    Unchanged,
}

/// The rule of the refusal that rolls back a dry run.
pub(crate) const DRY_RUN: &str = "dry_run";

/// The fields that differ.
fn change<T: Serialize>(before: Option<&T>, after: &T) -> Change {
    let Some(before) = before else { return Change::Created };
    let fields = DeclaredFields::of(before).differs_from(&DeclaredFields::of(after));
    if fields.is_empty() { Change::Unchanged } else { Change::Changed(fields) }
}

/// The result, and what the caller does after the commit.
pub(crate) struct DeclareAnswer {
    pub(crate) declared: Declared,
    /// A priority changed: waiting jobs need another rank.
    pub(crate) priority_changed: bool,
    pub(crate) limit_keys: Vec<String>,
    /// The plan, if it was requested.
    pub(crate) plan: Option<Plan>,
}

impl Verb for Declare {
    type Answer = DeclareAnswer;

    async fn run(&self, session: &mut Session) -> StoreResult<DeclareAnswer> {
        session.rows(Statement::DeclareLock, values![self.advisory_key]).await?;
        if let Some(newest) = self.newer_release(session).await? {
            let declared = Declared::Outdated { newest };
            return Ok(DeclareAnswer {
                declared,
                priority_changed: false,
                limit_keys: Vec::new(),
                plan: None,
            });
        }
        let groups_before = self.groups_now(session).await?;
        let groups = groups::upsert(session, &self.groups, ChangeSource::Declaration).await?;
        // The declaration lock keeps others from adding or removing manifests, so those to remove can be found before any
        // row is locked. The lock order is: all state rows, then all manifests.
        let unwanted = self.unwanted(session).await?;
        let all = || self.manifests.keys().chain(&unwanted);
        lock_states(session, all()).await?;
        let before = stored::read(session, all()).await?;
        let mut upserted =
            upsert::upsert(session, &self.manifests, ChangeSource::Declaration, &before).await?;
        let removed = unwanted.iter().filter_map(|key| before.get(key)).collect();
        let owner = self.owner.as_deref().unwrap_or_default();
        let why = format!("its manifest was removed by a declaration of {owner:?}");
        upserted.limit_keys.extend(remove::remove(session, removed, why).await?);
        let plan = self.plan(session, &groups_before, &before, &unwanted).await?;
        if let Some(dry_plan) = self.request.as_ref().and_then(|request| request.dry_run.as_ref()) {
            *dry_plan.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = plan;
            return Err(StoreError::refused(DRY_RUN, "dry run: nothing was changed"));
        }
        let declared = Declared::Done { written: upserted.written, pruned: unwanted };
        let priority_changed = groups.priority_changed;
        Ok(DeclareAnswer { declared, priority_changed, limit_keys: upserted.limit_keys, plan })
    }
}

impl Declare {
    /// The stored state of its groups, if the plan was requested.
    async fn groups_now(&self, session: &mut Session) -> StoreResult<BTreeMap<String, GroupSpec>> {
        if self.request.is_none() || self.groups.is_empty() {
            return Ok(BTreeMap::new());
        }
        let names: Vec<String> = self.groups.keys().cloned().collect();
        let rows = session.rows(Statement::GroupRead, values![names]).await?;
        let spec = |row: &Row| {
            let (limit, priority) = (row.get("max_active")?, row.get("priority")?);
            Ok((row.get("name")?, GroupSpec { limit, priority, enabled: row.get("enabled")? }))
        };
        rows.iter().map(spec).collect()
    }

    /// The changes since `before`, if the plan was requested.
    async fn plan(
        &self,
        session: &mut Session,
        groups_before: &BTreeMap<String, GroupSpec>,
        before: &HashMap<Name, Stored>,
        removed: &[Name],
    ) -> StoreResult<Option<Plan>> {
        if self.request.is_none() {
            return Ok(None);
        }
        let mut plan = Plan { removed: removed.to_vec(), ..Plan::default() };
        for (name, spec) in self.groups_now(session).await? {
            plan.groups.insert(name.clone(), change(groups_before.get(&name), &spec));
        }
        for (key, manifest) in stored::read(session, self.manifests.keys()).await? {
            let was = before.get(&key).filter(|was| !was.removed).and_then(|was| was.manifest.as_ref().ok());
            plan.manifests.insert(key, change(was, manifest.readable()?));
        }
        Ok(Some(plan))
    }

    /// The newest release that has declared for the owner, if it is newer than this one. Stores this one if it is the newest.
    async fn newer_release(&self, session: &mut Session) -> StoreResult<Option<u64>> {
        let (Some(owner), Some(release)) = (&self.owner, self.release) else { return Ok(None) };
        let rows = session.rows(Statement::DeclareRelease, values![owner, release]).await?;
        let newest: i64 =
            rows.first().ok_or_else(|| crate::error::no_answer("declare_release"))?.get("release")?;
        Ok((newest > release).then_some(newest.cast_unsigned()))
    }

    /// Keys of the owner's manifests that are no longer declared.
    async fn unwanted(&self, session: &mut Session) -> StoreResult<Vec<Name>> {
        let (Some(owner), Some(prefix)) = (&self.owner, &self.prune) else { return Ok(Vec::new()) };
        let most = i64::try_from(BATCH_MAX).expect("a batch fits") + 1;
        let declared: Vec<String> = self.manifests.keys().map(ToString::to_string).collect();
        let rows = session.rows(Statement::PruneFind, values![owner, prefix, declared, most]).await?;
        if rows.len() > BATCH_MAX {
            let why =
                format!("more than {BATCH_MAX} manifests of {owner:?} would be removed; prune by prefix");
            return Err(StoreError::refused("batch_max", why));
        }
        rows.iter().map(|row| row.word("key", |key| Name::new(key).ok())).collect()
    }
}

//! Declarations: the complete set of groups and manifests of one owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lineclear_model::manifest::OWNER_BYTES_MAX;
use lineclear_model::{GroupSpec, Manifest, ManifestFile, Name};

use crate::manifests::declare::{DRY_RUN, Declare, DeclareAnswer, Declared, Plan, PlanRequest};
use crate::manifests::groups;
use crate::store::{Store, StoreError, StoreResult};
use crate::validate;

/// Groups and manifests of one owner, applied together, all or none.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// Groups by name; [`GLOBAL_GROUP`](crate::store::GLOBAL_GROUP) applies to all jobs.
    pub groups: BTreeMap<String, GroupSpec>,
    /// The manifests. Those without an owner get the declaration's.
    pub manifests: Vec<Manifest>,
    /// The owner.
    pub owner: Option<String>,
    /// What happens to manifests of the owner that are not in it.
    pub prune: Prune,
    /// The number of the release: it changes nothing once a higher one of the same owner has declared.
    pub release: Option<u64>,
}

/// What happens to manifests of the owner that a declaration no longer contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prune {
    /// They stay.
    #[default]
    Nothing,
    /// They are removed.
    All,
    /// They are removed if their key has this prefix.
    Prefix(String),
}

impl From<ManifestFile> for Declaration {
    fn from(file: ManifestFile) -> Declaration {
        Declaration { groups: file.group, manifests: file.manifest, ..Declaration::default() }
    }
}

impl Store {
    /// Applies a declaration. Waiting jobs that were planned for a removed manifest are cancelled; its running jobs
    /// finish, and its history, ledger and dead letters stay.
    pub async fn declare(&self, declaration: Declaration) -> StoreResult<Declared> {
        self.declare_and(declaration, None).await.map(|answer| answer.declared)
    }

    /// Applies a declaration and returns what it changed. A dry run returns what it would change, and changes nothing.
    pub async fn apply(&self, declaration: Declaration, dry_run: bool) -> StoreResult<Plan> {
        let dry_plan = Arc::<Mutex<Option<Plan>>>::default();
        let request = PlanRequest { dry_run: dry_run.then(|| dry_plan.clone()) };
        let plan = match self.declare_and(declaration, Some(request)).await {
            Ok(answer) => answer.plan,
            Err(StoreError::Refused { rule, .. }) if dry_run && rule == DRY_RUN => {
                dry_plan.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
            }
            Err(error) => return Err(error),
        };
        plan.ok_or_else(|| StoreError::refused("release", "a newer release of this owner has declared"))
    }

    async fn declare_and(
        &self,
        declaration: Declaration,
        request: Option<PlanRequest>,
    ) -> StoreResult<DeclareAnswer> {
        let Declaration { groups, manifests, owner, prune, release } = declaration;
        check_groups(&groups)?;
        check_owner(owner.as_deref(), &prune, release)?;
        let prefix = match prune {
            Prune::Nothing => None,
            Prune::All => Some(String::new()),
            Prune::Prefix(prefix) => Some(prefix),
        };
        let mut manifests = by_key(manifests)?;
        for (key, manifest) in &mut manifests {
            if let Some(prefix) = prefix.as_ref().filter(|prefix| !key.as_str().starts_with(*prefix)) {
                let why =
                    format!("{key} does not begin with the prefix {prefix}, so it would never be removed");
                return Err(StoreError::refused("prune", why).of_manifest(key, ""));
            }
            match (&manifest.owner, &owner) {
                (None, _) => manifest.owner.clone_from(&owner),
                (Some(own), Some(declared)) if own != declared => {
                    let why = format!("{key} has the owner {own:?} in a declaration of {declared:?}");
                    return Err(StoreError::refused("manifest_owner", why).of_manifest(key, "owner"));
                }
                _ => {}
            }
        }
        let release = release
            .map(i64::try_from)
            .transpose()
            .map_err(|_| StoreError::refused("release", format!("`release` must be at most {}", i64::MAX)))?;
        let advisory_key = self.options.advisory_key("declare");
        let verb = Declare {
            groups,
            manifests,
            owner: owner.clone(),
            prune: prefix,
            release,
            advisory_key,
            request,
        };
        let mut answer = self.run(verb).await?;
        if answer.priority_changed {
            self.rerank_soon().await;
        }
        self.wake_or_warn(std::mem::take(&mut answer.limit_keys)).await;
        self.notify_manifests_changed().await;
        match &answer.declared {
            Declared::Outdated { newest } => {
                tracing::warn!(
                    owner,
                    release,
                    newest,
                    "a newer release has declared; this declaration changes nothing"
                );
            }
            Declared::Done { pruned, .. } if !pruned.is_empty() => {
                tracing::info!(owner, manifests = ?pruned, "removed manifests that are no longer declared");
            }
            Declared::Done { .. } => {}
        }
        Ok(answer)
    }
}

pub(crate) fn check_groups(groups: &BTreeMap<String, GroupSpec>) -> StoreResult<()> {
    groups.iter().try_for_each(|(name, spec)| check_group(name, spec))
}

/// Checks the name, priority and limit of a group.
pub fn check_group(name: &str, spec: &GroupSpec) -> StoreResult<()> {
    groups::check_name(name)?;
    validate::check_priority(spec.priority)?;
    spec.limit.map_or(Ok(()), validate::check_limit)
}

/// Prune and release apply to the manifests of one owner, so they need one.
fn check_owner(owner: Option<&str>, prune: &Prune, release: Option<u64>) -> StoreResult<()> {
    let needs = |what: &str| {
        let why = format!("{what} needs an owner; without one it would apply to the manifests of all owners");
        Err(StoreError::refused("owner", why))
    };
    match owner {
        None if *prune != Prune::Nothing => needs("prune"),
        None if release.is_some() => needs("a release"),
        Some(owner)
            if owner.is_empty() || owner.len() > OWNER_BYTES_MAX || owner.chars().any(char::is_control) =>
        {
            let why = format!("`owner` must be plain text of 1 to {OWNER_BYTES_MAX} bytes");
            Err(StoreError::refused("owner", why))
        }
        _ => Ok(()),
    }
}

/// Checks manifests, and orders them by key.
pub(crate) fn by_key(manifests: impl IntoIterator<Item = Manifest>) -> StoreResult<BTreeMap<Name, Manifest>> {
    let mut by_key = BTreeMap::new();
    for mut manifest in manifests {
        // The default is stored, too, and compared with what is stored.
        manifest.overlap = Some(manifest.overlap());
        manifest.check().map_err(|bad| {
            let error = StoreError::refused("manifest", format!("{}: {bad}", manifest.key));
            error.of_manifest(&manifest.key, bad.field)
        })?;
        let key = manifest.key.clone();
        if by_key.insert(key.clone(), manifest).is_some() {
            let error = StoreError::refused("manifest_twice", format!("{key} was given twice"));
            return Err(error.of_manifest(&key, ""));
        }
    }
    validate::check_batch(by_key.len())?;
    Ok(by_key)
}

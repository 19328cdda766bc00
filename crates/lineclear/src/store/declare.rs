//! A declaration: what one owner wants to be so, as a whole.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lineclear_model::manifest::OWNER_BYTES_MAX;
use lineclear_model::{GroupSpec, Manifest, ManifestFile, Name};

use super::verbs::declare::{Asked, DRY_RUN, Declare, DeclareAnswer, Declared, Plan};
use super::verbs::group;
use super::{Store, StoreError, StoreResult, door};

/// Groups and manifests of one owner, declared together: all of it becomes so, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// Groups by name; [`GLOBAL_GROUP`](super::GLOBAL_GROUP) is everybody's.
    pub groups: BTreeMap<String, GroupSpec>,
    /// The manifests. Those that name no owner get the declaration's.
    pub manifests: Vec<Manifest>,
    /// Who declares.
    pub owner: Option<String>,
    /// What becomes of manifests that are not in it.
    pub prune: Prune,
    /// Number of the release that declares: it changes nothing once a higher one of the same owner has declared.
    pub release: Option<u64>,
}

/// What becomes of manifests that the same owner declared before, and that a declaration no longer has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prune {
    /// They stay.
    #[default]
    Nothing,
    /// They are removed.
    All,
    /// They are removed if their key begins so.
    Prefix(String),
}

impl From<ManifestFile> for Declaration {
    fn from(file: ManifestFile) -> Declaration {
        Declaration { groups: file.group, manifests: file.manifest, ..Declaration::default() }
    }
}

impl Store {
    /// Makes a declaration so. Waiting jobs that were planned for a removed manifest are cancelled; its running jobs
    /// finish, and its history, ledger and dead letters stay.
    pub async fn declare(&self, declaration: Declaration) -> StoreResult<Declared> {
        self.declare_and(declaration, None).await.map(|answer| answer.declared)
    }

    /// The same, and says what has changed; or what would, and changes nothing.
    pub async fn apply(&self, declaration: Declaration, dry_run: bool) -> StoreResult<Plan> {
        let left = Arc::<Mutex<Option<Plan>>>::default();
        let asked = Asked { dry: dry_run.then(|| left.clone()) };
        let plan = match self.declare_and(declaration, Some(asked)).await {
            Ok(answer) => answer.plan,
            Err(StoreError::Refused { rule, .. }) if dry_run && rule == DRY_RUN => {
                left.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
            }
            Err(error) => return Err(error),
        };
        plan.ok_or_else(|| StoreError::refused("release", "a newer release of this owner has declared"))
    }

    async fn declare_and(
        &self,
        declaration: Declaration,
        asked: Option<Asked>,
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
                let why = format!("{key} does not begin with {prefix}, and so would never be removed");
                return Err(StoreError::refused("prune", why).of_manifest(key, ""));
            }
            match (&manifest.owner, &owner) {
                (None, _) => manifest.owner.clone_from(&owner),
                (Some(its), Some(ours)) if its != ours => {
                    let why = format!("{key} has the owner {its:?} in a declaration of {ours:?}");
                    return Err(StoreError::refused("manifest_owner", why).of_manifest(key, "owner"));
                }
                _ => {}
            }
        }
        let release = release
            .map(i64::try_from)
            .transpose()
            .map_err(|_| StoreError::refused("release", format!("a release is at most {}", i64::MAX)))?;
        let advisory_key = self.options.advisory_key("declare");
        let verb =
            Declare { groups, manifests, owner: owner.clone(), prune: prefix, release, advisory_key, asked };
        let mut answer = self.run(verb).await?;
        if answer.repriced {
            self.restamp_soon().await;
        }
        self.wake_or_warn(std::mem::take(&mut answer.limit_keys)).await;
        self.orders_changed().await;
        match &answer.declared {
            Declared::Outdated { newest } => {
                tracing::warn!(
                    owner,
                    release,
                    newest,
                    "a newer release has declared; this one changes nothing"
                );
            }
            Declared::Done { pruned, .. } if !pruned.is_empty() => {
                tracing::info!(owner, manifests = ?pruned, "manifests that are no longer declared were removed");
            }
            Declared::Done { .. } => {}
        }
        Ok(answer)
    }
}

pub(super) fn check_groups(groups: &BTreeMap<String, GroupSpec>) -> StoreResult<()> {
    groups.iter().try_for_each(|(name, spec)| check_group(name, spec))
}

/// Whether a group can be: its name, its priority and its limit.
pub fn check_group(name: &str, spec: &GroupSpec) -> StoreResult<()> {
    group::check_name(name)?;
    door::check_priority(spec.priority)?;
    spec.limit.map_or(Ok(()), door::check_limit)
}

/// Removing, and telling old from new, means something only among the manifests of one owner.
fn check_owner(owner: Option<&str>, prune: &Prune, release: Option<u64>) -> StoreResult<()> {
    let needs = |what: &str| {
        let why = format!("{what} needs an owner, or it would speak for the manifests of all others too");
        Err(StoreError::refused("owner", why))
    };
    match owner {
        None if *prune != Prune::Nothing => needs("prune"),
        None if release.is_some() => needs("a release"),
        Some(owner)
            if owner.is_empty() || owner.len() > OWNER_BYTES_MAX || owner.chars().any(char::is_control) =>
        {
            let why = format!("an owner is plain text of 1 to {OWNER_BYTES_MAX} bytes");
            Err(StoreError::refused("owner", why))
        }
        _ => Ok(()),
    }
}

/// Checks manifests, and puts them in the order of their keys.
pub(super) fn by_key(manifests: impl IntoIterator<Item = Manifest>) -> StoreResult<BTreeMap<Name, Manifest>> {
    let mut by_key = BTreeMap::new();
    for mut manifest in manifests {
        // Said or not, it is stored, and compared with what is stored.
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
    door::check_batch(by_key.len())?;
    Ok(by_key)
}

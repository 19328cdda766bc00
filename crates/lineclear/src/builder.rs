//! A node to be: what it runs, on which store, and how.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lineclear_model::{GroupSpec, Manifest, Name, Payload};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::handler::{Given, Handler, Kind, KindOptions, Kinds, States};
use crate::journey::execute::active_jobs::ActiveJobs;
use crate::journey::plan::leadership::Leadership;
use crate::node::hooks::{Hook, Hooks, JobEvent};
use crate::node::loops::Loops;
use crate::node::manifest_files;
use crate::node::manifest_files::Source;
use crate::node::status::Statuses;
use crate::node::{Client, Node, Shared, metrics};
use crate::options::{BadOption, NodeOptions, Role};
use crate::store::{
    Declaration, GLOBAL_GROUP, NodeId, NodeInfo, Prune, Store, StoreChoice, StoreError, main_route,
};

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option cannot be.
    #[error(transparent)]
    Option(#[from] BadOption),
    /// A manifest file cannot be read.
    #[error("manifests in {file}: {why}")]
    Manifests {
        /// Which file.
        file: String,
        /// The line, the manifest and the field, and what is wrong there.
        why: String,
    },
    /// The store could not be opened, or refused a manifest.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A node to be. Nothing happens before [`Builder::start`], and everything is checked there.
#[derive(Default)]
pub struct Builder {
    store: StoreChoice,
    options: NodeOptions,
    /// For people; none: the machine and the process.
    name: Option<String>,
    kind_defaults: KindOptions,
    kinds: Vec<(String, Kind)>,
    states: States,
    declaration: Declaration,
    /// Groups that were given twice, to be refused at the start.
    groups_twice: Vec<String>,
    files: Vec<Source>,
    hooks: Vec<Hook>,
}

impl fmt::Debug for Builder {
    /// Without inputs and states, which may be secret, and without the store's password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&String> = self.kinds.iter().map(|(name, _)| name).collect();
        let manifests: Vec<&Name> = self.declaration.manifests.iter().map(|manifest| &manifest.key).collect();
        f.debug_struct("Builder")
            .field("store", &self.store)
            .field("options", &self.options)
            .field("kinds", &kinds)
            .field("manifests", &manifests)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The store: a SQLite path, `:memory:` or a PostgreSQL URL, [`StoreOptions`](crate::StoreOptions), or a [`Store`]
    /// that is open. `lineclear.db` unless set.
    pub fn store(mut self, store: impl Into<StoreChoice>) -> Builder {
        self.store = store.into();
        self
    }

    /// How the node behaves.
    pub fn options(mut self, options: NodeOptions) -> Builder {
        self.options = options;
        self
    }

    /// What people call this node; `machine/pid` unless given. It need not be unique.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Retries, timeout and route of all kinds that are added after this without options of their own.
    pub fn kind_defaults(mut self, options: KindOptions) -> Builder {
        self.kind_defaults = options;
        self
    }

    /// Code that runs jobs of a kind.
    pub fn kind<P>(self, name: &str, handler: impl Handler<P>) -> Builder {
        let options = self.kind_defaults.clone();
        self.kind_with(name, options, handler)
    }

    /// Code that runs jobs of a kind, with retries, timeout and route of its own.
    pub fn kind_with<P>(mut self, name: &str, options: KindOptions, handler: impl Handler<P>) -> Builder {
        self.kinds.push((name.to_owned(), Kind::new(options, handler)));
        self
    }

    /// Code that runs jobs of a kind, and looks at their inputs before they are saved: what this program enqueues or declares, and
    /// what a server of it is asked to. Other programs may save what they like, so the handler must look as well.
    pub fn kind_checked<P>(
        mut self,
        name: &str,
        check: impl Fn(&Payload) -> Result<(), String> + Send + Sync + 'static,
        handler: impl Handler<P>,
    ) -> Builder {
        let kind = Kind::new(self.kind_defaults.clone(), handler);
        self.kinds.push((name.to_owned(), Kind { check: Some(Arc::new(check)), ..kind }));
        self
    }

    /// A value for all handlers that ask for `State<T>`.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Builder {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
        self
    }

    /// Called with everything that happens to jobs on this node: queued, started, completed, failed, cancelled. Hooks run
    /// one after the other on a thread of their own; one that is slow, hangs or panics costs hooks, and never a job.
    pub fn hook<F>(mut self, hook: impl Fn(JobEvent) -> F + Send + Sync + 'static) -> Builder
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.push(Hook::new(hook));
        self
    }

    /// A standing order, declared at each start. What operators edit later stays, unless the code changes its mind.
    pub fn manifest(mut self, manifest: Manifest) -> Builder {
        self.declaration.manifests.push(manifest);
        self
    }

    /// Manifests and groups from a TOML file, which is read at each start.
    pub fn manifests_from(mut self, path: impl Into<std::path::PathBuf>) -> Builder {
        self.files.push(Source::File(path.into()));
        self
    }

    /// Manifests and groups from TOML that the program has with it, such as `include_str!("jobs.toml")`.
    pub fn manifests_from_text(mut self, toml: impl Into<String>) -> Builder {
        self.files.push(Source::Text(toml.into()));
        self
    }

    /// A group: limit, priority and switch that its manifests and jobs share. Declared at each start, like manifests.
    pub fn group(mut self, name: &str, spec: GroupSpec) -> Builder {
        if self.declaration.groups.insert(name.to_owned(), spec).is_some() {
            self.groups_twice.push(name.to_owned());
        }
        self
    }

    /// At most so many jobs of all kinds together are in the hands of workers at once, over all nodes.
    pub fn global_limit(self, limit: u32) -> Builder {
        self.group(GLOBAL_GROUP, GroupSpec { limit: Some(limit), ..GroupSpec::default() })
    }

    /// Who declares these manifests: nobody else's are touched, and nobody else takes these over.
    pub fn owner(mut self, owner: impl Into<String>) -> Builder {
        self.declaration.owner = Some(owner.into());
        self
    }

    /// What becomes of manifests that this owner declared before and declares no longer. They stay unless this is set.
    pub fn prune(mut self, prune: Prune) -> Builder {
        self.declaration.prune = prune;
        self
    }

    /// Number of this release: once a higher one of the same owner has started, this one declares nothing any more.
    pub fn release(mut self, release: u64) -> Builder {
        self.declaration.release = Some(release);
        self
    }

    /// Opens the store, brings its schema up to date, declares the manifests and starts.
    pub async fn start(mut self) -> Result<Node, StartError> {
        let kinds = self.checked_kinds()?;
        let store = std::mem::take(&mut self.store).open().await?;
        let options = store.options().clone();
        // A database in memory belongs to its store; elsewhere, renewing has a connection of its own.
        let in_memory = !options.is_postgres() && options.file().is_none();
        let renewal_store = match in_memory {
            true => store.clone(),
            false => {
                // Two, so that a renewal that got no answer does not keep the next one waiting.
                let options = options.connections(2).deadline(self.options.renewal).migrate(false);
                Store::open(options).await?
            }
        };
        let shared = self.share(kinds, store).await?;
        // We may be starting in the middle of an outage.
        shared.keep_quiet();
        metrics::describe();
        let runners = Loops::start(&shared, renewal_store)?;
        Ok(Node { shared, runners: Some(runners) })
    }

    /// A client of no node, as [`Client::of_store`] makes it, that looks at inputs as the kinds of this builder do. Nothing else of the
    /// builder is used: nothing is declared, and nothing runs.
    pub fn client_of(self, store: Store) -> Result<Client, StartError> {
        let kinds = named(self.kinds, &self.states)?;
        Ok(Client { shared: of_no_node(store, kinds)? })
    }

    /// Checks all that can be checked before a store is opened, and reads the files.
    pub(crate) fn checked_kinds(&mut self) -> Result<Kinds, StartError> {
        self.options.check()?;
        if let Some(name) = &self.name
            && (name.trim().is_empty()
                || name.chars().count() > NAME_CHARS_MAX
                || name.chars().any(char::is_control))
        {
            let why = format!("{name:?}: a node's name has 1 to {NAME_CHARS_MAX} characters in one line");
            return Err(BadOption { option: "name", why }.into());
        }
        let kinds = named(std::mem::take(&mut self.kinds), &self.states)?;
        let groups_twice = manifest_files::read(std::mem::take(&mut self.files), &mut self.declaration)?;
        if let Some(name) = self.groups_twice.first().or(groups_twice.first()) {
            let why = format!("{name} was given twice; one of them would be ignored");
            return Err(BadOption { option: "group", why }.into());
        }
        Ok(kinds)
    }

    /// Declares what there is to declare, on a store that is open; nothing runs yet.
    pub(crate) async fn share(self, kinds: Kinds, store: Store) -> Result<Arc<Shared>, StartError> {
        let mut declaration = self.declaration;
        for manifest in &declaration.manifests {
            check_input(&kinds, &manifest.kind, &manifest.input)
                .map_err(|why| BadOption { option: "manifest", why: format!("{}: {why}", manifest.key) })?;
        }
        let manifests = std::mem::take(&mut declaration.manifests).into_iter();
        declaration.manifests = manifests.map(|manifest| on_its_kinds_route(manifest, &kinds)).collect();
        store.declare(declaration).await?;
        let info = info(&self.options, &kinds);
        let info = NodeInfo { name: self.name.unwrap_or(info.name), ..info };
        let id = store.heartbeat(info.clone()).await?.id;
        let parts = Parts { store, id, info, kinds };
        Ok(parts.put_together(self.options, self.states, self.hooks)?)
    }
}

/// What a node is made of, and a handle without one.
struct Parts {
    store: Store,
    id: NodeId,
    info: NodeInfo,
    kinds: Kinds,
}

impl Parts {
    fn put_together(
        self,
        options: NodeOptions,
        states: States,
        hooks: Vec<Hook>,
    ) -> std::io::Result<Arc<Shared>> {
        let Parts { store, id, info, kinds } = self;
        Ok(Arc::new(Shared {
            store,
            id,
            info,
            options,
            kinds,
            states: Arc::new(states),
            running: ActiveJobs::new(),
            hooks: Hooks::start(hooks)?,
            log_turn: tokio::sync::Mutex::default(),
            isolation: Default::default(),
            drain: crate::node::drain::Drain::default(),
            statuses: Statuses::default(),
            leadership: Leadership::default(),
            quiet_until: Mutex::new(Instant::now()),
            settings: crate::node::settings::Obeyed::default(),
            waiters: crate::node::waiters::Waiters::default(),
            nudge: Notify::new(),
            stopping: CancellationToken::new(),
        }))
    }
}

/// A handle of no node: no other sees it, and it runs nothing; of its kinds it has only what they look for in inputs.
pub(crate) fn of_no_node(store: Store, kinds: Kinds) -> std::io::Result<Arc<Shared>> {
    let options = NodeOptions::default();
    let info = info(&options, &Kinds::new());
    let parts = Parts { store, id: NodeId(0), info, kinds };
    parts.put_together(options, States::default(), Vec::new())
}

/// A manifest that names no route waits on the route of its kind, where its workers are.
fn on_its_kinds_route(manifest: Manifest, kinds: &Kinds) -> Manifest {
    match kinds.get(&manifest.kind) {
        Some(kind) if manifest.route == main_route() => {
            Manifest { route: kind.options.route.clone(), ..manifest }
        }
        _ => manifest,
    }
}

/// What is wrong with an input, as far as its kind can tell before it runs.
pub(crate) fn check_input(kinds: &Kinds, kind: &Name, input: &Payload) -> Result<(), String> {
    match kinds.get(kind).and_then(|kind| kind.check.as_ref()) {
        Some(check) => check(input).map_err(|why| format!("the input does not fit the kind {kind}: {why}")),
        None => Ok(()),
    }
}

fn named(kinds: Vec<(String, Kind)>, states: &States) -> Result<Kinds, BadOption> {
    let mut known = Kinds::new();
    for (name, kind) in kinds {
        let bad = |why: String| BadOption { option: "kind", why };
        let name = Name::new(name.clone()).map_err(|e| bad(format!("{name:?}: {e}")))?;
        kind.options.retry.check().map_err(|e| bad(format!("{name}: {e}")))?;
        if let Some(missing) = (kind.missing)(&Given(states)) {
            return Err(BadOption { option: "state", why: format!("kind {name} cannot run: {missing}") });
        }
        if known.insert(name.clone(), kind).is_some() {
            return Err(bad(format!("{name} was given two handlers; one of them would never run")));
        }
    }
    Ok(known)
}

/// The routes that a node serves: those it was given, or those of its kinds; a dispatcher without workers has none, and
/// serves `main`.
pub(crate) fn routes(options: &NodeOptions, kinds: &Kinds) -> BTreeSet<Name> {
    let mut routes: BTreeSet<Name> = options.routes.iter().cloned().collect();
    if routes.is_empty() {
        routes = kinds.values().map(|kind| kind.options.route.clone()).collect();
    }
    if routes.is_empty() && options.has(Role::Dispatcher) && !options.has(Role::Workers) {
        routes.insert(main_route());
    }
    routes
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".to_owned());
    host.trim().to_owned()
}

/// Longest name of a node.
const NAME_CHARS_MAX: usize = 100;

/// How the node describes itself.
fn info(options: &NodeOptions, kinds: &Kinds) -> NodeInfo {
    let (host, pid) = (host(), std::process::id());
    let json = |words: Vec<String>| serde_json::to_string(&words).expect("words are JSON");
    NodeInfo {
        name: format!("{host}/{pid}"),
        host,
        pid,
        // A process id comes again, and one process may have several nodes.
        incarnation: uuid::Uuid::new_v4().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: json(options.roles.iter().map(|role| role.as_str().to_owned()).collect()),
        routes: json(routes(options, kinds).iter().map(ToString::to_string).collect()),
        kinds: json(kinds.keys().map(ToString::to_string).collect::<BTreeSet<_>>().into_iter().collect()),
        slots: options.slots,
        runners: "{}".to_owned(),
    }
}

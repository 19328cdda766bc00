//! Builds and starts a node.

mod kinds;
mod node_info;
mod shared;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use lineclear_model::{GroupSpec, Manifest, Name, Payload};

use crate::builder::kinds::with_route_of_kind;
use crate::builder::node_info::{node_info, submitter_info};
use crate::builder::shared::Parts;
use crate::handler::{Given, Handler, HandlerError, Kind, KindOptions, Kinds, States};
use crate::journey::submit::claim_token::cluster_id;
use crate::journey::submit::routes::declared_routes;
use crate::node::hooks::{Hook, JobEvent};
use crate::node::loops::Loops;
use crate::node::manifest_files;
use crate::node::manifest_files::Source;
use crate::node::{Client, Node, Shared, metrics};
use crate::options::{BadOption, NodeOptions};
use crate::secrets::{Resolver, SecretRequest};
use crate::store::{Declaration, GLOBAL_GROUP, NodeInfo, Prune, Store, StoreError, StoreTarget};
use crate::submitters::Submitter;
use crate::submitters::routing::{Declared, Routing};

pub(crate) use crate::builder::kinds::{check_input, check_kinds};
pub(crate) use crate::builder::node_info::{host, routes, submitter_routes};
pub(crate) use crate::builder::shared::without_node;

/// Longest name of a node.
const NAME_CHARS_MAX: usize = 100;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option is invalid.
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
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Builds a node. [`Builder::start`] checks everything; nothing happens before.
#[derive(Default)]
pub struct Builder {
    store: StoreTarget,
    options: NodeOptions,
    /// `None`: the host and the process id.
    name: Option<String>,
    kind_defaults: KindOptions,
    kinds: Vec<(String, Kind)>,
    states: States,
    declaration: Declaration,
    /// Groups that were given twice, which `start` refuses.
    duplicate_groups: Vec<String>,
    files: Vec<Source>,
    hooks: Vec<Hook>,
    secrets: Option<Resolver>,
    submitters: Declared,
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
    /// The store: a SQLite path, `:memory:` or a PostgreSQL URL, [`StoreOptions`](crate::StoreOptions), or an open [`Store`].
    /// Default: `lineclear.db`.
    pub fn store(mut self, store: impl Into<StoreTarget>) -> Builder {
        self.store = store.into();
        self
    }

    /// The options of the node.
    pub fn options(mut self, options: NodeOptions) -> Builder {
        self.options = options;
        self
    }

    /// The name of the node; need not be unique. Default: `host/pid`.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Options for all kinds that are added after this without their own.
    pub fn kind_defaults(mut self, options: KindOptions) -> Builder {
        self.kind_defaults = options;
        self
    }

    /// Adds a handler for a kind.
    pub fn kind<P>(self, name: &str, handler: impl Handler<P>) -> Builder {
        let options = self.kind_defaults.clone();
        self.kind_with(name, options, handler)
    }

    /// Adds a handler for a kind, with its own options.
    pub fn kind_with<P>(mut self, name: &str, options: KindOptions, handler: impl Handler<P>) -> Builder {
        self.kinds.push((name.to_owned(), Kind::new(options, handler)));
        self
    }

    /// Adds a handler for a kind, and a check of its inputs before they are stored: those that this program enqueues or declares,
    /// and those that its server receives. Other programs can store anything, so the handler must check as well.
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

    /// Adds a value for handlers with a parameter `State<T>`.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Builder {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
        self
    }

    /// Where secrets come from that inputs name as `{"$secret": "name"}`: [`SecretSources`](crate::secrets::SecretSources), or a
    /// function of yours, which can also refuse a secret to a kind. It is called for every execution.
    pub fn secrets<F>(mut self, resolve: impl Fn(SecretRequest) -> F + Send + Sync + 'static) -> Builder
    where
        F: Future<Output = Result<String, HandlerError>> + Send + 'static,
    {
        self.secrets = Some(Arc::new(move |request| Box::pin(resolve(request))));
        self
    }

    /// Adds a hook for the events of jobs on this node: queued, started, completed, failed, cancelled. Hooks run one after the
    /// other on a thread of their own; one that is slow, hangs or panics delays other hooks, and never a job.
    pub fn hook<F>(mut self, hook: impl Fn(JobEvent) -> F + Send + Sync + 'static) -> Builder
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.push(Hook::new(hook));
        self
    }

    /// Adds a submitter, which hands jobs to another system; [`Builder::submit_to`] says which kinds go there. See
    /// [`submitters`](crate::submitters).
    pub fn submitter(mut self, name: &str, submitter: impl Submitter) -> Builder {
        self.submitters.submitters.push((name.to_owned(), Arc::new(submitter)));
        self
    }

    /// Sends the jobs of these kinds to a submitter: one that was added, `pull` for remote workers, `inline` to run the handler
    /// inside the call that enqueues the job, or `local`, the default for kinds with a handler.
    pub fn submit_to<'a>(mut self, submitter: &str, kinds: impl IntoIterator<Item = &'a str>) -> Builder {
        let routed = kinds.into_iter().map(|kind| (kind.to_owned(), submitter.to_owned(), None));
        self.submitters.routed.extend(routed);
        self
    }

    /// Like [`Builder::submit_to`], with options for the kind. Its `route` is that of the submitter.
    pub fn submit_to_with(mut self, submitter: &str, kind: &str, options: KindOptions) -> Builder {
        self.submitters.routed.push((kind.to_owned(), submitter.to_owned(), Some(options)));
        self
    }

    /// Sends jobs of kinds that this node does not know to a submitter. Default: they wait for a node that knows their kind.
    pub fn default_submitter(mut self, submitter: &str) -> Builder {
        self.submitters.default = Some(submitter.to_owned());
        self
    }

    /// Runs every handler inside the call that enqueues its job, and nothing in the background: no workers, no planner. For
    /// tests, scripts and local development; `:memory:` as the store needs no file.
    pub fn inline(mut self) -> Builder {
        self.submitters.inline = true;
        self
    }

    /// Adds a manifest, which is declared at each start. Edits of operators stay, unless the code declares another value.
    pub fn manifest(mut self, manifest: Manifest) -> Builder {
        self.declaration.manifests.push(manifest);
        self
    }

    /// Adds manifests and groups from a TOML file, which is read at each start.
    pub fn manifests_from(mut self, path: impl Into<std::path::PathBuf>) -> Builder {
        self.files.push(Source::File(path.into()));
        self
    }

    /// Adds manifests and groups from TOML text, such as `include_str!("jobs.toml")`.
    pub fn manifests_from_text(mut self, toml: impl Into<String>) -> Builder {
        self.files.push(Source::Text(toml.into()));
        self
    }

    /// Adds a group: a limit, a priority and a switch that its manifests and jobs share. Declared at each start.
    pub fn group(mut self, name: &str, spec: GroupSpec) -> Builder {
        if self.declaration.groups.insert(name.to_owned(), spec).is_some() {
            self.duplicate_groups.push(name.to_owned());
        }
        self
    }

    /// Limits the active jobs of all kinds together, over all nodes.
    pub fn global_limit(self, limit: u32) -> Builder {
        self.group(GLOBAL_GROUP, GroupSpec { limit: Some(limit), ..GroupSpec::default() })
    }

    /// The owner of these manifests: declarations of other owners do not change them, nor do these change others.
    pub fn owner(mut self, owner: impl Into<String>) -> Builder {
        self.declaration.owner = Some(owner.into());
        self
    }

    /// What happens to manifests of this owner that are no longer declared. Default: they stay.
    pub fn prune(mut self, prune: Prune) -> Builder {
        self.declaration.prune = prune;
        self
    }

    /// The number of this release: once a higher one of the same owner has started, this one declares nothing.
    pub fn release(mut self, release: u64) -> Builder {
        self.declaration.release = Some(release);
        self
    }

    /// Opens the store, migrates its schema, declares the manifests and starts the node.
    pub async fn start(mut self) -> Result<Node, StartError> {
        let (kinds, routing) = self.checked_kinds()?;
        let is_inline = routing.is_inline;
        let store = std::mem::take(&mut self.store).open().await?;
        if is_inline {
            return Ok(Node { shared: self.share(kinds, routing, store).await?, runners: None });
        }
        let options = store.options().clone();
        // Renewal has connections of its own, except in memory, where a database belongs to one store.
        let renewal_store = match options.is_in_memory() {
            true => store.clone(),
            false => {
                // Two, so that a renewal without an answer does not delay the next.
                let options = options.connections(2).deadline(self.options.renewal).migrate(false);
                Store::open(options).await?
            }
        };
        let shared = self.share(kinds, routing, store).await?;
        // The node may start during an outage.
        shared.caution.keep_quiet();
        metrics::describe();
        let runners = Loops::start(&shared, renewal_store)?;
        Ok(Node { shared, runners: Some(runners) })
    }

    /// A client without a node, like [`Client::of_store`], that checks inputs with the kinds of this builder. Uses nothing else of
    /// the builder: declares nothing, and runs nothing.
    pub fn client_of(self, store: Store) -> Result<Client, StartError> {
        let kinds = check_kinds(self.kinds, Given::of_node(&self.states))?;
        Ok(Client { shared: without_node(store, kinds)? })
    }

    /// Checks what can be checked before the store is opened, and reads the manifest files.
    pub(crate) fn checked_kinds(&mut self) -> Result<(Kinds, Routing), StartError> {
        self.options.check()?;
        if let Some(name) = &self.name
            && (name.trim().is_empty()
                || name.chars().count() > NAME_CHARS_MAX
                || name.chars().any(char::is_control))
        {
            let why = format!("{name:?}: `name` must have 1 to {NAME_CHARS_MAX} characters in one line");
            return Err(BadOption { option: "name", why }.into());
        }
        let mut kinds = check_kinds(std::mem::take(&mut self.kinds), Given::of_node(&self.states))?;
        let routing = std::mem::take(&mut self.submitters).check(&mut kinds, &self.kind_defaults)?;
        let in_files = manifest_files::read(std::mem::take(&mut self.files), &mut self.declaration)?;
        if let Some(name) = self.duplicate_groups.first().or(in_files.first()) {
            let why = format!("{name} is given twice; one of them would be ignored");
            return Err(BadOption { option: "group", why }.into());
        }
        Ok((kinds, routing))
    }

    /// Declares groups and manifests, and registers the node; nothing runs yet.
    pub(crate) async fn share(
        self,
        kinds: Kinds,
        routing: Routing,
        store: Store,
    ) -> Result<Arc<Shared>, StartError> {
        let mut declaration = self.declaration;
        for manifest in &declaration.manifests {
            check_input(&kinds, &manifest.kind, &manifest.input)
                .map_err(|why| BadOption { option: "manifest", why: format!("{}: {why}", manifest.key) })?;
        }
        let manifests = std::mem::take(&mut declaration.manifests).into_iter();
        declaration.manifests = manifests.map(|manifest| with_route_of_kind(manifest, &kinds)).collect();
        store.declare(declaration).await?;
        let info = node_info(&self.options, &kinds, &routing);
        let info = NodeInfo { name: self.name.unwrap_or(info.name), ..info };
        let beat = store.heartbeat(info.clone()).await?;
        let (id, beaten_at) = (beat.id, Instant::now());
        let cluster = cluster_id(&store).await?;
        for to in routing.submitters.values() {
            to.join(&cluster);
            let holder = submitter_info(&to.name, &to.status(), &kinds);
            // Set once: the routing is new.
            let _ = to.holder.set(store.heartbeat(holder).await?.id);
        }
        let parts = Parts { store, id, info, kinds, secrets: self.secrets, routing, cluster: Some(cluster) };
        let shared = parts.assemble(self.options, self.states, self.hooks)?;
        let passed = i64::try_from(beaten_at.elapsed().as_micros()).unwrap_or(i64::MAX);
        shared.note_clock(beaten_at, beat.now.offset(passed));
        shared.store.route_kinds(&declared_routes(&shared)).await?;
        Ok(shared)
    }
}

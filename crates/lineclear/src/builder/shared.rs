//! Assembles the state that the loops and handlers of a node share.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::builder::node_info::node_info;
use crate::handler::{Kinds, States};
use crate::journey::claim::take_back::LateClaims;
use crate::journey::dispatch::promoter::Promotion;
use crate::journey::execute::active_jobs::ActiveJobs;
use crate::journey::execute::slots::Slots;
use crate::journey::plan::leadership::Leadership;
use crate::journey::submit::claim_token::ClaimTokens;
use crate::journey::submit::polls::Polls;
use crate::journey::submit::submission::ManifestKeys;
use crate::journey::submit::workers::RemoteWorkers;
use crate::node::Shared;
use crate::node::caution::Caution;
use crate::node::hooks::{Hook, Hooks};
use crate::node::status::Statuses;
use crate::options::NodeOptions;
use crate::secrets::Resolver;
use crate::store::{NodeId, NodeInfo, Store};
use crate::submitters::routing::Routing;

/// What differs between a node and a client without one.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) id: NodeId,
    pub(crate) info: NodeInfo,
    pub(crate) kinds: Kinds,
    pub(crate) secrets: Option<Resolver>,
    pub(crate) routing: Routing,
    pub(crate) cluster: Option<String>,
}

impl Parts {
    /// Assembles the shared state of a node; nothing runs yet.
    pub(crate) fn assemble(
        self,
        options: NodeOptions,
        states: States,
        hooks: Vec<Hook>,
    ) -> std::io::Result<Arc<Shared>> {
        let caution = Caution::new(&options);
        let Parts { store, id, info, kinds, secrets, routing, cluster } = self;
        Ok(Arc::new(Shared {
            loop_store: store.for_loops(),
            store,
            id,
            info,
            options,
            kinds,
            routing,
            polls: Polls::default(),
            remote_workers: RemoteWorkers::default(),
            report_soon: Notify::new(),
            claim_tokens: ClaimTokens::default(),
            cluster,
            manifest_keys: ManifestKeys::default(),
            states: Arc::new(states),
            secrets,
            running: ActiveJobs::new(),
            slots: Slots::default(),
            hooks: Hooks::start(hooks)?,
            log_turn: tokio::sync::Mutex::default(),
            isolation: Default::default(),
            drain: crate::node::drain::Drain::default(),
            statuses: Statuses::default(),
            leadership: Leadership::default(),
            caution,
            late_claims: LateClaims::default(),
            settings: crate::node::settings::Obeyed::default(),
            waiters: crate::node::waiters::Waiters::default(),
            nudge: Notify::new(),
            promotion: Promotion::default(),
            stopping: CancellationToken::new(),
        }))
    }
}

/// The state of a client without a node: it has no row in the database and runs nothing; its kinds only check inputs.
pub(crate) fn without_node(store: Store, kinds: Kinds) -> std::io::Result<Arc<Shared>> {
    let options = NodeOptions::default();
    let info = node_info(&options, &Kinds::new(), &Routing::default());
    let routing = Routing::default();
    let parts = Parts { store, id: NodeId(0), info, kinds, secrets: None, routing, cluster: None };
    parts.assemble(options, States::default(), Vec::new())
}

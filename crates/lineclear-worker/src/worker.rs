//! A worker: handlers by kind, and what they share.

use std::fmt;

use lineclear::HandlerError;
use lineclear::handler::Handler;
use lineclear::outbound::Secret;
use lineclear::remote::{Registry, RegistryBuilder};
use lineclear::secrets::SecretRequest;

use crate::endpoint::Endpoint;
use crate::error::WorkerError;
use crate::pull::PullWorker;
use crate::wire::api;

/// Builds a [`Worker`].
#[derive(Debug, Default)]
pub struct WorkerBuilder(RegistryBuilder);

impl WorkerBuilder {
    /// Adds a handler for a kind: a function whose parameters are those of a handler on a node, except
    /// [`Client`](lineclear::Client), [`Parents`](lineclear::Parents) and [`Dependents`](lineclear::Dependents), which need the
    /// database.
    pub fn kind<P>(self, name: &str, handler: impl Handler<P>) -> WorkerBuilder {
        WorkerBuilder(self.0.kind(name, handler))
    }

    /// Adds a value for handlers with a parameter `State<T>`.
    pub fn state<T: Send + Sync + 'static>(self, state: T) -> WorkerBuilder {
        WorkerBuilder(self.0.state(state))
    }

    /// Where secrets come from that inputs name as `{"$secret": "name"}`: the server resolves none for remote workers.
    pub fn secrets<F>(self, resolve: impl Fn(SecretRequest) -> F + Send + Sync + 'static) -> WorkerBuilder
    where
        F: Future<Output = Result<String, HandlerError>> + Send + 'static,
    {
        WorkerBuilder(self.0.secrets(resolve))
    }

    /// Checks that each handler has what it needs. Nothing happens yet.
    pub fn build(self) -> Result<Worker, WorkerError> {
        Ok(Worker { registry: self.0.build()?, http: api::client()? })
    }
}

/// Handlers that run jobs of a server. Cheap to clone.
#[derive(Clone)]
pub struct Worker {
    registry: Registry,
    /// For callbacks of the endpoint.
    http: reqwest::Client,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("kinds", &self.registry.kinds()).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker without handlers.
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder::default()
    }

    /// Pulls jobs from the server at this URL, with a token of the scope `worker`; without one from a server that needs none.
    /// Nothing happens before it [runs](PullWorker::run_until_stopped).
    pub fn pull(&self, server: impl Into<String>, token: impl Into<Option<String>>) -> PullWorker {
        PullWorker::new(self.registry.clone(), server.into(), token.into())
    }

    /// The endpoint for jobs that a server pushes, as `POST /`. Calls must be signed with one of these secrets; during a rotation
    /// there are two. See [`Endpoint`] for its options.
    pub fn router(&self, secrets: impl IntoIterator<Item = Secret>) -> axum::Router {
        self.endpoint(secrets).router()
    }

    /// Like [`Worker::router`], with options.
    pub fn endpoint(&self, secrets: impl IntoIterator<Item = Secret>) -> Endpoint {
        Endpoint::new(self.registry.clone(), self.http.clone(), secrets.into_iter().collect())
    }
}

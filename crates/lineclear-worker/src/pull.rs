//! A worker that pulls jobs over HTTP.

mod active_claims;
mod backoff;
mod poller;
mod renewer;
mod reporter;
mod session;
mod settler;
mod skipped;
mod steps;

pub(crate) use steps::{finished, recorder_error};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lineclear::node::{BadOption, Signals};
use lineclear::remote::Registry;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::WorkerError;
use crate::pull::poller::Poller;
use crate::pull::renewer::Renewer;
use crate::pull::session::Session;

/// Slots at most: jobs of one request.
const SLOTS_MAX: u32 = 1_000;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// How long handlers may still run when the worker stops.
const GRACE: Duration = Duration::from_secs(30);

/// A worker that pulls jobs from a server; see [`Worker::pull`](crate::Worker::pull).
///
/// It renews the leases of its jobs, tells handlers to stop whose job was cancelled or whose lease is lost, and sends results until
/// the server has them. A server that restarts, or whose answers are lost, costs no job.
pub struct PullWorker {
    registry: Registry,
    server: String,
    token: Option<String>,
    name: Option<String>,
    slots: u32,
    grace: Duration,
}

impl fmt::Debug for PullWorker {
    /// Without its token, and without a password in the URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kinds, slots) = (self.registry.kinds(), self.slots);
        f.debug_struct("PullWorker").field("kinds", &kinds).field("slots", &slots).finish_non_exhaustive()
    }
}

impl PullWorker {
    pub(crate) fn new(registry: Registry, server: String, token: Option<String>) -> PullWorker {
        PullWorker { registry, server, token, name: None, slots: 10, grace: GRACE }
    }

    /// How many jobs run at once, 1 to 1,000. Default: 10.
    pub fn slots(mut self, slots: u32) -> PullWorker {
        self.slots = slots;
        self
    }

    /// The name of the worker, for people; need not be unique. Default: `host/pid`.
    pub fn name(mut self, name: impl Into<String>) -> PullWorker {
        self.name = Some(name.into());
        self
    }

    /// How long handlers may still run when the worker stops; then they are told to stop, and their jobs go back to the queue.
    /// Default: 30 seconds.
    pub fn grace(mut self, grace: Duration) -> PullWorker {
        self.grace = grace;
        self
    }

    /// Runs jobs until SIGTERM or Ctrl-C, then stops like [`PullWorker::run_until`]. A second signal ends the grace period.
    pub async fn run_until_stopped(self) -> Result<(), WorkerError> {
        let mut signals = Signals::new()?;
        let (first, second) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let (asked, hurried) = (first.clone(), second.clone());
        let listening = tokio::spawn(async move {
            signals.next().await;
            asked.notify_one();
            signals.next().await;
            hurried.notify_one();
        });
        let ran = self.run(first.notified(), second.notified()).await;
        listening.abort();
        ran
    }

    /// Runs jobs until `stop` is ready, or the server refuses this worker. Then it takes no more jobs, waits for its handlers for
    /// the grace period, releases the jobs of those that still run, and leaves the server.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), WorkerError> {
        self.run(stop, std::future::pending()).await
    }

    async fn run(
        self,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> Result<(), WorkerError> {
        self.check()?;
        let grace = self.grace;
        let session = Arc::new(self.session()?);
        let renewer = Renewer::start(session.clone())?;
        // As many handlers as there are may end at once.
        let (ended, outcomes) = mpsc::channel(SLOTS_MAX as usize);
        let settler = tokio::spawn(settler::settle(session.clone(), outcomes));
        let reporter = tokio::spawn(reporter::report(session.clone()));
        let mut poller = Poller::new(session.clone(), ended);
        let ran = tokio::select! {
            refused = poller.poll() => Err(refused),
            () = stop => Ok(()),
        };
        tracing::info!(worker = session.worker.id, running = session.active.count(), "the worker stops");
        poller.release_lost().await;
        // The settler ends when no handler is left that could end.
        drop(poller);
        end(&session, settler, grace, hurry).await;
        reporter.abort();
        drop(renewer);
        session.leave().await;
        ran
    }

    fn check(&self) -> Result<(), BadOption> {
        let bad = |option, why: String| Err(BadOption { option, why });
        if !(1..=SLOTS_MAX).contains(&self.slots) {
            return bad("slots", format!("`slots` must be between 1 and {SLOTS_MAX}"));
        }
        if let Some(name) = &self.name
            && (name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control))
        {
            return bad("name", format!("`name` must have 1 to {NAME_BYTES_MAX} bytes in one line"));
        }
        let url: Option<reqwest::Url> = self.server.parse().ok();
        if !url.is_some_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host()) {
            let why = "`server` must be the URL of a server, such as https://jobs.example.com".to_owned();
            return bad("server", why);
        }
        Ok(())
    }

    fn session(self) -> Result<Session, WorkerError> {
        let PullWorker { registry, server, token, name, slots, .. } = self;
        Session::new(registry, &server, token.as_deref(), name, slots)
    }
}

/// Waits for the handlers, and for the last result.
async fn end(
    session: &Session,
    mut settler: JoinHandle<()>,
    grace: Duration,
    hurry: impl Future<Output = ()>,
) {
    tokio::select! {
        _ = &mut settler => return,
        () = tokio::time::sleep(grace) => {}
        () = hurry => {}
    }
    session.active.shut_down_all();
    // A handler that does not listen is dropped after five seconds.
    drop(settler.await);
}

//! What the parts of a running pull worker share.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lineclear::log_fold::LogFold;
use lineclear::remote::Registry;
use lineclear_model::Name;
use serde::Serialize;
use tokio::sync::watch;

use crate::error::WorkerError;
use crate::pull::active_claims::ActiveClaims;
use crate::wire::api::{self, Api, CallError};

/// How long a call may take, unless it waits for jobs.
pub(crate) const CALL: Duration = Duration::from_secs(10);
/// The length of a lease, until the server says it.
const LEASE: Duration = Duration::from_secs(30);
/// Attempts to leave the server.
const LEAVE_ATTEMPTS: u32 = 3;
/// One line a period.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// This process, as the server shows it.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerInfo {
    /// New for each start.
    pub(crate) id: String,
    name: String,
    host: String,
    pid: u32,
    version: &'static str,
}

/// A pull worker that runs.
pub(crate) struct Session {
    pub(crate) api: Api,
    pub(crate) worker: WorkerInfo,
    pub(crate) registry: Registry,
    pub(crate) kinds: Vec<Name>,
    pub(crate) slots: u32,
    pub(crate) active: ActiveClaims,
    /// The server wants that the worker takes no more jobs.
    pub(crate) drains: watch::Sender<bool>,
    /// Lines that one task sends count as unsent for others, so they wait for it.
    pub(crate) log_turn: tokio::sync::Mutex<()>,
    lease: Mutex<Duration>,
    log: LogFold<&'static str>,
}

impl Session {
    pub(crate) fn new(
        registry: Registry,
        server: &str,
        token: Option<&str>,
        name: Option<String>,
        slots: u32,
    ) -> Result<Session, WorkerError> {
        let bad = |why| lineclear::node::BadOption { option: "token", why };
        let api = Api::new(api::client()?, &format!("{}/api/v1", server.trim_end_matches('/')), token);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = match host.trim() {
            "" => "unknown".to_owned(),
            host => host.to_owned(),
        };
        let pid = std::process::id();
        let worker = WorkerInfo {
            id: uuid::Uuid::new_v4().to_string(),
            name: name.unwrap_or_else(|| format!("{host}/{pid}")),
            host,
            pid,
            version: concat!("lineclear-worker/", env!("CARGO_PKG_VERSION")),
        };
        Ok(Session {
            api: api.map_err(bad)?,
            worker,
            kinds: registry.kinds(),
            registry,
            slots,
            active: ActiveClaims::default(),
            drains: watch::Sender::new(false),
            log_turn: tokio::sync::Mutex::default(),
            lease: Mutex::new(LEASE),
            log: LogFold::new(WARN_EVERY),
        })
    }

    /// How long a lease lasts.
    pub(crate) fn lease(&self) -> Duration {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a call about leases may take: an answer that is lost is noticed before they end.
    pub(crate) fn call_timeout(&self) -> Duration {
        CALL.min(self.lease() / 3)
    }

    pub(crate) fn set_lease(&self, lease: Duration) {
        // A lease of nothing would be renewed without end.
        let lease = lease.max(Duration::from_millis(100));
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }

    /// Notes whether the server wants that the worker takes no more jobs.
    pub(crate) fn set_drains(&self, drains: bool) {
        self.drains.send_if_modified(|known| std::mem::replace(known, drains) != drains);
    }

    /// Warns of a call that failed, once in a while.
    pub(crate) fn warn(&self, what: &'static str, error: &CallError) {
        if let Some(left_out) = self.log.note(&what) {
            tracing::warn!(worker = self.worker.id, %error, left_out, "{what}");
        }
    }

    /// Leaves the server, which gives back what this worker may still hold.
    pub(crate) async fn leave(&self) {
        let path = format!("/workers/{}", self.worker.id);
        for _ in 0..LEAVE_ATTEMPTS {
            match self.api.delete(&path, CALL).await {
                Ok(()) => return,
                Err(error) => self.warn("cannot leave the server", &error),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

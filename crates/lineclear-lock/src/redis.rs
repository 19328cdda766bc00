//! Locks in Redis: the lock's key holds a fresh UUID v4 and expires, as in many programs, so that these and ours exclude each other. A second
//! key, which does not expire, has the last holder and its epoch.
//!
//! A Redis may forget locks (a restart, a failover, full memory). Then two processes may hold a lock: the epoch tells them apart, and the
//! database that has the effects must check it.

mod warnings;
mod pubsub;
mod connection;
mod options;

use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use redis::{Client, Script, ScriptInvocation, cmd};

use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, LossSignal, Promises,
    Released,
};
use crate::error::LockError;
use crate::name::{Epoch, LockName};
use crate::options::LockOptions;
use connection::Connection;
use pubsub::ReleaseListener;

pub use options::{AUTO_REFRESH_LOCK, RedisOptions, auto_refresh};
pub use warnings::Warning;

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_acquire.lua")));
static EXTEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_extend.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_release.lua")));
static BREAK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_break.lua")));
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_read.lua")));

/// The prefix of the keys with the last holders. The key of a lock must not begin with it.
const HOLDER_PREFIX: &str = "lineclear:lock:";

/// Locks in Redis.
#[derive(Clone, Debug)]
pub struct Redis(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: RedisOptions,
    /// Carries all requests but acquisitions that wait for replicas.
    connection: Connection,
    /// Carries acquisitions that wait for replicas, because `WAIT` blocks the requests behind it.
    replicated: Option<Connection>,
    listener: Arc<ReleaseListener>,
    warnings: Mutex<Vec<Warning>>,
}

impl Redis {
    /// Locks in the Redis that a URL names, with the options in the URL; see [`RedisOptions`].
    pub fn new(url: &str, lock: &LockOptions) -> Result<Redis, LockError> {
        let (address, options) = RedisOptions::of_url(url)?;
        Redis::with(address, options, lock)
    }

    /// Locks in the Redis at this address (`redis://user:password@host:port/number`).
    pub fn with(address: &str, options: RedisOptions, lock: &LockOptions) -> Result<Redis, LockError> {
        options.check(lock)?;
        if address.starts_with("rediss:") {
            return Err(LockError::refused("lock_url", "this program was built without TLS for Redis"));
        }
        let client =
            Client::open(address).map_err(|error| LockError::refused("lock_url", error.to_string()))?;
        // Half of the caller's limit, so that there is time for another connection.
        let within = lock.request_timeout / 2;
        let replicated = (options.replicas > 0)
            .then(|| Connection::new(client.clone(), within + options.replicas_timeout));
        let (listener, connection) = (ReleaseListener::new(client.clone()), Connection::new(client, within));
        Ok(Redis(Arc::new(Inner { options, connection, replicated, listener, warnings: Mutex::default() })))
    }

    /// Why this Redis may lose locks, as checked when it was opened.
    pub fn warnings(&self) -> Vec<Warning> {
        self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn check_server(&self) -> Result<(), LockError> {
        let (mut session, _) = self.0.connection.session().await?;
        // Otherwise the first use of each script takes three round trips.
        for script in [&ACQUIRE, &EXTEND, &RELEASE, &READ] {
            self.0.connection.load(&mut session, script).await?;
        }
        let info: String = match self.0.connection.command(&mut session, &cmd("INFO")).await {
            Ok(info) => info,
            // `INFO` may be forbidden, and is not needed for locks.
            Err(LockError::Failed { source }) => {
                tracing::warn!(error = %source, "cannot check whether this Redis may lose locks");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let warnings = warnings::read(&info, self.0.replicated.is_some())?;
        for warning in &warnings {
            tracing::warn!("this Redis may lose locks: {warning}");
        }
        *self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
        Ok(())
    }

    /// The lock's key, and the one holder_key it.
    fn keys(&self, name: &LockName) -> Result<(String, String), LockError> {
        let key = format!("{}{name}", self.0.options.prefix);
        if key.starts_with(HOLDER_PREFIX) {
            let why = format!("with the prefix, must not begin with {HOLDER_PREFIX}, which is reserved");
            return Err(LockError::refused("lock_name", why));
        }
        let holder_key = format!("{HOLDER_PREFIX}{key}");
        Ok((key, holder_key))
    }

    async fn acquire_now(&self, request: &LockRequest) -> Result<Option<Grant>, LockError> {
        let (key, holder_key) = self.keys(&request.name)?;
        let acquire = |again: &str| {
            let mut acquire = ACQUIRE.prepare_invoke();
            acquire.key(&key).key(&holder_key).arg(request.token.to_string()).arg(millis(request.ttl));
            acquire
                .arg(request.holder.to_string())
                .arg(request.kind.as_deref().unwrap_or_default())
                .arg(again);
            acquire
        };
        let connection = self.0.replicated.as_ref().unwrap_or(&self.0.connection);
        let (epoch, mut session) = connection.script::<Option<i64>>(&acquire("0"), &acquire("1")).await?;
        let Some(epoch) = epoch else { return Ok(None) };
        if let Some(connection) = &self.0.replicated {
            let (wanted, within) = (self.0.options.replicas, millis(self.0.options.replicas_timeout));
            // On the same connection: on another one, `WAIT` would not cover this grant.
            let know: u32 = connection.command(&mut session, cmd("WAIT").arg(wanted).arg(within)).await?;
            if know < wanted {
                // The caller releases what may have been granted.
                let why = format!("only {know} of {wanted} replicas have the lock after {within} ms");
                return Err(LockError::unavailable(why));
            }
        }
        Ok(Some(Grant { epoch: Epoch::new(epoch), loss_signal: LossSignal::never() }))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Value and time to live of the lock's key; epoch, token, holder and kind of its last holder.
type Seen = (Option<String>, i64, Option<i64>, Option<String>, Option<String>, Option<String>);

fn holding((value, left, epoch, token, holder, kind): Seen) -> Option<Holding> {
    if value.is_none() && epoch.is_none() {
        return None;
    }
    let foreign = value.as_ref().filter(|value| token.as_ref() != Some(*value));
    let holder = match foreign {
        Some(value) => format!("unknown, with token {value}"),
        None => holder.unwrap_or_default(),
    };
    let ends_in = value.as_ref().map(|_| match u64::try_from(left) {
        Ok(left) => Duration::from_millis(left.max(1)),
        // Another program's key without an expiry.
        Err(_) => Duration::MAX,
    });
    let kind = kind.filter(|kind| foreign.is_none() && !kind.is_empty());
    Some(Holding { epoch: Epoch::new(epoch.unwrap_or(0)), holder, kind, ends_in })
}

impl Backend for Redis {
    fn promises(&self) -> Promises {
        Promises {
            backend: "redis",
            fence: FenceClass::BestEffort,
            crash_detected_within: None,
            frozen_holder_ends: true,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        Box::pin(self.check_server())
    }

    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(self.acquire_now(request))
    }

    fn extend<'a>(&'a self, request: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async move {
            let (key, _) = self.keys(&request.name)?;
            let mut extend = EXTEND.key(key);
            extend.arg(request.token.to_string()).arg(millis(request.ttl));
            Ok(if self.run(&extend).await? == 1 { Extended::Yes(LossSignal::never()) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, request: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async move {
            let (key, _) = self.keys(&request.name)?;
            let channel = format!("{}{key}", pubsub::CHANNEL_PREFIX);
            let mut release = RELEASE.key(key);
            release.arg(request.token.to_string()).arg(channel);
            let now = match self.run(&release).await? {
                1 => return Ok(Released::Clean),
                0 => "held by another",
                _ => "free",
            };
            tracing::debug!(lock.name = %request.name, "a lock to release was lost: it is {now}");
            Ok(Released::NotHeld)
        })
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async move { Ok(holding(self.seen(name).await?)) })
    }

    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        Box::pin(async move {
            let mut inspected = Vec::with_capacity(names.len());
            for name in names {
                let seen = self.seen(name).await?;
                let token = seen.0.clone();
                inspected
                    .push(holding(seen).map(|holding| Inspection { token, ..Inspection::from(holding) }));
            }
            Ok(inspected)
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        Box::pin(async move {
            let Some(token) = &seen.token else { return Ok(false) };
            let (key, holder_key) = self.keys(name)?;
            let mut end = BREAK.key(key);
            end.key(holder_key).arg(token);
            Ok(self.run(&end).await? == 1)
        })
    }

    fn freed<'a>(&'a self, name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        match self.keys(name) {
            Ok((key, _)) => Box::pin(self.0.listener.freed(&key)),
            Err(_) => Box::pin(std::future::pending()),
        }
    }
}

impl Redis {
    async fn seen(&self, name: &LockName) -> Result<Seen, LockError> {
        let (key, holder_key) = self.keys(name)?;
        let mut read = READ.key(key);
        read.key(holder_key);
        Ok(self.0.connection.script(&read, &read).await?.0)
    }

    /// Runs a script that may be sent twice.
    async fn run(&self, script: &ScriptInvocation<'_>) -> Result<i64, LockError> {
        Ok(self.0.connection.script(script, script).await?.0)
    }
}

//! Locks in Redis: the lock's key holds a fresh UUID v4 and ends by itself, as many programs do it; these and ours keep each
//! other out. What is known of the last holder, its epoch above all, is in a key beside it that never ends.
//!
//! A Redis may forget (a restart, a failover, full memory). Then two may hold a lock: its epoch tells them apart, and it
//! is the database with the effects that must check it.

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
use connection::Link;
use pubsub::ReleaseListener;

pub use options::{AUTO_REFRESH_LOCK, RedisOptions, auto_refresh};
pub use warnings::Warning;

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_acquire.lua")));
static EXTEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_extend.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_release.lua")));
static END: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_break.lua")));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/lock_read.lua")));

/// Before the key of what is known of a lock. No lock's own key may begin like this.
const BESIDE: &str = "lineclear:lock:";

/// Locks in Redis.
#[derive(Clone, Debug)]
pub struct Redis(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: RedisOptions,
    /// Carries everything; with replicas to wait for, everything but takes.
    link: Link,
    /// Carries takes that wait for replicas, because `WAIT` holds up all that comes after it.
    waiting: Option<Link>,
    ear: Arc<ReleaseListener>,
    warnings: Mutex<Vec<Warning>>,
}

impl Redis {
    /// Locks in the Redis that a URL names, with the options that it says; see [`RedisOptions`].
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
        // Half of what the caller waits, so that there is time for another connection.
        let within = lock.request_timeout / 2;
        let waiting =
            (options.replicas > 0).then(|| Link::new(client.clone(), within + options.replicas_timeout));
        let (ear, link) = (ReleaseListener::new(client.clone()), Link::new(client, within));
        Ok(Redis(Arc::new(Inner { options, link, waiting, ear, warnings: Mutex::default() })))
    }

    /// Why this Redis may lose locks, as found when it was opened.
    pub fn warnings(&self) -> Vec<Warning> {
        self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn check_server(&self) -> Result<(), LockError> {
        let (mut connection, _) = self.0.link.connection().await?;
        // Otherwise each script's first use is three round trips.
        for script in [&TAKE, &EXTEND, &RELEASE, &LOOK] {
            self.0.link.load(&mut connection, script).await?;
        }
        let info: String = match self.0.link.command(&mut connection, &cmd("INFO")).await {
            Ok(info) => info,
            // It may be forbidden to us, which is no reason to do without locks.
            Err(LockError::Failed { source }) => {
                tracing::warn!(error = %source, "it is not known whether this Redis may lose locks");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let warnings = warnings::read(&info, self.0.waiting.is_some())?;
        for warning in &warnings {
            tracing::warn!("this Redis may lose locks: {warning}");
        }
        *self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
        Ok(())
    }

    /// The lock's key, and the one beside it.
    fn keys(&self, name: &LockName) -> Result<(String, String), LockError> {
        let key = format!("{}{name}", self.0.options.prefix);
        if key.starts_with(BESIDE) {
            let why = format!("keys that begin with {BESIDE} are for what is known of other locks");
            return Err(LockError::refused("lock_name", why));
        }
        let beside = format!("{BESIDE}{key}");
        Ok((key, beside))
    }

    async fn grant(&self, ask: &LockRequest) -> Result<Option<Grant>, LockError> {
        let (key, beside) = self.keys(&ask.name)?;
        let take = |again: &str| {
            let mut take = TAKE.prepare_invoke();
            take.key(&key).key(&beside).arg(ask.token.to_string()).arg(millis(ask.ttl));
            take.arg(ask.holder.to_string()).arg(ask.kind.as_deref().unwrap_or_default()).arg(again);
            take
        };
        let link = self.0.waiting.as_ref().unwrap_or(&self.0.link);
        let (epoch, mut connection) = link.script::<Option<i64>>(&take("0"), &take("1")).await?;
        let Some(epoch) = epoch else { return Ok(None) };
        if let Some(link) = &self.0.waiting {
            let (wanted, within) = (self.0.options.replicas, millis(self.0.options.replicas_timeout));
            // On the same connection: on another one it would say nothing about this grant.
            let know: u32 = link.command(&mut connection, cmd("WAIT").arg(wanted).arg(within)).await?;
            if know < wanted {
                // Whoever asked releases what may have been granted.
                let why = format!("only {know} of {wanted} replicas know of the lock after {within} ms");
                return Err(LockError::unavailable(why));
            }
        }
        Ok(Some(Grant { epoch: Epoch::new(epoch), loss_signal: LossSignal::never() }))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The holder's name, or the value that somebody else put there.
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
        // Somebody else's, and it does not end by itself.
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

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(self.grant(ask))
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async move {
            let (key, _) = self.keys(&ask.name)?;
            let mut extend = EXTEND.key(key);
            extend.arg(ask.token.to_string()).arg(millis(ask.ttl));
            Ok(if self.done(&extend).await? == 1 { Extended::Yes(LossSignal::never()) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async move {
            let (key, _) = self.keys(&ask.name)?;
            let channel = format!("{}{key}", pubsub::CHANNELS);
            let mut release = RELEASE.key(key);
            release.arg(ask.token.to_string()).arg(channel);
            let now = match self.done(&release).await? {
                1 => return Ok(Released::Clean),
                0 => "another's",
                _ => "nobody's",
            };
            tracing::debug!(lock.name = %ask.name, "a lock was not ours to release: it is {now}");
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
            let (key, beside) = self.keys(name)?;
            let mut end = END.key(key);
            end.key(beside).arg(token);
            Ok(self.done(&end).await? == 1)
        })
    }

    fn freed<'a>(&'a self, name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        match self.keys(name) {
            Ok((key, _)) => Box::pin(self.0.ear.freed(&key)),
            Err(_) => Box::pin(std::future::pending()),
        }
    }
}

impl Redis {
    async fn seen(&self, name: &LockName) -> Result<Seen, LockError> {
        let (key, beside) = self.keys(name)?;
        let mut look = LOOK.key(key);
        look.key(beside);
        Ok(self.0.link.script(&look, &look).await?.0)
    }

    /// A script that may be sent twice.
    async fn done(&self, script: &ScriptInvocation<'_>) -> Result<i64, LockError> {
        Ok(self.0.link.script(script, script).await?.0)
    }
}

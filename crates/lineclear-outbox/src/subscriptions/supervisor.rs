//! The term of a subscription on this node: one reader for the active version, and one for a rebuild beside it.

use std::sync::Arc;

use lineclear_lock::Term;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::Subscription;
use super::checkpoint::poll;
use super::handler::Handler;
use super::options::SubscriptionOptions;
use super::reader::Reader;
use crate::database::{twin, values};
use crate::error::OutboxError;
use crate::events::EventLog;
use crate::runner_task::RunnerTask;

/// What the readers of a term share.
pub(super) struct Shared {
    pub(super) log: EventLog,
    pub(super) name: String,
    pub(super) options: SubscriptionOptions,
    pub(super) handler: Handler,
    pub(super) term: Term,
    /// Held by the active version while it handles a page, and by a rebuild while it takes its place.
    pub(super) step: Mutex<()>,
    /// The version of a rebuild, as soon as the active version sees it.
    pub(super) rebuild: watch::Sender<Option<i32>>,
}

/// Checks the name of a subscription, which is that of its lock.
pub(super) fn check_name(name: &str) -> Result<(), OutboxError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || !name.chars().all(fits) {
        let why = format!("must be 1 to 100 letters, digits, `-`, `_` and `.`; {name:?} is not");
        return Err(OutboxError::refused("subscription", why));
    }
    if name.starts_with("outbox-") {
        let why = format!("must not begin with `outbox-`, which the locks of outboxes do; {name:?} does");
        return Err(OutboxError::refused("subscription", why));
    }
    Ok(())
}

pub(super) async fn start(
    log: &EventLog,
    name: &str,
    options: SubscriptionOptions,
    handler: Handler,
) -> Result<Subscription, OutboxError> {
    check_name(name)?;
    options.check()?;
    if handler.kind() == "transaction" {
        options.check_transaction()?;
    }
    register(log, name, &options, &handler).await?;
    let (lock_ttl, runner) = (options.lock_ttl, ("subscription", name));
    let (log, name) = (log.clone(), name.to_owned());
    let url = log.url.clone();
    let work = move |_, term| {
        let shared = Shared {
            log: log.clone(),
            name: name.clone(),
            options: options.clone(),
            handler: handler.clone(),
            term,
            step: Mutex::default(),
            rebuild: watch::Sender::new(None),
        };
        run(Arc::new(shared))
    };
    RunnerTask::start(&url, runner, lock_ttl, work).await.map(Subscription)
}

/// Creates the checkpoint unless it exists.
async fn register(
    log: &EventLog,
    name: &str,
    options: &SubscriptionOptions,
    handler: &Handler,
) -> Result<(), OutboxError> {
    let params = values![name, handler.kind(), options.start.number()?];
    log.database.query(twin!("subscription_register"), params).await?;
    log.database.query(twin!("subscription_kind"), values![name, handler.kind()]).await.map(drop)
}

/// Reads from the moment the lock is won to the end of the term.
async fn run(shared: Arc<Shared>) -> Result<(), OutboxError> {
    register(&shared.log, &shared.name, &shared.options, &shared.handler).await?;
    let polled = poll(&*shared.log.database, &shared.name).await?;
    // Dropped with this future, the readers end: another node may have the lock.
    let mut readers = JoinSet::new();
    for checkpoint in &polled.checkpoints {
        readers.spawn(Reader::new(shared.clone(), checkpoint.version)?.run());
    }
    let rebuild = polled.checkpoints.iter().find(|checkpoint| !checkpoint.active);
    let mut started = rebuild.map(|checkpoint| checkpoint.version);
    let mut seen = shared.rebuild.subscribe();
    let lost = shared.term.lost().clone();
    loop {
        tokio::select! {
            biased;
            () = lost.cancelled() => return Ok(()),
            ended = readers.join_next() => match ended {
                None => return Ok(()),
                Some(ended) => ended.unwrap_or_else(|error| Err(OutboxError::failed(error)))?,
            },
            changed = seen.changed() => {
                let wanted = *seen.borrow_and_update();
                if let (Ok(()), Some(version)) = (changed, wanted)
                    && started != Some(version)
                {
                    started = Some(version);
                    readers.spawn(Reader::new(shared.clone(), version)?.run());
                }
            }
        }
    }
}

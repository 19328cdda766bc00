//! The messages that a runner has read and not recorded yet: one of each key is on its way, and the others of the key wait behind it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::Lease;
use tokio::task::{JoinError, JoinSet};
use uuid::Uuid;

use crate::delivery::{Delivery, DeliveryError, Next};
use crate::options::OutboxOptions;
use crate::runner::Sink;
use crate::store::{Failed, Fetched, Settlement};

/// Longest error that is kept, in characters.
const ERROR_CHARS_MAX: usize = 2_000;

/// A message that is on its way.
struct Sent {
    id: i64,
    key: Option<String>,
    attempt: u32,
}

pub(crate) struct Window<S: Sink> {
    sink: Arc<S>,
    lease: Lease,
    options: OutboxOptions,
    /// Read, and not recorded yet.
    held: HashSet<i64>,
    /// Keys with a message that is on its way or first in line, and the messages behind it.
    lanes: HashMap<String, VecDeque<Delivery>>,
    /// Messages that wait only for others to arrive.
    line: VecDeque<Delivery>,
    on_their_way: JoinSet<Result<(), DeliveryError>>,
    /// Which message a task delivers.
    tasks: HashMap<tokio::task::Id, Sent>,
    results: Settlement,
    /// Why the receiver is away.
    away: Option<String>,
}

impl<S: Sink> Window<S> {
    pub(crate) fn new(options: OutboxOptions, sink: Arc<S>, lease: Lease) -> Window<S> {
        Window {
            sink,
            lease,
            options,
            held: HashSet::new(),
            lanes: HashMap::new(),
            line: VecDeque::new(),
            on_their_way: JoinSet::new(),
            tasks: HashMap::new(),
            results: Settlement::default(),
            away: None,
        }
    }

    /// How many more messages may be read.
    pub(crate) fn room(&self) -> usize {
        self.options.window.saturating_sub(self.held.len().saturating_sub(self.results()))
    }

    /// How many results are to be recorded.
    pub(crate) fn results(&self) -> usize {
        self.results.delivered.len() + self.results.failed.len()
    }

    /// Nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.on_their_way.is_empty() && self.line.is_empty()
    }

    /// So many results that it is worth a transaction.
    pub(crate) fn has_many_results(&self) -> bool {
        self.results() * 2 >= self.options.window
    }

    /// Why the receiver is away, if it is. Then no message is on its way.
    pub(crate) fn away(&self) -> Option<&str> {
        self.away.as_deref().filter(|_| self.on_their_way.is_empty())
    }

    /// The receiver is away; some messages may still be on their way.
    pub(crate) fn is_pausing(&self) -> bool {
        self.away.is_some()
    }

    /// The messages that are held and whose results are not being recorded.
    pub(crate) fn held(&self) -> Vec<i64> {
        self.held.iter().copied().collect()
    }

    /// The results so far. What they name is held no longer.
    pub(crate) fn take_results(&mut self) -> Settlement {
        if self.away().is_some() {
            // What was read and not delivered is read again.
            self.away = None;
            self.held.clear();
        }
        let results = std::mem::take(&mut self.results);
        for id in results.delivered.iter().chain(results.failed.iter().map(|failed| &failed.id)) {
            self.held.remove(id);
        }
        results
    }

    /// Results that could not be recorded.
    pub(crate) fn put_back(&mut self, results: Settlement) {
        self.held.extend(results.delivered.iter().chain(results.failed.iter().map(|failed| &failed.id)));
        self.results.delivered.extend(results.delivered);
        self.results.failed.extend(results.failed);
    }

    /// Takes up a message that was read.
    pub(crate) fn add(&mut self, fetched: Fetched) {
        let Fetched { mut delivery, expired, behind } = fetched;
        delivery.epoch = self.lease.epoch();
        self.held.insert(delivery.id);
        if expired {
            let error = Some("it expired before it was delivered".to_owned());
            return self.results.failed.push(Failed {
                id: delivery.id,
                charged: false,
                error,
                retry_in: None,
            });
        }
        if behind.is_some() {
            return self.results.failed.push(Failed {
                id: delivery.id,
                charged: false,
                error: None,
                retry_in: behind,
            });
        }
        if let Some(key) = &delivery.key {
            if let Some(lane) = self.lanes.get_mut(key) {
                return lane.push_back(delivery);
            }
            self.lanes.insert(key.clone(), VecDeque::new());
        }
        self.line.push_back(delivery);
        self.start();
    }

    /// Sends what may be sent.
    fn start(&mut self) {
        while self.away.is_none() && self.on_their_way.len() < self.options.concurrency {
            // A node that was frozen must not begin what another node may have begun.
            if self.lease.trusted_for().is_zero() {
                return;
            }
            let Some(delivery) = self.line.pop_front() else { return };
            let sent = Sent { id: delivery.id, key: delivery.key.clone(), attempt: delivery.attempt };
            let (sink, timeout) = (self.sink.clone(), self.options.timeout);
            let task = self.on_their_way.spawn(async move {
                let answer = tokio::time::timeout(timeout, sink.deliver(delivery)).await;
                answer.unwrap_or_else(|_| Err(DeliveryError::retry(format!("no answer within {timeout:?}"))))
            });
            self.tasks.insert(task.id(), sent);
        }
    }

    /// Waits for the next result.
    pub(crate) async fn next(&mut self) {
        let Some(ended) = self.on_their_way.join_next_with_id().await else {
            return std::future::pending().await;
        };
        self.note(ended);
        // Many end at once.
        while let Some(ended) = self.on_their_way.try_join_next_with_id() {
            self.note(ended);
        }
        self.start();
    }

    fn note(&mut self, ended: Result<(tokio::task::Id, Result<(), DeliveryError>), JoinError>) {
        let (task, answer) = match ended {
            Ok((task, answer)) => (task, answer),
            Err(error) => (error.id(), Err(DeliveryError::retry(format!("the sink panicked: {error}")))),
        };
        let Some(sent) = self.tasks.remove(&task) else { return };
        let Err(error) = answer else {
            self.results.delivered.push(sent.id);
            return self.advance(sent.key.as_deref());
        };
        let what: String = error.what.chars().take(ERROR_CHARS_MAX).collect();
        let retry_in = match error.next {
            Next::Pause => {
                self.away = Some(what);
                return self.let_go();
            }
            Next::Reject => None,
            Next::Retry(_) if sent.attempt >= self.options.attempts_max => None,
            Next::Retry(Some(after)) => Some(after),
            Next::Retry(None) => Some(self.options.backoff(sent.attempt, Uuid::new_v4().as_u64_pair().0)),
        };
        self.results.failed.push(Failed { id: sent.id, charged: true, error: Some(what), retry_in });
        match retry_in {
            // Its key goes on without it.
            None => self.advance(sent.key.as_deref()),
            Some(after) => self.set_aside(sent.key.as_deref(), after),
        }
    }

    /// The next message of a key.
    fn advance(&mut self, key: Option<&str>) {
        let Some(key) = key else { return };
        match self.lanes.get_mut(key).and_then(VecDeque::pop_front) {
            Some(next) => self.line.push_back(next),
            None => drop(self.lanes.remove(key)),
        }
    }

    /// The messages of a key wait for the next attempt of the first one.
    fn set_aside(&mut self, key: Option<&str>, after: Duration) {
        let behind = key.and_then(|key| self.lanes.remove(key)).unwrap_or_default();
        let failed = |delivery: Delivery| Failed {
            id: delivery.id,
            charged: false,
            error: None,
            retry_in: Some(after),
        };
        self.results.failed.extend(behind.into_iter().map(failed));
    }

    /// Forgets what is not on its way: it stays ready in the database, and is read again.
    fn let_go(&mut self) {
        self.line.clear();
        self.lanes.clear();
    }

    /// Keeps only what is on its way.
    pub(crate) fn stop_reading(&mut self) {
        self.line.clear();
        self.lanes.values_mut().for_each(VecDeque::clear);
    }
}

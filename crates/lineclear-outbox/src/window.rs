//! The messages that a runner has read and not recorded yet: one of each key is on its way, and the others of the key wait behind it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::Lease;
use uuid::Uuid;

use crate::delivery::{Delivery, DeliveryError, Next};
use crate::message::DURATION_MAX;
use crate::options::OutboxOptions;
use crate::runner::Sink;
use crate::sending::{Sending, Sent};
use crate::store::{Failed, Fetched, Settlement};

/// Longest error that is kept, in characters.
const ERROR_CHARS_MAX: usize = 2_000;

pub(crate) struct Window<S: Sink> {
    lease: Lease,
    options: OutboxOptions,
    /// Read, and not recorded yet.
    held: HashSet<i64>,
    /// Keys with a message that is on its way or in line, and the messages behind it.
    keys: HashMap<String, VecDeque<Delivery>>,
    /// Messages that wait only for others to arrive.
    line: VecDeque<Delivery>,
    sending: Sending<S>,
    results: Settlement,
    /// Keys whose first message failed, and how long it waits, since the last results were taken: a transaction that goes on does not
    /// know of it, and may read a message behind it as ready.
    waiting_keys: HashMap<String, Duration>,
    /// Those of the results that a transaction is recording.
    recording_keys: HashMap<String, Duration>,
    /// Why the receiver is away.
    away: Option<String>,
    /// No further message is sent.
    is_stopping: bool,
}

impl<S: Sink> Window<S> {
    pub(crate) fn new(options: OutboxOptions, sink: Arc<S>, lease: Lease) -> Window<S> {
        Window {
            lease,
            held: HashSet::new(),
            keys: HashMap::new(),
            line: VecDeque::new(),
            sending: Sending::new(sink, options.timeout),
            results: Settlement::default(),
            waiting_keys: HashMap::new(),
            recording_keys: HashMap::new(),
            away: None,
            is_stopping: false,
            options,
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
        self.sending.len() == 0 && self.line.is_empty()
    }

    /// So many results that it is worth a transaction.
    pub(crate) fn has_many_results(&self) -> bool {
        self.results() * 2 >= self.options.window
    }

    /// Why the receiver is away, if it is. Then no message is on its way.
    pub(crate) fn away(&self) -> Option<&str> {
        self.away.as_deref().filter(|_| self.sending.len() == 0)
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
        self.recording_keys = std::mem::take(&mut self.waiting_keys);
        let results = std::mem::take(&mut self.results);
        for id in results.ids() {
            self.held.remove(&id);
        }
        results
    }

    /// The results that were taken are recorded.
    pub(crate) fn recorded(&mut self) {
        self.recording_keys.clear();
    }

    /// Results that could not be recorded.
    pub(crate) fn put_back(&mut self, results: Settlement) {
        self.held.extend(results.ids());
        self.results.delivered.extend(results.delivered);
        self.results.failed.extend(results.failed);
        self.waiting_keys.extend(std::mem::take(&mut self.recording_keys));
    }

    /// Takes up messages that were read, and sends what may be sent.
    pub(crate) fn add(&mut self, batch: Vec<Fetched>) {
        if self.is_stopping {
            // They stay ready, for the next runner.
            return;
        }
        for fetched in batch {
            self.add_one(fetched);
        }
        self.start();
    }

    fn add_one(&mut self, fetched: Fetched) {
        let Fetched { mut delivery, expired, behind } = fetched;
        delivery.epoch = self.lease.epoch();
        self.held.insert(delivery.id);
        if expired {
            let error = Some("it expired before it was delivered".to_owned());
            return self.results.failed.push(Failed {
                id: delivery.id,
                attempts: None,
                error,
                retry_in: None,
            });
        }
        let key = delivery.key.as_deref();
        if let Some(after) = behind.or_else(|| self.waiting_keys.get(key?).copied()) {
            return self.results.failed.push(Failed {
                id: delivery.id,
                attempts: None,
                error: None,
                retry_in: Some(after),
            });
        }
        if let Some(key) = key {
            if let Some(behind) = self.keys.get_mut(key) {
                return behind.push_back(delivery);
            }
            self.keys.insert(key.to_owned(), VecDeque::new());
        }
        self.line.push_back(delivery);
    }

    /// Sends what may be sent.
    fn start(&mut self) {
        while self.away.is_none() && self.sending.len() < self.options.concurrency {
            // A node that was frozen must not begin what another node may have begun.
            if self.lease.trusted_for().is_zero() {
                return;
            }
            let Some(delivery) = self.line.pop_front() else { return };
            if let Some((sent, answer)) = self.sending.send(delivery) {
                self.note(sent, answer);
            }
        }
    }

    /// Waits for the next result.
    pub(crate) async fn next(&mut self) {
        let (sent, answer) = self.sending.next().await;
        self.note(sent, answer);
        // Many end at once.
        while let Some((sent, answer)) = self.sending.try_next() {
            self.note(sent, answer);
        }
        self.start();
    }

    fn note(&mut self, sent: Sent, answer: Result<(), DeliveryError>) {
        let Err(error) = answer else {
            self.results.delivered.push(sent.id);
            return self.advance(sent.key);
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
        // Longer, the time would be beyond what the database has.
        let retry_in = retry_in.map(|after| after.min(DURATION_MAX));
        let attempts = Some(sent.attempt);
        self.results.failed.push(Failed { id: sent.id, attempts, error: Some(what), retry_in });
        match retry_in {
            // Its key goes on without it.
            None => self.advance(sent.key),
            Some(after) => self.set_aside(sent.key, after),
        }
    }

    /// The next message of a key.
    fn advance(&mut self, key: Option<String>) {
        let Some(key) = key else { return };
        match self.keys.get_mut(&key).and_then(VecDeque::pop_front) {
            Some(next) => self.line.push_back(next),
            None => drop(self.keys.remove(&key)),
        }
    }

    /// The messages of a key wait for the next attempt of the first one.
    fn set_aside(&mut self, key: Option<String>, after: Duration) {
        let Some(key) = key else { return };
        let behind = self.keys.remove(&key).unwrap_or_default();
        let failed = |delivery: Delivery| Failed {
            id: delivery.id,
            attempts: None,
            error: None,
            retry_in: Some(after),
        };
        self.results.failed.extend(behind.into_iter().map(failed));
        self.waiting_keys.insert(key, after);
    }

    /// Forgets what is not on its way: it stays ready in the database, and is read again.
    fn let_go(&mut self) {
        self.line.clear();
        self.keys.clear();
    }

    /// Keeps only what is on its way.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        self.line.clear();
        self.keys.values_mut().for_each(VecDeque::clear);
    }
}

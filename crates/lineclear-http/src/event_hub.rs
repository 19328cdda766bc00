//! Publishes events to all streams of the server. One task polls the store, and only while there are streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lineclear::Store;
use lineclear::store::{About, EventView, Events};
use lineclear_model::Micros;
use serde_json::json;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

/// Concurrent streams.
pub(crate) const STREAMS_MAX: usize = 256;
/// Events that a stream may lag behind before it gets a gap.
const LAG_MAX: usize = 10_000;
/// How often the store is polled.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// The pause after a failed poll.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// How much further back lock events are read than others, in microseconds.
const LOCK_MARGIN: i64 = 120_000_000;
/// How far back a stream can resume, in microseconds.
pub(crate) const REPLAY_WINDOW: i64 = 3_600_000_000;

/// All event types, except `gap`.
pub(crate) const TYPES: &[&str] = &[
    "job.queued",
    "job.started",
    "job.completed",
    "job.retrying",
    "job.failed",
    "job.cancelled",
    "job.released",
    "job.snoozed",
    "dead.created",
    "lock.taken",
    "lock.lost",
    "lock.vanished",
    "lock.broken",
    "node.started",
    "node.silent",
    AUDIT,
];
/// Only for callers that may read the audit.
pub(crate) const AUDIT: &str = "audit.written";

/// An event as streams send it.
#[derive(Debug)]
pub(crate) struct EventMessage {
    pub(crate) event_type: String,
    /// Where a client that has this event resumes.
    pub(crate) position: Micros,
    /// JSON.
    pub(crate) data: String,
}

/// What the hub publishes.
#[derive(Clone, Debug)]
pub(crate) enum HubMessage {
    Event(Arc<EventMessage>),
    /// Events are missing; continue from here.
    Gap(Micros),
}

/// The messages of an event: ids and names, never inputs or outputs.
pub(crate) fn messages(event: &EventView, horizon: Micros) -> Vec<EventMessage> {
    let (at, position) = (event.at.to_string(), event.at.min(horizon));
    let one = |event_type: String, data: serde_json::Value| EventMessage {
        event_type,
        position,
        data: data.to_string(),
    };
    let text = |id: &dyn std::fmt::Display| id.to_string();
    match &event.about {
        About::Job { job, claim_no, outcome, is_final, kind, manifest, node, dead_letter } => {
            let data = json!({
                "at": at, "job": text(job), "claim_no": claim_no, "kind": kind, "outcome": outcome,
                "manifest_id": manifest.map(|id| text(&id)), "node_id": node.map(|id| text(&id)),
            });
            let event_type = match (is_final, dead_letter, outcome.as_str()) {
                (true, _, _) | (_, None, "released" | "snoozed") => outcome,
                (_, Some(_), _) => "failed",
                _ => "retrying",
            };
            let dead = dead_letter.map(|id| {
                let data = json!({"at": at, "dead_letter": text(&id), "job": text(job), "kind": kind});
                one("dead.created".to_owned(), data)
            });
            std::iter::once(one(format!("job.{event_type}"), data)).chain(dead).collect()
        }
        About::Lock { name, what, holder } => {
            vec![one(format!("lock.{what}"), json!({"at": at, "lock": name, "holder": holder}))]
        }
        About::Node { node, name, what } => {
            vec![one(format!("node.{what}"), json!({"at": at, "node_id": text(node), "name": name}))]
        }
        About::Audit { id, who, action, target, status } => {
            let data = json!({
                "at": at, "audit": text(id), "who": who, "action": action, "target": target, "status": status,
            });
            vec![one(AUDIT.to_owned(), data)]
        }
    }
}

/// Remembers published events, because polls overlap.
#[derive(Default)]
pub(crate) struct Deduplicator(HashMap<(u8, i64, i64), Micros>);

impl Deduplicator {
    /// The events of a page that are new.
    pub(crate) fn fresh<'a>(&mut self, events: &'a Events) -> impl Iterator<Item = &'a EventView> {
        events.items.iter().filter(|event| self.0.insert(event.key, event.at).is_none())
    }

    /// Forgets events that no poll reads again.
    pub(crate) fn forget(&mut self, before: Micros) {
        let locks = before.offset(-LOCK_MARGIN);
        self.0.retain(|key, at| *at >= if key.0 == 3 { locks } else { before });
    }
}

#[derive(Default)]
struct State {
    streams: usize,
    polling: bool,
}

/// The hub. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EventHub {
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<HubMessage>,
    /// All events up to here are published.
    reached: Arc<AtomicI64>,
    store: Store,
    ended: CancellationToken,
}

/// A subscription to the hub.
pub(crate) struct Subscription {
    hub: EventHub,
    pub(crate) events: broadcast::Receiver<HubMessage>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.state().streams -= 1;
    }
}

impl Subscription {
    /// Up to where all events are published, but at least `position`.
    pub(crate) fn reached(&self, position: Micros) -> Micros {
        Micros::EPOCH.offset(self.hub.reached.load(Ordering::SeqCst)).max(position)
    }
}

impl EventHub {
    pub(crate) fn new(store: Store, ended: CancellationToken) -> EventHub {
        let (events, _) = broadcast::channel(LAG_MAX);
        EventHub { state: Arc::default(), events, reached: Arc::default(), store, ended }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Subscribes to events from now on.
    pub(crate) fn subscribe(&self) -> Result<Subscription, Problem> {
        let mut state = self.state();
        if state.streams >= STREAMS_MAX {
            let detail = format!("too many streams: {STREAMS_MAX} are open; one stream can have all events");
            return Err(Problem::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "streams_max", detail));
        }
        state.streams += 1;
        let subscription = Subscription { hub: self.clone(), events: self.events.subscribe() };
        if !std::mem::replace(&mut state.polling, true) {
            tokio::spawn(self.clone().run());
        }
        Ok(subscription)
    }

    /// Whether there are streams. If not, the next subscription starts the task again.
    fn has_streams(&self) -> bool {
        let mut state = self.state();
        state.polling = state.streams > 0;
        state.polling
    }

    async fn run(self) {
        let mut position = None;
        let mut sent = Deduplicator::default();
        while self.has_streams() {
            let pause = match self.poll(&mut position, &mut sent).await {
                Ok(true) => continue,
                Ok(false) => POLL_EVERY,
                Err(error) => {
                    tracing::debug!(%error, "events cannot be read; the hub tries again");
                    AFTER_ERROR
                }
            };
            tokio::select! {
                () = self.ended.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Publishes new events. True: there are more.
    async fn poll(
        &self,
        position: &mut Option<Micros>,
        sent: &mut Deduplicator,
    ) -> lineclear::store::StoreResult<bool> {
        let since = match *position {
            Some(since) => since,
            None => self.store.event_horizon().await?.0,
        };
        let mut events = self.store.events(since).await?;
        let too_far = since < events.now.offset(-REPLAY_WINDOW);
        if events.overrun || too_far {
            events.horizon =
                if too_far { self.store.event_horizon().await?.0 } else { events.horizon.offset(1) };
            let _ = self.events.send(HubMessage::Gap(events.horizon));
        } else {
            for event in sent.fresh(&events) {
                for message in messages(event, events.horizon) {
                    // An error means that there are no streams.
                    let _ = self.events.send(HubMessage::Event(Arc::new(message)));
                }
            }
        }
        sent.forget(events.horizon);
        self.reached.fetch_max(events.horizon.get(), Ordering::SeqCst);
        *position = Some(events.horizon);
        Ok(events.more)
    }
}

//! What happens, told to all who watch. One reader for all streams of the server, and none while nobody watches.

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

/// How many may watch at once.
pub(crate) const STREAMS_MAX: usize = 256;
/// Events that a stream may be behind before it is told of a gap.
const BEHIND_MAX: usize = 10_000;
/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long to wait after a look that failed.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// Events of locks are read so much further back than others.
const LOCK_MARGIN: i64 = 120_000_000;
/// What lies further back is not told any more.
pub(crate) const BACK_MAX: i64 = 3_600_000_000;

/// All that can happen, beside `gap`.
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
/// Who did what: for those alone who may read the audit.
pub(crate) const AUDIT: &str = "audit.written";

/// An event as it is sent.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) word: String,
    /// Whoever has this event goes on from here.
    pub(crate) place: Micros,
    /// JSON.
    pub(crate) data: String,
}

/// What streams hear.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    Event(Arc<Told>),
    /// Something cannot be told; go on from here.
    Gap(Micros),
}

/// How an event is told: ids and words, and never what jobs were given or returned.
pub(crate) fn told(event: &EventView, horizon: Micros) -> Vec<Told> {
    let (at, place) = (event.at.to_string(), event.at.min(horizon));
    let one = |word: String, data: serde_json::Value| Told { word, place, data: data.to_string() };
    let text = |id: &dyn std::fmt::Display| id.to_string();
    match &event.about {
        About::Job { job, claim_no, outcome, is_final, kind, manifest, node, dead_letter } => {
            let data = json!({
                "at": at, "job": text(job), "claim_no": claim_no, "kind": kind, "outcome": outcome,
                "manifest_id": manifest.map(|id| text(&id)), "node_id": node.map(|id| text(&id)),
            });
            let word = match (is_final, dead_letter, outcome.as_str()) {
                (true, _, _) | (_, None, "released" | "snoozed") => outcome,
                (_, Some(_), _) => "failed",
                _ => "retrying",
            };
            let dead = dead_letter.map(|id| {
                let data = json!({"at": at, "dead_letter": text(&id), "job": text(job), "kind": kind});
                one("dead.created".to_owned(), data)
            });
            std::iter::once(one(format!("job.{word}"), data)).chain(dead).collect()
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

/// Which events have been told, of those that may be read again.
#[derive(Default)]
pub(crate) struct Seen(HashMap<(u8, i64, i64), Micros>);

impl Seen {
    /// Those of a page that were not there before.
    pub(crate) fn fresh<'a>(&mut self, events: &'a Events) -> impl Iterator<Item = &'a EventView> {
        events.items.iter().filter(|event| self.0.insert(event.key, event.at).is_none())
    }

    /// What lies before this is not read again.
    pub(crate) fn forget(&mut self, before: Micros) {
        let locks = before.offset(-LOCK_MARGIN);
        self.0.retain(|key, at| *at >= if key.0 == 3 { locks } else { before });
    }
}

#[derive(Default)]
struct State {
    streams: usize,
    tailing: bool,
}

/// The one who looks.
#[derive(Clone)]
pub(crate) struct Tail {
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<Heard>,
    /// Up to here everything was told.
    reached: Arc<AtomicI64>,
    store: Store,
    ended: CancellationToken,
}

/// A place among those who watch.
pub(crate) struct Watching {
    tail: Tail,
    pub(crate) events: broadcast::Receiver<Heard>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.tail.state().streams -= 1;
    }
}

impl Watching {
    /// Up to where everything was told, if that is beyond `place`.
    pub(crate) fn reached(&self, place: Micros) -> Micros {
        Micros::EPOCH.offset(self.tail.reached.load(Ordering::SeqCst)).max(place)
    }
}

impl Tail {
    pub(crate) fn new(store: Store, ended: CancellationToken) -> Tail {
        let (events, _) = broadcast::channel(BEHIND_MAX);
        Tail { state: Arc::default(), events, reached: Arc::default(), store, ended }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Watches from now on.
    pub(crate) fn watch(&self) -> Result<Watching, Problem> {
        let mut state = self.state();
        if state.streams >= STREAMS_MAX {
            let detail = format!("{STREAMS_MAX} watch already; one stream can watch everything");
            return Err(Problem::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "streams_max", detail));
        }
        state.streams += 1;
        let watching = Watching { tail: self.clone(), events: self.events.subscribe() };
        if !std::mem::replace(&mut state.tailing, true) {
            tokio::spawn(self.clone().run());
        }
        Ok(watching)
    }

    /// Whether somebody watches. If not, whoever comes next starts anew.
    fn is_watched(&self) -> bool {
        let mut state = self.state();
        state.tailing = state.streams > 0;
        state.tailing
    }

    async fn run(self) {
        let mut place = None;
        let mut seen = Seen::default();
        while self.is_watched() {
            let pause = match self.pass(&mut place, &mut seen).await {
                Ok(true) => continue,
                Ok(false) => LOOK,
                Err(error) => {
                    tracing::debug!(%error, "events cannot be read; trying again");
                    AFTER_ERROR
                }
            };
            tokio::select! {
                () = self.ended.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Tells what is new. True: there is more.
    async fn pass(&self, place: &mut Option<Micros>, seen: &mut Seen) -> lineclear::store::StoreResult<bool> {
        let since = match *place {
            Some(since) => since,
            None => self.store.event_horizon().await?.0,
        };
        let mut events = self.store.events(since).await?;
        let too_far = since < events.now.offset(-BACK_MAX);
        if events.overrun || too_far {
            events.horizon =
                if too_far { self.store.event_horizon().await?.0 } else { events.horizon.offset(1) };
            let _ = self.events.send(Heard::Gap(events.horizon));
        } else {
            for event in seen.fresh(&events) {
                for told in told(event, events.horizon) {
                    // An error is nobody who watches.
                    let _ = self.events.send(Heard::Event(Arc::new(told)));
                }
            }
        }
        seen.forget(events.horizon);
        self.reached.fetch_max(events.horizon.get(), Ordering::SeqCst);
        *place = Some(events.horizon);
        Ok(events.more)
    }
}

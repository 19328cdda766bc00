//! Events: what happens, as it happens, over a stream that can be taken up again (server-sent events).

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use lineclear::JobEvent;
use lineclear_model::{Micros, Scope};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::shape::Asked;
use crate::App;
use crate::access::{Still, Who, lacks};
use crate::problem::Problem;
use crate::tail::{AUDIT, BACK_MAX, Heard, Seen, TYPES, Told, Watching, told};

/// A sign of life when nothing is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a client waits before it takes a stream up again.
const RETRY: Duration = Duration::from_secs(2);
/// Events on their way to a client.
const ON_THE_WAY: usize = 64;
/// Events that a stream which is taken up again gets at most; beyond that, it is told of a gap.
const REPLAY_MAX: usize = 10_000;
/// How long a request may have been on its way, in microseconds.
const SLACK: i64 = 10_000_000;
const LAST: HeaderName = HeaderName::from_static("last-event-id");

/// Which events, and from where on.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Only these, with commas between them: `job.failed`, or `lock.*` for all that begin so. `gap` comes in any case.
    types: Option<String>,
    /// The `id` of the last event that you have; the same as the header `Last-Event-ID`, which goes before.
    after: Option<String>,
}

/// Streams what happens: ends of jobs' claims, dead letters, locks, nodes, and for admins the audit. Each event carries an `id` to go on
/// from, and comes at least once. `gap`: something is missing; look at what you show anew. `job.queued` and `job.started` are of this
/// server alone, and nobody promises them. The stream ends when the token that it was asked for with counts no more.
#[utoipa::path(
    get, path = "/events", operation_id = "stream_events", tag = "events", params(Which),
    security(("token" = ["read"])),
    responses((status = 200, content_type = "text/event-stream", body = String),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn stream(
    state: State<App>,
    asked: Asked<Which>,
    who: Who,
    still: Still,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let types = Types::read(asked.0.types.as_deref())?;
    let audited = who.0.scopes.include(Scope::Admin);
    if !audited && types.name(AUDIT) {
        return Err(lacks(&who.0, Scope::Admin));
    }
    let last = headers.get(LAST).map(|last| last.to_str().unwrap_or("?").to_owned()).or(asked.0.after);
    let after = last.map(|last| place(&last)).transpose()?;
    // Watched before anything is read: what happens meanwhile is heard.
    let watching = state.tail.watch()?;
    let (horizon, now) = state.reading.event_horizon().await?;
    let (client, events) = mpsc::channel(ON_THE_WAY);
    let (place, sent) = (after.unwrap_or(horizon), Instant::now());
    let stream = Stream { app: state.0, client, types, audited, place, sent };
    tokio::spawn(stream.run(still, watching, after, (horizon, now)));
    Ok(streamed(events))
}

/// Events as they come; no proxy on the way keeps or changes them.
pub(crate) fn streamed(mut events: mpsc::Receiver<Result<Event, Infallible>>) -> Response {
    let events = futures_util::stream::poll_fn(move |context| events.poll_recv(context));
    let mut response = Sse::new(events).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// An id that we gave out: microseconds since 1970.
fn place(text: &str) -> Result<Micros, Problem> {
    let micros = text.parse().ok().filter(|micros: &i64| *micros >= 0).and_then(Micros::new);
    micros.ok_or_else(|| Problem::malformed("after", "this is no id of an event; begin without one"))
}

/// Types that somebody wants.
struct Types(Option<Vec<String>>);

impl Types {
    fn read(asked: Option<&str>) -> Result<Types, Problem> {
        let Some(asked) = asked else { return Ok(Types(None)) };
        let words: Vec<String> = asked.split(',').map(|word| word.trim().to_owned()).collect();
        for word in &words {
            if !TYPES.iter().any(|known| matches(word, known)) {
                let detail = format!("{word:?} is no type of events; there are {}", TYPES.join(", "));
                return Err(Problem::malformed("types", detail));
            }
        }
        Ok(Types(Some(words)))
    }

    fn want(&self, word: &str) -> bool {
        self.0.is_none() || self.name(word)
    }

    /// Whether it was asked for by its name.
    fn name(&self, word: &str) -> bool {
        self.0.iter().flatten().any(|wanted| matches(wanted, word))
    }
}

fn matches(wanted: &str, word: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == word, |part| part.ends_with('.') && word.starts_with(part))
}

struct Stream {
    app: App,
    client: mpsc::Sender<Result<Event, Infallible>>,
    types: Types,
    /// Whether the client may see the audit.
    audited: bool,
    /// Whoever has all that was sent goes on from here.
    place: Micros,
    /// When something was last sent.
    sent: Instant,
}

/// The client is gone, or the server ends.
struct Over;

impl Stream {
    async fn run(
        mut self,
        still: Still,
        mut watching: Watching,
        after: Option<Micros>,
        now: (Micros, Micros),
    ) {
        let ended = self.app.ended.clone();
        let node = self.app.client.clone();
        tokio::select! {
            () = ended.cancelled() => {}
            () = node.stopping() => {}
            () = still.over() => {}
            _ = self.tell(&mut watching, after, now) => {}
        }
    }

    async fn tell(
        &mut self,
        watching: &mut Watching,
        after: Option<Micros>,
        now: (Micros, Micros),
    ) -> Result<(), Over> {
        let mut live = self.app.client.live_events();
        self.send(Event::default().retry(RETRY).id(self.place.get().to_string())).await?;
        if let Some(after) = after {
            self.replay(after, now).await?;
        }
        loop {
            let gone = self.client.clone();
            // Counted from what was sent, not from what was heard: a proxy in between cuts what is silent.
            let silent = self.sent + KEEP_ALIVE;
            tokio::select! {
                heard = watching.events.recv() => match heard {
                    Ok(Heard::Event(told)) => self.event(&told).await?,
                    Ok(Heard::Gap(place)) => self.gap(place, "burst").await?,
                    Err(RecvError::Lagged(_)) => self.gap(watching.reached(self.place), "slow").await?,
                    Err(RecvError::Closed) => return Err(Over),
                },
                event = live.recv() => if let Ok(event) = event {
                    self.live(&event).await?;
                },
                () = gone.closed() => return Err(Over),
                () = tokio::time::sleep_until(silent) => {
                    // The place moves on although nothing was wanted of what happened. Read in this order: what was told
                    // before it was reached has been heard.
                    let reached = watching.reached(self.place);
                    if watching.events.is_empty() {
                        self.place = reached;
                    }
                    self.send(Event::default().comment("").id(self.place.get().to_string())).await?;
                }
            }
        }
    }

    /// What happened since the client was here last.
    async fn replay(&mut self, after: Micros, (horizon, now): (Micros, Micros)) -> Result<(), Over> {
        let kept = self.app.client.retention();
        let audit = self.audited.then_some(kept.audit);
        let kept = [kept.completed, kept.failed].into_iter().chain(audit).min().unwrap_or_default();
        let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
        // Who asks for just an hour asked a moment ago.
        if after > now || after < now.offset(-BACK_MAX - SLACK) {
            return self.gap(horizon, "behind").await;
        }
        if after < now.offset(-kept) {
            return self.gap(horizon, "cleaned").await;
        }
        let (mut seen, mut since, mut count) = (Seen::default(), after, 0);
        loop {
            let Ok(events) = self.app.reading.events(since).await else {
                return self.gap(horizon, "unread").await;
            };
            let fresh: Vec<_> = seen.fresh(&events).collect();
            count += fresh.len();
            if events.overrun || count > REPLAY_MAX {
                return self.gap(horizon, "behind").await;
            }
            for event in fresh {
                for told in told(event, events.horizon) {
                    self.event(&told).await?;
                }
            }
            since = events.horizon;
            if !events.more {
                return Ok(());
            }
        }
    }

    async fn event(&mut self, told: &Told) -> Result<(), Over> {
        // Also if it is not sent: who goes on from here has missed nothing that they wanted.
        self.place = self.place.max(told.place);
        if self.types.want(&told.word) && (self.audited || told.word != AUDIT) {
            let event = Event::default().event(&told.word).id(self.place.get().to_string());
            self.send(event.data(&told.data)).await?;
        }
        Ok(())
    }

    /// Of this server's node, and nobody keeps it.
    async fn live(&mut self, event: &JobEvent) -> Result<(), Over> {
        let word = match event.event {
            lineclear::Event::Queued => "job.queued",
            lineclear::Event::Started { .. } => "job.started",
            _ => return Ok(()),
        };
        if self.types.want(word) {
            let data = json!({"job": event.job.to_string(), "kind": event.kind});
            self.send(Event::default().event(word).data(data.to_string())).await?;
        }
        Ok(())
    }

    async fn gap(&mut self, place: Micros, reason: &str) -> Result<(), Over> {
        self.place = place;
        let event = Event::default().event("gap").id(place.get().to_string());
        self.send(event.data(json!({"reason": reason}).to_string())).await
    }

    async fn send(&mut self, event: Event) -> Result<(), Over> {
        self.sent = Instant::now();
        self.client.send(Ok(event)).await.map_err(|_| Over)
    }
}

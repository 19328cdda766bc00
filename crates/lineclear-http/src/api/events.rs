//! Events: a resumable stream (server-sent events).

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

use crate::App;
use crate::api::json_types::QueryParams;
use crate::auth::{Caller, Revalidation, Share, StreamKind, insufficient_scope};
use crate::event_hub::{
    AUDIT, Deduplicator, EventMessage, HubMessage, REPLAY_WINDOW, Subscription, TYPES, messages,
};
use crate::problem::Problem;

/// A comment is sent after this time without an event.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a client waits before it reconnects.
const RETRY: Duration = Duration::from_secs(2);
/// Events in the channel to a client.
const CHANNEL: usize = 64;
/// Events that a stream which is taken up again gets at most; beyond that, it is message of a gap.
const REPLAY_MAX: usize = 10_000;
/// Tolerance for a request that resumes just within the window, in microseconds.
const CLOCK_SLACK: i64 = 10_000_000;
const LAST: HeaderName = HeaderName::from_static("last-event-id");

/// A filter, and where to resume.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParams {
    /// A comma-separated list of types: `job.failed`, or `lock.*` for a prefix. `gap` is always sent.
    types: Option<String>,
    /// The `id` of the last event that the client has. The header `Last-Event-ID` has precedence.
    after: Option<String>,
}

/// Streams events: executions, dead letters, locks, nodes, and for admins the audit. Each event has an `id` to resume from, and is sent at
/// least once. `gap`: events are missing; reload. `job.queued` and `job.started` come from this server's node only, without a guarantee.
/// The stream ends when the token expires or is revoked.
#[utoipa::path(
    get, path = "/events", operation_id = "stream_events", tag = "events", params(EventParams),
    security(("token" = ["read"])),
    responses((status = 200, content_type = "text/event-stream", body = String),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn stream(
    state: State<App>,
    params: QueryParams<EventParams>,
    caller: Caller,
    revalidation: Revalidation,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let types = Types::read(params.0.types.as_deref())?;
    let with_audit = caller.0.scopes.include(Scope::Admin);
    if !with_audit && types.names(AUDIT) {
        return Err(insufficient_scope(&caller.0, Scope::Admin));
    }
    let last = headers.get(LAST).map(|last| last.to_str().unwrap_or("?").to_owned()).or(params.0.after);
    let after = last.map(|last| position(&last)).transpose()?;
    let share = state.guard.stream_share(StreamKind::Events, &caller.0)?;
    // Subscribed before the first read, so that no event is missed in between.
    let subscription = state.events.subscribe()?;
    let (horizon, now) = state.reading.event_horizon().await?;
    let (client, events) = mpsc::channel(CHANNEL);
    let (position, sent) = (after.unwrap_or(horizon), Instant::now());
    let stream = Stream { app: state.0, client, types, with_audit, position, sent, _share: share };
    tokio::spawn(stream.run(revalidation, subscription, after, (horizon, now)));
    Ok(sse_response(events))
}

/// A stream that proxies neither buffer nor change.
pub(crate) fn sse_response(mut events: mpsc::Receiver<Result<Event, Infallible>>) -> Response {
    let events = futures_util::stream::poll_fn(move |context| events.poll_recv(context));
    let mut response = Sse::new(events).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The id of an event: microseconds since 1970.
fn position(text: &str) -> Result<Micros, Problem> {
    let micros = text.parse().ok().filter(|micros: &i64| *micros >= 0).and_then(Micros::new);
    micros.ok_or_else(|| Problem::malformed("after", "`after` is not the id of an event; start without it"))
}

/// The types that a client wants.
struct Types(Option<Vec<String>>);

impl Types {
    fn read(asked: Option<&str>) -> Result<Types, Problem> {
        let Some(asked) = asked else { return Ok(Types(None)) };
        let words: Vec<String> = asked.split(',').map(|event_type| event_type.trim().to_owned()).collect();
        for event_type in &words {
            if !TYPES.iter().any(|known| type_matches(event_type, known)) {
                let detail =
                    format!("{event_type:?} is not an event type; the types are {}", TYPES.join(", "));
                return Err(Problem::malformed("types", detail));
            }
        }
        Ok(Types(Some(words)))
    }

    fn wants(&self, event_type: &str) -> bool {
        self.0.is_none() || self.names(event_type)
    }

    /// Whether the client names the type.
    fn names(&self, event_type: &str) -> bool {
        self.0.iter().flatten().any(|wanted| type_matches(wanted, event_type))
    }
}

fn type_matches(wanted: &str, event_type: &str) -> bool {
    wanted
        .strip_suffix('*')
        .map_or(wanted == event_type, |part| part.ends_with('.') && event_type.starts_with(part))
}

struct Stream {
    app: App,
    client: mpsc::Sender<Result<Event, Infallible>>,
    types: Types,
    /// Whether the client may see the audit.
    with_audit: bool,
    /// Where a client that has all sent events resumes.
    position: Micros,
    /// When an event or comment was last sent.
    sent: Instant,
    /// One of the streams that the caller may have.
    _share: Option<Share<String>>,
}

/// The client disconnected, or the server stops.
struct Disconnected;

impl Stream {
    async fn run(
        mut self,
        revalidation: Revalidation,
        mut subscription: Subscription,
        after: Option<Micros>,
        now: (Micros, Micros),
    ) {
        let ended = self.app.ended.clone();
        let node = self.app.client.clone();
        tokio::select! {
            () = ended.cancelled() => {}
            () = node.stopping() => {}
            () = revalidation.until_revoked() => {}
            _ = self.send_events(&mut subscription, after, now) => {}
        }
    }

    async fn send_events(
        &mut self,
        subscription: &mut Subscription,
        after: Option<Micros>,
        now: (Micros, Micros),
    ) -> Result<(), Disconnected> {
        let mut live = self.app.client.live_events();
        self.send(Event::default().retry(RETRY).id(self.position.get().to_string())).await?;
        if let Some(after) = after {
            self.replay(after, now).await?;
        }
        loop {
            let client = self.client.clone();
            // Since the last send, not the last receive: proxies close silent connections.
            let keep_alive_at = self.sent + KEEP_ALIVE;
            tokio::select! {
                received = subscription.events.recv() => match received {
                    Ok(HubMessage::Event(message)) => self.event(&message).await?,
                    Ok(HubMessage::Gap(position)) => self.gap(position, "burst").await?,
                    Err(RecvError::Lagged(_)) => self.gap(subscription.reached(self.position), "slow").await?,
                    Err(RecvError::Closed) => return Err(Disconnected),
                },
                event = live.recv() => if let Ok(event) = event {
                    self.live(&event).await?;
                },
                () = client.closed() => return Err(Disconnected),
                () = tokio::time::sleep_until(keep_alive_at) => {
                    // The position advances although no event was wanted. The order matters: all events before `reached` are
                    // in the channel when it is read.
                    let reached = subscription.reached(self.position);
                    if subscription.events.is_empty() {
                        self.position = reached;
                    }
                    self.send(Event::default().comment("").id(self.position.get().to_string())).await?;
                }
            }
        }
    }

    /// Sends the events since the client disconnected.
    async fn replay(&mut self, after: Micros, (horizon, now): (Micros, Micros)) -> Result<(), Disconnected> {
        let retention = self.app.client.retention();
        let audit = self.with_audit.then_some(retention.audit);
        let kept = [retention.completed, retention.failed].into_iter().chain(audit).min().unwrap_or_default();
        let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
        // The tolerance is for a request that resumes just within the window.
        if after > now || after < now.offset(-REPLAY_WINDOW - CLOCK_SLACK) {
            return self.gap(horizon, "behind").await;
        }
        if after < now.offset(-kept) {
            return self.gap(horizon, "cleaned").await;
        }
        let (mut seen, mut since, mut count) = (Deduplicator::default(), after, 0);
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
                for message in messages(event, events.horizon) {
                    self.event(&message).await?;
                }
            }
            since = events.horizon;
            if !events.more {
                return Ok(());
            }
        }
    }

    async fn event(&mut self, message: &EventMessage) -> Result<(), Disconnected> {
        // Also if it is not sent: the client does not want it.
        self.position = self.position.max(message.position);
        if self.types.wants(&message.event_type) && (self.with_audit || message.event_type != AUDIT) {
            let event = Event::default().event(&message.event_type).id(self.position.get().to_string());
            self.send(event.data(&message.data)).await?;
        }
        Ok(())
    }

    /// Sends an event of this server's node. It is not stored, so it has no id.
    async fn live(&mut self, event: &JobEvent) -> Result<(), Disconnected> {
        let event_type = match event.event {
            lineclear::Event::Queued => "job.queued",
            lineclear::Event::Started { .. } => "job.started",
            _ => return Ok(()),
        };
        if self.types.wants(event_type) {
            let data = json!({"job": event.job.to_string(), "kind": event.kind});
            self.send(Event::default().event(event_type).data(data.to_string())).await?;
        }
        Ok(())
    }

    async fn gap(&mut self, position: Micros, reason: &str) -> Result<(), Disconnected> {
        self.position = position;
        let event = Event::default().event("gap").id(position.get().to_string());
        self.send(event.data(json!({"reason": reason}).to_string())).await
    }

    async fn send(&mut self, event: Event) -> Result<(), Disconnected> {
        self.sent = Instant::now();
        self.client.send(Ok(event)).await.map_err(|_| Disconnected)
    }
}

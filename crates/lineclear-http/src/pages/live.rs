//! Live pages: the server renders a page at most once a second, once for all browsers, and only while one watches it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::response::sse::Event;
use lineclear_model::Scopes;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::hidden_characters::visible;
use super::{View, can_be_live, render};
use crate::App;
use crate::api::events::sse_response;
use crate::api::json_types::QueryParams;
use crate::auth::{Caller, Revalidation, StreamKind};
use crate::problem::Problem;

/// The minimum time between two renderings of a page.
const STEP: Duration = Duration::from_secs(1);
/// Slow pages are rendered less often: rendering may take one part in this many of the time.
const SHARE: u32 = 10;
/// Pages that are watched at once.
const PAGES_MAX: usize = 256;
/// Concurrent streams. Further browsers poll the page instead.
const STREAMS_MAX: usize = 512;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// A page for one set of scopes: its actions depend on them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PageKey {
    address: String,
    scopes: String,
}

/// A rendered page.
#[derive(Clone, Default)]
struct Rendered {
    title: String,
    regions: Vec<(&'static str, Arc<str>)>,
    /// Why it could not be rendered.
    trouble: Option<String>,
}

type Watched = HashMap<PageKey, watch::Sender<Option<Arc<Rendered>>>>;

/// The pages that browsers watch.
#[derive(Clone, Default)]
pub(crate) struct LivePages(Arc<Mutex<Watched>>);

impl LivePages {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The number of streams.
    fn streams(watched: &Watched) -> usize {
        watched.values().map(watch::Sender::receiver_count).sum()
    }

    fn watch(
        &self,
        app: &App,
        key: PageKey,
        scopes: Scopes,
        uri: Uri,
    ) -> Result<watch::Receiver<Option<Arc<Rendered>>>, Problem> {
        let mut watched = self.watched();
        let busy = |what: &str| {
            let detail = format!("too many live {what}; the page reloads by itself");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "live_max", detail)
        };
        if LivePages::streams(&watched) >= STREAMS_MAX {
            return Err(busy("streams"));
        }
        if let Some(shown) = watched.get(&key) {
            return Ok(shown.subscribe());
        }
        if watched.len() >= PAGES_MAX {
            return Err(busy("pages"));
        }
        let (sender, receiver) = watch::channel(None);
        watched.insert(key.clone(), sender);
        tokio::spawn(self.clone().render_loop(app.clone(), key, scopes, uri));
        Ok(receiver)
    }

    /// Renders a page until no browser watches it.
    async fn render_loop(self, app: App, key: PageKey, scopes: Scopes, uri: Uri) {
        loop {
            let begun = Instant::now();
            let view = View { app: &app, scopes: &scopes, uri: &uri };
            let shown = match render(&view).await {
                Ok(page) => Rendered {
                    title: page.title,
                    regions: page
                        .regions
                        .into_iter()
                        .map(|one| (one.id, visible(one.html.into_string()).into()))
                        .collect(),
                    trouble: None,
                },
                Err(problem) => {
                    let condition = app.reading.known_database_condition();
                    let why = if condition.is_ok() { problem } else { Problem::database(&condition) };
                    Rendered { trouble: Some(why.detail().to_owned()), ..Rendered::default() }
                }
            };
            {
                let mut watched = self.watched();
                match watched.get(&key) {
                    Some(sender) if sender.receiver_count() > 0 => {
                        sender.send_replace(Some(Arc::new(shown)));
                    }
                    _ => {
                        watched.remove(&key);
                        return;
                    }
                }
            }
            let pause = STEP.max(begun.elapsed() * SHARE).saturating_sub(begun.elapsed());
            tokio::select! {
                () = app.ended.cancelled() => {
                    self.watched().remove(&key);
                    return;
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct LiveParams {
    /// The path and query of a page.
    page: String,
}

/// Streams the regions of a page when they change. A new stream begins with all of them, so a reconnect misses nothing.
pub(super) async fn stream(
    State(app): State<App>,
    caller: Caller,
    revalidation: Revalidation,
    params: QueryParams<LiveParams>,
) -> Result<Response, Problem> {
    let no_page = || Problem::malformed("page", "`page` must be the path of a live page");
    let uri: Uri = params.0.page.parse().map_err(|_| no_page())?;
    if uri.scheme().is_some() || uri.authority().is_some() || !can_be_live(&uri) {
        return Err(no_page());
    }
    let share = app.guard.stream_share(StreamKind::LivePage, &caller.0)?;
    let scopes = caller.0.scopes.clone();
    let key = PageKey { address: params.0.page, scopes: scopes.to_string() };
    let shown = app.live.watch(&app, key, scopes, uri)?;
    let (client, events) = mpsc::channel(8);
    let ended = app.ended.clone();
    tokio::spawn(async move {
        let _ = client.send(Ok(Event::default().retry(RETRY).comment("live"))).await;
        tokio::select! {
            () = ended.cancelled() => {}
            () = revalidation.until_revoked() => {}
            _ = send_changes(&client, shown) => {}
        }
        drop(share);
    });
    Ok(sse_response(events))
}

/// The browser disconnected.
struct Disconnected;

async fn send_changes(
    client: &mpsc::Sender<Result<Event, Infallible>>,
    mut shown: watch::Receiver<Option<Arc<Rendered>>>,
) -> Result<(), Disconnected> {
    let mut sent: HashMap<&'static str, Arc<str>> = HashMap::new();
    let (mut trouble, mut title) = (None, String::new());
    let send = async |event: Event| client.send(Ok(event)).await.map_err(|_| Disconnected);
    let mut last_sent = Instant::now();
    loop {
        // Only the newest version: a slow browser skips the ones in between.
        let now = shown.borrow_and_update().clone();
        if let Some(now) = now {
            if now.trouble != trouble {
                trouble.clone_from(&now.trouble);
                send(Event::default().event("trouble").data(json!({"why": trouble}).to_string())).await?;
                last_sent = Instant::now();
            }
            if now.trouble.is_none() && now.title != title {
                title.clone_from(&now.title);
                send(Event::default().event("title").data(json!({"title": title}).to_string())).await?;
            }
            for (id, html) in &now.regions {
                if sent.get(id).is_some_and(|before| before == html) {
                    continue;
                }
                sent.insert(id, html.clone());
                let data = json!({"id": id, "html": &**html}).to_string();
                send(Event::default().event("region").data(data)).await?;
                last_sent = Instant::now();
            }
        }
        tokio::select! {
            changed = shown.changed() => changed.map_err(|_| Disconnected)?,
            () = client.closed() => return Err(Disconnected),
            // Proxies close silent connections.
            () = tokio::time::sleep_until(last_sent + KEEP_ALIVE) => {
                send(Event::default().comment("")).await?;
                last_sent = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lineclear::Lineclear;

    use super::*;

    #[tokio::test]
    async fn viewers_of_a_page_share_one_rendering_which_ends_with_the_last_viewer() {
        let node = Lineclear::builder().store(":memory:").start().await.unwrap();
        let app = App::for_test(&node);
        let all = Scopes::parse("admin").unwrap();
        let look = |address: &str| {
            let key = PageKey { address: address.to_owned(), scopes: all.to_string() };
            app.live.watch(&app, key, all.clone(), address.parse().unwrap()).ok().unwrap()
        };
        let (mut one, mut two) = (look("/"), look("/"));
        for _ in 0..2 {
            one.changed().await.unwrap();
            two.changed().await.unwrap();
            let (first, second) =
                (one.borrow_and_update().clone().unwrap(), two.borrow_and_update().clone().unwrap());
            assert!(Arc::ptr_eq(&first, &second), "one rendering for both");
            assert_eq!((first.trouble.as_deref(), first.title.as_str()), (None, "Overview"));
            assert!(!first.regions.is_empty());
        }
        let other = look("/jobs");
        assert_eq!(app.live.watched().len(), 2);
        drop((one, two, other));
        let gone = async {
            while !app.live.watched().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it ends with the last browser");
        node.stop().await;
    }
}

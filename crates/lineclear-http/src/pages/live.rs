//! Live pages: each is rendered at most once a second, whoever many look at it, and only while somebody does.

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

use super::{View, can_be_live, render};
use crate::App;
use crate::access::{Still, Who};
use crate::api::events::streamed;
use crate::api::shape::Asked;
use crate::problem::Problem;

/// Least time between two renderings of one page.
const STEP: Duration = Duration::from_secs(1);
/// A page that takes long to render is rendered more rarely: it may use this part of one reader's time.
const SHARE: u32 = 10;
/// Most pages that are rendered again and again.
const TOPICS_MAX: usize = 256;
/// Most browsers that look on at once. Who comes later asks for the page every few seconds instead.
const STREAMS_MAX: usize = 512;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// One page for one set of scopes: what people with other scopes are offered differs.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Topic {
    address: String,
    scopes: String,
}

/// A page as it is now.
#[derive(Clone, Default)]
struct Shown {
    title: String,
    regions: Vec<(&'static str, Arc<str>)>,
    /// It could not be rendered: why.
    trouble: Option<String>,
}

type Topics = HashMap<Topic, watch::Sender<Option<Arc<Shown>>>>;

/// All pages that somebody looks at.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<Topics>>);

impl Hub {
    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many look on.
    fn streams(topics: &Topics) -> usize {
        topics.values().map(watch::Sender::receiver_count).sum()
    }

    fn watch(
        &self,
        app: &App,
        topic: Topic,
        scopes: Scopes,
        uri: Uri,
    ) -> Result<watch::Receiver<Option<Arc<Shown>>>, Problem> {
        let mut topics = self.topics();
        let busy = |what: &str| {
            let detail = format!("too many {what} are watched at once; the page asks again by itself");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "live_max", detail)
        };
        if Hub::streams(&topics) >= STREAMS_MAX {
            return Err(busy("streams"));
        }
        if let Some(shown) = topics.get(&topic) {
            return Ok(shown.subscribe());
        }
        if topics.len() >= TOPICS_MAX {
            return Err(busy("pages"));
        }
        let (sender, receiver) = watch::channel(None);
        topics.insert(topic.clone(), sender);
        tokio::spawn(self.clone().keep(app.clone(), topic, scopes, uri));
        Ok(receiver)
    }

    /// Renders a page until nobody looks any more.
    async fn keep(self, app: App, topic: Topic, scopes: Scopes, uri: Uri) {
        loop {
            let begun = Instant::now();
            let view = View { app: &app, scopes: &scopes, uri: &uri };
            let shown = match render(&view).await {
                Ok(page) => Shown {
                    title: page.title,
                    regions: page
                        .regions
                        .into_iter()
                        .map(|one| (one.id, one.html.into_string().into()))
                        .collect(),
                    trouble: None,
                },
                Err(problem) => Shown { trouble: Some(problem.said().1.to_owned()), ..Shown::default() },
            };
            {
                let mut topics = self.topics();
                match topics.get(&topic) {
                    Some(sender) if sender.receiver_count() > 0 => {
                        sender.send_replace(Some(Arc::new(shown)));
                    }
                    _ => {
                        topics.remove(&topic);
                        return;
                    }
                }
            }
            let pause = STEP.max(begun.elapsed() * SHARE).saturating_sub(begun.elapsed());
            tokio::select! {
                () = app.ended.cancelled() => {
                    self.topics().remove(&topic);
                    return;
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Which {
    /// The path of a page, with what stands after `?`.
    page: String,
}

/// The regions of a page, as they change. The first message has all of them: whoever lost the stream has missed nothing.
pub(super) async fn stream(
    State(app): State<App>,
    who: Who,
    still: Still,
    asked: Asked<Which>,
) -> Result<Response, Problem> {
    let no_page = || Problem::malformed("page", "this is no address of a page that changes by itself");
    let uri: Uri = asked.0.page.parse().map_err(|_| no_page())?;
    if uri.scheme().is_some() || uri.authority().is_some() || !can_be_live(&uri) {
        return Err(no_page());
    }
    let scopes = who.0.scopes.clone();
    let topic = Topic { address: asked.0.page, scopes: scopes.to_string() };
    let shown = app.live.watch(&app, topic, scopes, uri)?;
    let (client, events) = mpsc::channel(8);
    let ended = app.ended.clone();
    tokio::spawn(async move {
        let _ = client.send(Ok(Event::default().retry(RETRY).comment("live"))).await;
        tokio::select! {
            () = ended.cancelled() => {}
            () = still.over() => {}
            _ = tell(&client, shown) => {}
        }
    });
    Ok(streamed(events))
}

/// Nobody listens any more.
struct Gone;

async fn tell(
    client: &mpsc::Sender<Result<Event, Infallible>>,
    mut shown: watch::Receiver<Option<Arc<Shown>>>,
) -> Result<(), Gone> {
    let mut sent: HashMap<&'static str, Arc<str>> = HashMap::new();
    let (mut trouble, mut title) = (None, String::new());
    let send = async |event: Event| client.send(Ok(event)).await.map_err(|_| Gone);
    let mut spoken = Instant::now();
    loop {
        // Only the newest: whoever is slow misses what was in between.
        let now = shown.borrow_and_update().clone();
        if let Some(now) = now {
            if now.trouble != trouble {
                trouble.clone_from(&now.trouble);
                send(Event::default().event("trouble").data(json!({"why": trouble}).to_string())).await?;
                spoken = Instant::now();
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
                spoken = Instant::now();
            }
        }
        tokio::select! {
            changed = shown.changed() => changed.map_err(|_| Gone)?,
            () = client.closed() => return Err(Gone),
            // A proxy in between cuts what is silent.
            () = tokio::time::sleep_until(spoken + KEEP_ALIVE) => {
                send(Event::default().comment("")).await?;
                spoken = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lineclear::Lineclear;

    use super::*;

    #[tokio::test]
    async fn all_who_look_at_a_page_share_one_rendering_and_nobody_renders_for_nobody() {
        let node = Lineclear::builder().store(":memory:").start().await.unwrap();
        let app = App::for_test(&node);
        let all = Scopes::parse("admin").unwrap();
        let look = |address: &str| {
            let topic = Topic { address: address.to_owned(), scopes: all.to_string() };
            app.live.watch(&app, topic, all.clone(), address.parse().unwrap()).ok().unwrap()
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
        assert_eq!(app.live.topics().len(), 2);
        drop((one, two, other));
        let gone = async {
            while !app.live.topics().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it ends with the last who looks");
        node.stop().await;
    }
}

//! What is said about locks, and how loudly.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::kit::Place;

/// Everything that is said of one lock.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(Level, String)>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl<S: tracing::Subscriber> Layer<S> for Heard {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if text.0.contains("quiet-report") {
            self.0.lock().unwrap().push((*event.metadata().level(), text.0));
        }
    }
}

#[tokio::test]
async fn busy_is_whispered_and_taking_and_releasing_are_said_quietly() {
    let heard = Heard::default();
    // For all threads: the keeper has its own.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(heard.clone())).unwrap();
    let place = Place::in_process();
    let (one, other) = (place.locks().await, place.locks().await);
    let held = one.try_lock("quiet-report").await.unwrap().unwrap();
    assert!(other.try_lock("quiet-report").await.unwrap().is_none());
    held.release().await.unwrap();
    let heard = heard.0.lock().unwrap().clone();
    let of = |what: &str| heard.iter().find(|(_, text)| text.contains(what)).map(|(level, _)| *level);
    assert_eq!(of("a lock is busy"), Some(Level::TRACE), "{heard:?}");
    assert_eq!(of("acquired a lock"), Some(Level::DEBUG), "{heard:?}");
    assert_eq!(of("released a lock"), Some(Level::DEBUG), "{heard:?}");
    assert_eq!(heard.len(), 3, "{heard:?}");
}

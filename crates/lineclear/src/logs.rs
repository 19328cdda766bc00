//! Logs of handlers, kept with their execution: a layer for [`tracing_subscriber`] that the program adds. With the cargo
//! feature `logs`.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(lineclear::logs::JobLogs::new()).init();
//! ```
//!
//! Everything that is logged inside the span of a handler is kept, also in futures that were spawned with that span.
//! A filter over the whole subscriber must let the spans of `lineclear` through (`lineclear=info`); a filter over
//! another layer does not matter.

mod buffer;

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::sync::Arc;

use lineclear_model::secret::without_passwords;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Span, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

pub(crate) use buffer::Log;

use crate::store::LOG_LINE_BYTES_MAX;

/// A layer that keeps the logs of handlers.
#[derive(Clone, Debug)]
pub struct JobLogs {
    most: LevelFilter,
}

impl Default for JobLogs {
    fn default() -> JobLogs {
        JobLogs::new()
    }
}

impl JobLogs {
    /// Keeps INFO, WARN and ERROR.
    pub fn new() -> JobLogs {
        JobLogs::up_to(LevelFilter::INFO)
    }

    /// Keeps this level and those above it.
    pub fn up_to(most: LevelFilter) -> JobLogs {
        JobLogs { most }
    }
}

thread_local! {
    /// The log of the span that is being made on this thread: fields cannot carry it.
    static FOR_NEXT_SPAN: RefCell<Option<Arc<Log>>> = const { RefCell::new(None) };
}

/// A handler's span, with its log.
pub(crate) fn span_with(log: &Arc<Log>, make: impl FnOnce() -> Span) -> Span {
    FOR_NEXT_SPAN.with(|next| *next.borrow_mut() = Some(log.clone()));
    let span = make();
    // It is still there if the subscriber has no layer of ours, or a filter left the span out.
    FOR_NEXT_SPAN.with(|next| next.borrow_mut().take());
    span
}

struct Kept(Arc<Log>);

impl<S> Layer<S> for JobLogs
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let log = FOR_NEXT_SPAN.with(|next| next.borrow_mut().take());
        if let (Some(log), Some(span)) = (log, context.span(id)) {
            span.extensions_mut().replace(Kept(log));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() > self.most {
            return;
        }
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(Kept(log)) = span.extensions().get() {
                let mut text = Text::default();
                event.record(&mut text);
                log.push(metadata.level().as_str(), metadata.target(), text.line());
                return;
            }
        }
    }
}

/// The message of an event, and its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn line(self) -> String {
        let line = self.message + &self.fields;
        // Before it is cut: without its @, the password of a URL is not recognized.
        let mut line = without_passwords(&line).into_owned();
        line.truncate(line.floor_char_boundary(LOG_LINE_BYTES_MAX));
        line.trim_start().to_owned()
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

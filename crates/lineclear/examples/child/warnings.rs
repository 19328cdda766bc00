//! Warnings and errors of the node, and results that it counted as too late: one line each on standard error. A subscriber
//! and a recorder of a few lines are enough for tests.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Recorder, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

pub(crate) fn to_stderr() {
    // They fail only if there is one already.
    tracing::subscriber::set_global_default(Warnings).ok();
    metrics::set_global_recorder(Counts).ok();
}

struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        eprintln!("{}", line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        match field.name() {
            "message" => write!(self.0, " {value:?}").ok(),
            name => write!(self.0, " {name}={value:?}").ok(),
        };
    }
}

struct Counts;

/// Says what is added to the counter of late results.
struct Late;

impl CounterFn for Late {
    fn increment(&self, value: u64) {
        eprintln!("counted {value} late");
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> Counter {
        match key.name() {
            "lineclear_settlements_stale_total" => Counter::from_arc(Arc::new(Late)),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

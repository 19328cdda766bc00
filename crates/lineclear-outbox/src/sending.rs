//! Messages that are on their way to the sink.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::task::{Id, JoinError, JoinSet};

use crate::delivery::{Delivery, DeliveryError};
use crate::runner::Sink;

/// A sink that usually works for longer without waiting gets a task for each message, so that it does not hold up the runner.
const INLINE_MAX: Duration = Duration::from_micros(200);
/// One call counts for no more: the machine may have been busy.
const ONE_CALL_MAX: Duration = Duration::from_micros(800);

type Answer = Result<(), DeliveryError>;

/// A message without its content.
pub(crate) struct Sent {
    pub(crate) id: i64,
    pub(crate) key: Option<String>,
    pub(crate) attempt: u32,
}

/// How long the sink works before it waits for something: a moving mean, in nanoseconds.
#[derive(Debug, Default)]
struct Pace(AtomicU64);

impl Pace {
    fn note(&self, took: Duration) {
        let took = u64::try_from(took.min(ONE_CALL_MAX).as_nanos()).unwrap_or(u64::MAX);
        let mean = self.0.load(Ordering::Relaxed);
        // Two calls at once may lose one of them.
        self.0.store(mean - mean / 8 + took / 8, Ordering::Relaxed);
    }

    /// Whether a message gets a task only if its sink waits for something: a task costs more than many sinks do.
    fn is_quick(&self) -> bool {
        Duration::from_nanos(self.0.load(Ordering::Relaxed)) < INLINE_MAX
    }
}

pub(crate) struct Sending<S: Sink> {
    sink: Arc<S>,
    timeout: Duration,
    pace: Arc<Pace>,
    tasks: JoinSet<Answer>,
    sent: HashMap<Id, Sent>,
}

impl<S: Sink> Sending<S> {
    pub(crate) fn new(sink: Arc<S>, timeout: Duration) -> Sending<S> {
        Sending { sink, timeout, pace: Arc::default(), tasks: JoinSet::new(), sent: HashMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Sends a message. Returns the answer if the sink gave it at once.
    pub(crate) fn send(&mut self, delivery: Delivery) -> Option<(Sent, Answer)> {
        let sent = Sent { id: delivery.id, key: delivery.key.clone(), attempt: delivery.attempt };
        let sink = self.sink.clone();
        let mut delivering: Pin<Box<dyn Future<Output = Answer> + Send>> =
            Box::pin(async move { sink.deliver(delivery).await });
        let is_quick = self.pace.is_quick();
        if is_quick {
            let begun = Instant::now();
            // Its task polls it again, and with a waker of its own.
            let first = || delivering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let polled = catch_unwind(AssertUnwindSafe(first));
            self.pace.note(begun.elapsed());
            match polled {
                Ok(Poll::Ready(answer)) => return Some((sent, answer)),
                Ok(Poll::Pending) => {}
                Err(panic) => return Some((sent, Err(panicked(text(&*panic))))),
            }
        }
        let (timeout, pace) = (self.timeout, self.pace.clone());
        let task = self.tasks.spawn(async move {
            let mut notes = !is_quick;
            let delivering = poll_fn(|context| {
                if !std::mem::take(&mut notes) {
                    return delivering.as_mut().poll(context);
                }
                let begun = Instant::now();
                let polled = delivering.as_mut().poll(context);
                pace.note(begun.elapsed());
                polled
            });
            let answer = tokio::time::timeout(timeout, delivering).await;
            answer.unwrap_or_else(|_| Err(DeliveryError::retry(format!("no answer within {timeout:?}"))))
        });
        self.sent.insert(task.id(), sent);
        None
    }

    /// Waits for the next answer. While no message is on its way, it waits for ever.
    pub(crate) async fn next(&mut self) -> (Sent, Answer) {
        loop {
            let Some(ended) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            if let Some(answered) = self.answered(ended) {
                return answered;
            }
        }
    }

    /// An answer that is there already.
    pub(crate) fn try_next(&mut self) -> Option<(Sent, Answer)> {
        let ended = self.tasks.try_join_next_with_id()?;
        self.answered(ended)
    }

    fn answered(&mut self, ended: Result<(Id, Answer), JoinError>) -> Option<(Sent, Answer)> {
        let (task, answer) = match ended {
            Ok((task, answer)) => (task, answer),
            Err(error) => (error.id(), Err(panicked(error.to_string()))),
        };
        Some((self.sent.remove(&task)?, answer))
    }
}

fn panicked(what: String) -> DeliveryError {
    DeliveryError::retry(format!("the sink panicked: {what}"))
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_call_changes_nothing_and_a_slow_sink_gets_tasks_until_it_is_quick_again() {
        let pace = Pace::default();
        pace.note(Duration::from_secs(5));
        assert!(pace.is_quick(), "the machine was busy");
        (0..10).for_each(|_| pace.note(Duration::from_millis(1)));
        assert!(!pace.is_quick());
        (0..20).for_each(|_| pace.note(Duration::from_micros(5)));
        assert!(pace.is_quick());
    }
}

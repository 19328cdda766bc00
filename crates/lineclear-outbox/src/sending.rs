//! Messages that are on their way to the sink.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::task::{Id, JoinError, JoinSet};

use crate::delivery::{Delivery, DeliveryError};
use crate::runner::Sink;

/// A sink that works for longer without waiting gets a task for each message, so that it does not hold up the runner.
const INLINE_MAX: Duration = Duration::from_micros(200);

type Answer = Result<(), DeliveryError>;

/// A message without its content.
pub(crate) struct Sent {
    pub(crate) id: i64,
    pub(crate) key: Option<String>,
    pub(crate) attempt: u32,
}

pub(crate) struct Sending<S: Sink> {
    sink: Arc<S>,
    timeout: Duration,
    /// Whether a message gets a task only if its sink waits for something: a task costs more than many sinks do.
    inline: bool,
    tasks: JoinSet<Answer>,
    sent: HashMap<Id, Sent>,
}

impl<S: Sink> Sending<S> {
    pub(crate) fn new(sink: Arc<S>, timeout: Duration) -> Sending<S> {
        Sending { sink, timeout, inline: true, tasks: JoinSet::new(), sent: HashMap::new() }
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
        if self.inline {
            let begun = Instant::now();
            // Its task polls it again, and with a waker of its own.
            let first = || delivering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let polled = catch_unwind(AssertUnwindSafe(first));
            self.inline = begun.elapsed() < INLINE_MAX;
            match polled {
                Ok(Poll::Ready(answer)) => return Some((sent, answer)),
                Ok(Poll::Pending) => {}
                Err(panic) => return Some((sent, Err(panicked(text(&*panic))))),
            }
        }
        let timeout = self.timeout;
        let task = self.tasks.spawn(async move {
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

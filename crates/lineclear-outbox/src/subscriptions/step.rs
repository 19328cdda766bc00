//! One step of a reader: a page is handled, and the checkpoint moves, or an event has failed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::checkpoint::Checkpoint;
use super::error::HandlerError;
use super::handler::{Call, Handler, within};
use super::lag::count;
use super::options::OnPoison;
use super::page::Page;
use super::reader::{Next, Reader};
use super::shown;
use crate::database::{Step, Transacted, twin, values};
use crate::delivery::Next as Answer;
use crate::error::OutboxError;
use crate::events::Event;
use crate::message::{DURATION_MAX, micros};

/// How often the checkpoint of an external handler moves within a page.
const MOVE_EVERY: Duration = Duration::from_millis(200);

/// The pause before another try to move the checkpoint.
const COMMIT_AGAIN: Duration = Duration::from_millis(200);

/// From one position to another, over so many events that were handled.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: i64,
    to: i64,
    handled: usize,
}

impl Reader {
    /// Handles the next page, if there is one.
    pub(super) async fn step(&mut self, checkpoint: &Checkpoint) -> Result<Next, OutboxError> {
        let (events, to) = self.page(checkpoint).await?;
        let whole = Move { from: checkpoint.position, to, handled: events.len() };
        if events.is_empty() {
            return self.advance(whole).await;
        }
        match self.shared.handler.clone() {
            Handler::External(handler) => {
                let mut done = Move { to: checkpoint.position, handled: 0, ..whole };
                let mut moved_at = Instant::now();
                for event in events {
                    // A node that was frozen must not begin what another node may have begun.
                    if self.shared.term.ending().is_cancelled() || self.shared.term.trusted_for().is_zero() {
                        return self.advance(done).await;
                    }
                    let answer = within(self.shared.options.timeout, handler(event.clone())).await;
                    if let Err(error) = answer {
                        return self.fail(checkpoint, done, &event, error).await;
                    }
                    done = Move { to: event.position, handled: done.handled + 1, ..done };
                    if moved_at.elapsed() >= MOVE_EVERY {
                        match self.advance(done).await? {
                            Next::Go => (done.from, done.handled) = (done.to, 0),
                            stops => return Ok(stops),
                        }
                        moved_at = Instant::now();
                    }
                }
                self.advance(Move { to, ..done }).await
            }
            #[cfg(any(feature = "postgres", feature = "sqlite"))]
            _ => self.step_in_transaction(checkpoint, whole, events).await,
        }
    }

    async fn step_in_transaction(
        &mut self,
        checkpoint: &Checkpoint,
        whole: Move,
        events: Vec<Event>,
    ) -> Result<Next, OutboxError> {
        let page = Arc::new(self.page_of(events, checkpoint.active));
        let work = self.work(Call::Handle(page.clone()));
        let steps = vec![self.move_step(whole)];
        match self.database.transact(Some(self.shared.term.fence()), Some(work), steps).await? {
            Transacted::Failed(error) => {
                let Some(first) = page.events.first() else { return Ok(Next::Go) };
                if page.events.len() > 1 && error.next != Answer::Pause {
                    // Which of them it was comes out when they are handled one by one.
                    self.one_by_one = whole.to;
                    return Ok(Next::Go);
                }
                let none = Move { to: whole.from, handled: 0, ..whole };
                self.fail(checkpoint, none, first, error).await
            }
            done => Ok(self.after(&done, whole.handled)),
        }
    }

    pub(super) fn page_of(&self, events: Vec<Event>, active: bool) -> Page {
        Page {
            events,
            subscription: self.shared.name.clone(),
            version: self.version,
            is_rebuild: !active,
            epoch: self.shared.term.epoch(),
        }
    }

    fn move_step(&self, done: Move) -> Step {
        let handled = i64::try_from(done.handled).unwrap_or(i64::MAX);
        let params = values![&*self.shared.name, self.version, done.from, done.to, handled];
        Step::must(twin!("subscription_move"), params)
    }

    /// Moves the checkpoint without further effects.
    async fn advance(&mut self, done: Move) -> Result<Next, OutboxError> {
        if done.to <= done.from {
            return Ok(Next::Go);
        }
        self.commit(vec![self.move_step(done)], done.handled).await
    }

    /// Moves the checkpoint. What an external handler has done is recorded as soon as the database is back: nothing is handled again.
    async fn commit(&mut self, steps: Vec<Step>, handled: usize) -> Result<Next, OutboxError> {
        let term = self.shared.term.clone();
        loop {
            match self.database.transact(Some(term.fence()), None, steps.clone()).await {
                Ok(done) => return Ok(self.after(&done, handled)),
                // If it was committed, and only the answer is lost, the next try changes nothing.
                Err(error) if error.is_unavailable() && !term.ending().is_cancelled() => {
                    tracing::warn!(subscription = %self.shared.name, %error, "the checkpoint cannot be moved yet");
                    tokio::time::sleep(COMMIT_AGAIN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn after(&mut self, done: &Transacted, handled: usize) -> Next {
        let name = &self.shared.name;
        match done {
            Transacted::Done(_) => {
                self.away = 0;
                count("lineclear_subscription_handled_total", name, handled);
                Next::Go
            }
            Transacted::Lost => {
                tracing::warn!(subscription = %name, "another node has the lock: this one stops");
                Next::End
            }
            // The checkpoint was moved, or the subscription was paused: it is read again.
            Transacted::Changed | Transacted::Failed(_) => Next::Go,
        }
    }

    /// An event failed: it is tried again, or is poison. `done`: what was handled before it.
    async fn fail(
        &mut self,
        checkpoint: &Checkpoint,
        done: Move,
        event: &Event,
        error: HandlerError,
    ) -> Result<Next, OutboxError> {
        let what = shown(&error.what);
        let before = if checkpoint.failed_position == Some(event.position) { checkpoint.failures } else { 0 };
        let handled = i64::try_from(done.handled).unwrap_or(i64::MAX);
        let name = self.shared.name.clone();
        let place = values![&*name, self.version, done.from, done.to, handled];
        let failed = |position: i64, failures: u32, delay: Duration| {
            let rest = values![position, failures, &*what, micros(delay)];
            Step::must(twin!("subscription_fail"), [place.clone(), rest].concat())
        };
        let attempts = before.saturating_add(1);
        let delay = match error.next {
            Answer::Pause => {
                let pause = self.away_pause();
                tracing::warn!(subscription = %name, error = what, ?pause, "the handler lacks something: the subscription pauses");
                let away = self.away;
                let next = self.commit(vec![failed(event.position, before, pause)], done.handled).await?;
                self.away = away;
                return Ok(next);
            }
            Answer::Retry(_) if attempts >= self.shared.options.attempts_max => None,
            Answer::Retry(Some(after)) => Some(after),
            Answer::Retry(None) => Some(self.shared.options.backoff(attempts)),
            Answer::Reject => None,
        };
        count("lineclear_subscription_failed_total", &name, 1);
        let Some(delay) = delay else { return self.poison(done, event, attempts, &what).await };
        // Longer, the time would be beyond what the database has.
        let delay = delay.min(DURATION_MAX);
        self.commit(vec![failed(event.position, attempts, delay)], done.handled).await
    }

    /// An event that is not tried again.
    async fn poison(
        &mut self,
        done: Move,
        event: &Event,
        attempts: u32,
        what: &str,
    ) -> Result<Next, OutboxError> {
        let name = self.shared.name.clone();
        let position = event.position;
        let steps = match self.shared.options.on_poison {
            OnPoison::Stop => {
                tracing::error!(subscription = %name, position, attempts, error = what, "the subscription stops at an event that fails");
                let handled = i64::try_from(done.handled).unwrap_or(i64::MAX);
                let reason = format!(
                    "event {position} ({}) failed {attempts} times; resume the subscription, or skip the event",
                    event.kind
                );
                let params = values![
                    &*name,
                    self.version,
                    done.from,
                    done.to,
                    handled,
                    position,
                    attempts,
                    what,
                    &*reason
                ];
                vec![Step::must(twin!("subscription_stop"), params)]
            }
            OnPoison::Park => {
                tracing::warn!(subscription = %name, position, attempts, error = what, "an event is parked");
                count("lineclear_subscription_parked_total", &name, 1);
                let past = self.move_step(Move { to: position, ..done });
                let parked = values![&*name, self.version, position, attempts, what];
                let error = values![&*name, self.version, what];
                vec![
                    past,
                    Step::must(twin!("parked_add"), parked),
                    Step::may(twin!("subscription_error"), error),
                ]
            }
        };
        self.commit(steps, done.handled).await
    }
}

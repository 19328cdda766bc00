//! Exchanges with the database: each records results and reads the next messages in one transaction, while others are on their way.

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::Sink;
use super::run::{Run, SETTLE_EVERY};
use crate::error::OutboxError;
use crate::events::Mark;
use crate::store::{BatchRequest, Fetched, Settlement};

/// A transaction that goes on.
pub(super) type Exchange = AbortOnDropHandle<Ended>;

/// How one ended.
#[derive(Default)]
pub(super) struct Ended {
    request: BatchRequest,
    mark: Mark,
    answer: Option<Result<Answer, OutboxError>>,
}

struct Answer {
    /// None: another runner has the lock.
    fetched: Option<Vec<Fetched>>,
    /// Up to this id, no gap is filled any more.
    complete: Option<i64>,
}

impl<S: Sink> Run<S> {
    pub(super) fn start_exchange(&mut self, reads: bool) {
        let now = Instant::now();
        self.tick_at = now + SETTLE_EVERY;
        // While the receiver is away, a message that is read now could pass those that were let go.
        let room = if reads && !self.window.is_pausing() { self.window.room() } else { 0 };
        let settlement = self.window.take_results();
        if room == 0 && settlement.is_empty() {
            return;
        }
        let asks = room > 0 && !self.gaps.is_empty() && self.gaps_at <= now;
        if asks {
            self.gaps_at = now + SETTLE_EVERY;
        }
        let request = BatchRequest {
            outbox: self.outbox.name.to_string(),
            settlement,
            keeps: !self.options.keep_delivered.is_zero(),
            low: self.low,
            gaps: self.gaps.below(self.low),
            held: self.window.held(),
            limit: i64::try_from(room).unwrap_or(i64::MAX),
        };
        let drawn = [self.gaps.next() - 1, self.gaps.aged() - 1];
        let (store, fence) = (self.outbox.store.clone(), self.term.fence().clone());
        let mut mark = std::mem::take(&mut self.mark);
        self.exchange = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let exchanged = async {
                // Before messages are read: what is committed by then is seen.
                let complete = match asks {
                    true => Some(store.complete(&request, drawn, &mut mark).await?),
                    false => None,
                };
                let fetched = store.settle_and_fetch(&fence, &request).await?;
                Ok(Answer { fetched, complete })
            };
            let answer = Some(exchanged.await);
            Ended { request, mark, answer }
        })));
    }

    /// Takes up the answer of an exchange. `false`: another runner has the lock.
    pub(super) fn end(&mut self, ended: Ended) -> Result<bool, OutboxError> {
        let Ended { request, mark, answer } = ended;
        (self.exchange, self.mark) = (None, mark);
        let Answer { fetched, complete } = match answer {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                // The messages were delivered: that must not be forgotten. They may even be recorded, and only the answer is lost.
                self.window.put_back(request.settlement);
                return self.database_is_away(error).map(|()| true);
            }
            None => return Err(OutboxError::failed("a task of the runner panicked")),
        };
        let Some(fetched) = fetched else {
            tracing::warn!(outbox = %self.outbox.name, "another runner has the lock: this one stops");
            return Ok(false);
        };
        self.is_database_away = false;
        self.window.recorded();
        count(&self.outbox.name, &request.settlement);
        if request.limit == 0 || self.window.is_pausing() {
            // What was read stays ready, behind messages that were let go.
            return Ok(true);
        }
        self.gaps.see(fetched.iter().map(|fetched| fetched.delivery.id));
        if let Some(complete) = complete {
            self.gaps.close(complete);
        }
        // If there was no room for more, others may be ready behind the last one.
        let is_full = fetched.len() >= usize::try_from(request.limit).unwrap_or(usize::MAX);
        let last = fetched.last().filter(|_| is_full).map(|last| last.delivery.id + 1);
        self.low = last.unwrap_or(self.gaps.next());
        self.window.add(fetched);
        Ok(true)
    }

    /// Waits for the exchange that goes on. `false`: another runner has the lock.
    pub(super) async fn finish_exchange(&mut self) -> Result<bool, OutboxError> {
        if self.exchange.is_none() {
            return Ok(true);
        }
        let ended = ended(&mut self.exchange).await;
        self.end(ended)
    }
}

/// The end of an exchange. If none goes on, it waits for ever.
pub(super) async fn ended(exchange: &mut Option<Exchange>) -> Ended {
    let Some(task) = exchange else { return std::future::pending().await };
    // If it panicked, what it was to record is lost: the messages come again.
    task.await.unwrap_or_default()
}

fn count(outbox: &str, settlement: &Settlement) {
    let add = |name: &'static str, count: usize| {
        if count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            metrics::counter!(name, "outbox" => outbox.to_owned()).increment(count);
        }
    };
    let charged = settlement.failed.iter().filter(|failed| failed.attempts.is_some()).count();
    let dead = settlement.failed.iter().filter(|failed| failed.retry_in.is_none()).count();
    add("lineclear_outbox_attempts_total", settlement.delivered.len() + charged);
    add("lineclear_outbox_delivered_total", settlement.delivered.len());
    add("lineclear_outbox_failed_total", charged);
    add("lineclear_outbox_dead_total", dead);
}

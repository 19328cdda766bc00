//! Jobs that many callers enqueue at once, one each, share a statement and a commit.
//!
//! No job waits for a timer: the first is sent at once, and jobs that arrive while statements are under way share the
//! next one. If a caller is cancelled, its job is enqueued anyway; the other callers are not affected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lineclear_model::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::db::Db;
use crate::journey::enqueue::insert::Enqueue;
use crate::journey::isolate::{Attempt, isolate};
use crate::store::{Enqueued, NewJob, StoreError, StoreResult};

/// Jobs that one statement takes.
const SHARED_MAX: usize = 500;
/// Bytes of input that one statement takes, unless a single job has more.
const SHARED_BYTES_MAX: usize = 1024 * 1024;
/// Jobs that wait for a statement; a caller beyond that waits for a place.
const WAITING_MAX: usize = 4_096;
/// Statements that are under way at once, on PostgreSQL and on SQLite: while one is committed, the next is made. With 16
/// callers on a PostgreSQL that syncs, one and four were no faster. SQLite has one writer.
const UNDER_WAY_MAX: [usize; 2] = [2, 1];

/// A job whose caller waits for the answer.
struct Waiting {
    job: NewJob,
    group_id: Option<i64>,
    reply: oneshot::Sender<StoreResult<Enqueued>>,
    _place: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Line {
    waiting: Vec<Waiting>,
    under_way: usize,
}

/// Collects single jobs for shared statements.
pub(crate) struct Batcher {
    places: Arc<Semaphore>,
    line: Mutex<Line>,
}

impl Batcher {
    pub(crate) fn new() -> Arc<Batcher> {
        Arc::new(Batcher { places: Arc::new(Semaphore::new(WAITING_MAX)), line: Mutex::default() })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Enqueues a validated job, in one statement with other waiting jobs. Not for unique keys: they may have to wait
    /// for another transaction, and the other jobs must not wait with them.
    pub(crate) async fn enqueue(
        self: &Arc<Self>,
        db: &Db,
        job: NewJob,
        group_id: Option<i64>,
    ) -> StoreResult<Enqueued> {
        let lost =
            || StoreError::Unavailable { maybe_applied: true, source: "the runtime ended under it".into() };
        let place = self.places.clone().acquire_owned().await.map_err(|_| lost())?;
        let (reply, answer) = oneshot::channel();
        let starts = {
            let mut line = self.line();
            line.waiting.push(Waiting { job, group_id, reply, _place: place });
            let most = if matches!(db, Db::Postgres(_)) { UNDER_WAY_MAX[0] } else { UNDER_WAY_MAX[1] };
            let starts = line.under_way < most;
            line.under_way += usize::from(starts);
            starts
        };
        if starts {
            // In a separate task: it does not end with this caller.
            let under_way = UnderWay { batcher: self.clone(), over: false };
            tokio::spawn(under_way.go_on(db.clone()));
        }
        answer.await.map_err(|_| lost())?
    }
}

/// The right to send statements, until no job waits any more.
struct UnderWay {
    batcher: Arc<Batcher>,
    over: bool,
}

impl UnderWay {
    async fn go_on(mut self, db: Db) {
        while let Some(batch) = self.next() {
            enqueue_together(&db, batch).await;
        }
    }

    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut line = self.batcher.line();
        if line.waiting.is_empty() {
            // Under the same lock: the next job starts a new sender.
            line.under_way -= 1;
            self.over = true;
            return None;
        }
        let mut bytes = 0;
        let mut fits = |waiting: &Waiting| {
            bytes += waiting.job.input.as_str().len();
            bytes <= SHARED_BYTES_MAX
        };
        let count = line.waiting.iter().take(SHARED_MAX).take_while(|waiting| fits(waiting)).count().max(1);
        let left = line.waiting.split_off(count);
        Some(std::mem::replace(&mut line.waiting, left))
    }
}

impl Drop for UnderWay {
    /// The runtime ended before the task did: the waiting callers get an error instead of waiting for ever.
    fn drop(&mut self) {
        if !self.over {
            let mut line = self.batcher.line();
            line.under_way -= 1;
            line.waiting.clear();
        }
    }
}

/// Enqueues a batch in one statement, and sends each caller its result.
async fn enqueue_together(db: &Db, batch: Vec<Waiting>) {
    let results = isolate(&Together { db }, &batch).await;
    for (waiting, result) in batch.into_iter().zip(results) {
        // A cancelled caller does not receive it.
        let _ = waiting.reply.send(result);
    }
}

struct Together<'a> {
    db: &'a Db,
}

impl Attempt for Together<'_> {
    type Item = Waiting;
    type Answer = Enqueued;

    async fn attempt(&self, batch: &[Waiting]) -> StoreResult<Vec<Enqueued>> {
        let mut group_ids: HashMap<Name, i64> = HashMap::new();
        for waiting in batch {
            if let (Some(group), Some(id)) = (&waiting.job.group, waiting.group_id) {
                group_ids.insert(group.clone(), id);
            }
        }
        let jobs = batch.iter().map(|waiting| waiting.job.clone()).collect();
        self.db.run_here(Enqueue { jobs, group_ids }).await
    }
}

//! Rows that are written with their outcomes, in the background.

use std::time::Duration;

use lineclear::log_fold::LogFold;
use lineclear::store::AuditEnd;
use lineclear::{Store, StoreError};
use tokio::sync::mpsc;

use super::{LOG_EVERY, LOST, SHARED_MAX, Whole};

/// Pause between statements, so that many rows share one.
const RECORD_EVERY: Duration = Duration::from_millis(50);
/// Rows that the database did not take are tried again so often, at first and at most.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

/// Writes rows until no more can come.
pub(super) async fn write_all(store: Store, mut waiting: mpsc::Receiver<Whole>) {
    let log = LogFold::new(LOG_EVERY);
    loop {
        let mut batch = Vec::new();
        if waiting.recv_many(&mut batch, SHARED_MAX).await == 0 {
            return;
        }
        let count = batch.len();
        write(&store, Rows::Whole(batch), &log).await;
        if count < SHARED_MAX {
            tokio::time::sleep(RECORD_EVERY).await;
        }
    }
}

/// Writes rows, however long the database is away. A row that is refused is lost, and the others are written: halves of what is refused
/// are tried until that row is alone.
async fn write(store: &Store, rows: Rows, log: &LogFold<bool>) {
    let (mut left, mut pause) = (vec![rows], RETRY_AFTER[0]);
    // Meanwhile further rows wait in the queue.
    while let Some(rows) = left.pop() {
        let Err((error, again)) = rows.write(store).await else { continue };
        let count = again.count();
        // About a row, and not about the database: another attempt would fail, too.
        let is_final = error.database_state().is_none();
        if is_final && count > 1 {
            left.extend(again.halves());
            continue;
        }
        if is_final {
            metrics::counter!(LOST).increment(count as u64);
        }
        if let Some(left_out) = log.note(&is_final) {
            let what = if is_final { "lost" } else { "late: they are tried again" };
            tracing::warn!(%error, count, left_out, "audit rows of enqueued jobs are {what}");
        }
        if !is_final {
            left.push(again);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_AFTER[1]);
        }
    }
}

/// Rows with their outcomes, as far as they are not written.
enum Rows {
    Whole(Vec<Whole>),
    /// The rows are there, without their outcomes.
    Ends(Vec<AuditEnd>),
}

impl Rows {
    /// Writes them, or returns what is left to write. If only the answer was lost, a row is written twice.
    async fn write(self, store: &Store) -> Result<(), (StoreError, Rows)> {
        let ends = match self {
            Rows::Whole(rows) => {
                let (entries, outcomes): (Vec<_>, Vec<_>) = rows.iter().cloned().unzip();
                let ids = store.audit_begin(entries).await.map_err(|error| (error, Rows::Whole(rows)))?;
                let outcomes = ids.into_iter().zip(outcomes);
                outcomes.map(|(id, (status, details))| AuditEnd { id, status, details }).collect()
            }
            Rows::Ends(ends) => ends,
        };
        store.audit_end(ends.clone()).await.map_err(|error| (error, Rows::Ends(ends)))
    }

    fn count(&self) -> usize {
        match self {
            Rows::Whole(rows) => rows.len(),
            Rows::Ends(ends) => ends.len(),
        }
    }

    /// The second half and the first, which is written next.
    fn halves(self) -> [Rows; 2] {
        let middle = self.count() / 2;
        match self {
            Rows::Whole(mut rows) => [Rows::Whole(rows.split_off(middle)), Rows::Whole(rows)],
            Rows::Ends(mut ends) => [Rows::Ends(ends.split_off(middle)), Rows::Ends(ends)],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use lineclear::StoreOptions;
    use lineclear::store::{AuditFilter, NewAudit};
    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;

    /// Counts the rows that are lost, on this thread.
    #[derive(Default)]
    struct Lost(Arc<AtomicU64>);

    impl Recorder for Lost {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            if key.name() == LOST { Counter::from_arc(self.0.clone()) } else { Counter::noop() }
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    fn row(target: &str) -> Whole {
        let entry = NewAudit {
            who: "local".to_owned(),
            token: None,
            action: "enqueue".to_owned(),
            target: target.to_owned(),
            request_id: "r".to_owned(),
        };
        (entry, (201, None))
    }

    #[tokio::test]
    async fn a_row_that_is_refused_is_lost_alone_and_counted() {
        let lost = Lost::default();
        let _guard = metrics::set_default_local_recorder(&lost);
        let store = Store::open(StoreOptions::new(":memory:").unwrap()).await.unwrap();
        let too_long = "x".repeat(100_000);
        let targets = ["1", "2", "3", &too_long, "4", "5", &too_long];
        let (sender, waiting) = mpsc::channel(targets.len());
        for target in targets {
            sender.send(row(target)).await.unwrap();
        }
        drop(sender);
        write_all(store.clone(), waiting).await;
        let page = store.audit(&AuditFilter::default(), None, 100).await.unwrap();
        let mut written: Vec<_> =
            page.items.iter().map(|one| (one.entry.target.as_str(), one.status)).collect();
        written.sort_unstable();
        assert_eq!(written, ["1", "2", "3", "4", "5"].map(|target| (target, Some(201))));
        assert_eq!(lost.0.load(Ordering::Relaxed), 2);
    }
}

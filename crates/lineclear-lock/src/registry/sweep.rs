//! Removes the rows of holders that vanished, by the database's clock, and never one whose lock is still held.

use std::sync::Weak;
use std::time::Duration;

use uuid::Uuid;

use super::record::{LeaseRecord, LeaseState};
use super::updates::{LeaseFilter, VanishedHold};
use super::{Inner, TableSet};
use crate::error::LockError;

/// Rows of one sweep.
const LIMIT: u32 = 500;

/// Sweeps until the registry is dropped. The pauses are random, so that the nodes do not all sweep at once.
pub(super) async fn sweep(registry: Weak<Inner>, after: Duration) {
    loop {
        let dice = u32::try_from(Uuid::new_v4().as_u64_pair().0 % 100).unwrap_or(0);
        tokio::time::sleep((after / 4 + after / 400 * dice).min(Duration::from_secs(60))).await;
        let Some(registry) = registry.upgrade() else { return };
        // A sweep that had nothing to do is no proof that the registry can be written.
        let swept = registry.sweep_once().await;
        if swept.is_err() {
            registry.log_change(&swept);
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl Inner {
    pub(super) async fn sweep_once(&self) -> Result<(), LockError> {
        // A process that never wrote does not create the tables in order to sweep them.
        if !self.prepared.load(std::sync::atomic::Ordering::SeqCst) {
            return Ok(());
        }
        let quiet = micros(self.options.sweep_after);
        let filter = LeaseFilter { quiet: Some(quiet), limit: LIMIT, ..LeaseFilter::default() };
        let mut leases = self.timely(self.tables.leases(&filter)).await?;
        self.inspect_stores(&mut leases).await;
        for lease in leases.iter().filter(|lease| has_vanished(lease)) {
            let hold = VanishedHold {
                name: lease.name.clone(),
                store: lease.store.clone(),
                incarnation: lease.incarnation.clone(),
                holder: lease.holder(),
                epoch: lease.epoch,
                quiet,
            };
            if self.timely(self.tables.remove(&hold)).await? {
                tracing::debug!(
                    lock.name = lease.name,
                    holder = hold.holder,
                    "removed the lease of a holder that vanished"
                );
            }
        }
        let (idle, history) = (micros(self.options.idle_retention), micros(self.options.history_retention));
        self.timely(self.tables.clean(idle, history, LIMIT)).await?;
        if self.timely(self.tables.exist(TableSet::Runners)).await? {
            self.timely(self.tables.clean_runners(quiet, LIMIT)).await?;
        }
        Ok(())
    }
}

/// A frozen holder still has its lock, and stays until an operator breaks the lock. If the store cannot be asked, the row is removed: a
/// holder that lives writes it again.
fn has_vanished(lease: &LeaseRecord) -> bool {
    lease.is_quiet() && !(lease.state == LeaseState::Stale && lease.inspection.is_some())
}

//! Removes the rows of holders that went away, by the database's clock, and never one that the store of the lock says is held.

use std::sync::Weak;
use std::time::Duration;

use uuid::Uuid;

use super::Inner;
use super::record::{LeaseRecord, LeaseState};
use super::table::{LeaseFilter, VanishedHold};
use crate::error::LockError;

/// Rows of one pass.
const AT_ONCE: u32 = 500;

/// Sweeps until the registry is dropped. The pauses differ, so that the nodes do not all do it at once.
pub(super) async fn sweep(registry: Weak<Inner>, after: Duration) {
    loop {
        let dice = u32::try_from(Uuid::new_v4().as_u64_pair().0 % 100).unwrap_or(0);
        tokio::time::sleep((after / 4 + after / 400 * dice).min(Duration::from_secs(60))).await;
        let Some(registry) = registry.upgrade() else { return };
        // That there was nothing to do does not say that it could have been done.
        let swept = registry.sweep_once().await;
        if swept.is_err() {
            registry.tell(&swept);
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl Inner {
    pub(super) async fn sweep_once(&self) -> Result<(), LockError> {
        // Who never wrote need not clean up, nor make tables for it.
        if !self.prepared.load(std::sync::atomic::Ordering::SeqCst) {
            return Ok(());
        }
        let quiet = micros(self.options.sweep_after);
        let which = LeaseFilter { quiet: Some(quiet), most: AT_ONCE, ..LeaseFilter::default() };
        let mut leases = self.within(self.table.leases(&which)).await?;
        self.inspect_stores(&mut leases).await;
        for lease in leases.iter().filter(|lease| is_gone(lease)) {
            let gone = VanishedHold {
                name: lease.name.clone(),
                store: lease.store.clone(),
                incarnation: lease.incarnation.clone(),
                holder: lease.holder(),
                epoch: lease.epoch,
                quiet,
            };
            if self.within(self.table.remove(&gone)).await? {
                tracing::debug!(
                    lock.name = lease.name,
                    holder = gone.holder,
                    "the holder of a lock went away"
                );
            }
        }
        let (idle, history) = (micros(self.options.idle_retention), micros(self.options.history_retention));
        self.within(self.table.tidy(idle, history, AT_ONCE)).await
    }
}

/// A frozen holder has its lock still, and is shown until somebody ends that. A store that cannot be asked says nothing against it: a
/// holder that lives writes its row anew.
fn is_gone(lease: &LeaseRecord) -> bool {
    lease.is_quiet() && !(lease.state == LeaseState::Stale && lease.inspection.is_some())
}

//! Settings as a node obeys them: what it was started with, and over it what operators changed.

use std::sync::{Mutex, MutexGuard};

use crate::node::Shared;
use crate::store::{Settings, Tunable};

/// The settings that a node has heard of.
#[derive(Default)]
pub(crate) struct Obeyed(Mutex<Settings>);

impl Obeyed {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What holds now.
    pub(crate) fn over(&self, started_with: Tunable) -> Tunable {
        self.settings().over(started_with)
    }

    /// Settings were read; older ones than those that are known change nothing.
    pub(crate) fn obey(&self, read: Settings) {
        let mut settings = self.settings();
        if read.version >= settings.version {
            *settings = read;
        }
    }
}

/// A heartbeat has said which version holds. Read only if it is another one, so that a heartbeat costs what it did.
pub(crate) async fn follow(shared: &Shared, version: i64) {
    if shared.settings.settings().version == version {
        return;
    }
    match shared.store.settings().await {
        Ok(settings) => {
            tracing::info!(node.id = %shared.id, version, "settings have changed");
            shared.settings.obey(settings);
            // There may be more room than before.
            shared.nudge.notify_one();
        }
        Err(error) => {
            tracing::warn!(%error, node.id = %shared.id, "settings could not be read; asking again")
        }
    }
}

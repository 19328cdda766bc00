//! The settings in force on a node: those it was started with, overridden by those that operators changed.

use std::sync::{Mutex, MutexGuard};

use crate::node::Shared;
use crate::store::{Settings, Tunable};

/// The newest settings that the node has read.
#[derive(Default)]
pub(crate) struct Obeyed(Mutex<Settings>);

impl Obeyed {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The settings in force.
    pub(crate) fn over(&self, started_with: Tunable) -> Tunable {
        self.settings().over(started_with)
    }

    /// Adopts settings that were read, unless they are older than the known ones.
    pub(crate) fn obey(&self, read: Settings) {
        let mut settings = self.settings();
        if read.version >= settings.version {
            *settings = read;
        }
    }
}

/// Reads the settings if a heartbeat returned another version than the known one.
pub(crate) async fn follow(shared: &Shared, version: i64) {
    if shared.settings.settings().version == version {
        return;
    }
    match shared.loop_store.settings().await {
        Ok(settings) => {
            tracing::info!(node.id = %shared.id, version, "settings have changed");
            shared.settings.obey(settings);
            // There may be more slots than before.
            shared.nudge.notify_one();
        }
        Err(error) => {
            shared.warn_folded("cannot read the settings; trying again with the next heartbeat", &error)
        }
    }
}

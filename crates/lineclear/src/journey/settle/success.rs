//! The last success of a manifest is written with its job, unless another transaction holds the manifest's state: then it is
//! remembered, and written soon after. Completions of one manifest do not wait for each other.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use lineclear_model::{Outcome, Payload};

use crate::db::statements::Statement;
use crate::db::{Column, Query};
use crate::journey::enqueue::insert::millis;
use crate::store::{JobId, Settlement, Store, StoreResult};

/// A completed job of a manifest.
#[derive(Clone)]
pub(crate) struct Success {
    manifest: i64,
    job: JobId,
    at: Instant,
    output: Option<Payload>,
}

impl Success {
    pub(crate) fn of(settlement: &Settlement) -> Option<Success> {
        let output = match &settlement.outcome {
            Outcome::Completed { output } => output.clone(),
            _ => None,
        };
        let manifest = settlement.completed_manifest()?;
        Some(Success { manifest, job: settlement.claim.job, at: Instant::now(), output })
    }
}

/// The newest success of each manifest that is not written yet.
#[derive(Default)]
pub(crate) struct Successes(Mutex<HashMap<i64, Success>>);

impl Successes {
    fn unwritten(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Success>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn add(&self, successes: Vec<Success>) {
        let mut unwritten = self.unwritten();
        unwritten.extend(successes.into_iter().map(|success| (success.manifest, success)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unwritten().is_empty()
    }

    /// Those of these manifests are written, unless newer ones came meanwhile.
    fn remove(&self, written: &[i64], asked_at: Instant) {
        self.unwritten().retain(|manifest, success| !written.contains(manifest) || success.at > asked_at);
    }
}

impl Store {
    /// Writes the successes that are not written yet, as far as their manifests' states are free.
    pub(crate) async fn note_successes(&self) -> StoreResult<()> {
        let asked_at = Instant::now();
        let successes: Vec<Success> = self.successes.unwritten().values().cloned().collect();
        if successes.is_empty() {
            return Ok(());
        }
        let columns = vec![
            Column::Ints(successes.iter().map(|success| Some(success.manifest)).collect()),
            Column::Ints(successes.iter().map(|success| Some(success.job.0)).collect()),
            Column::Ints(successes.iter().map(|success| Some(millis(success.at.elapsed()))).collect()),
            Column::Texts(
                successes
                    .iter()
                    .map(|s| s.output.as_ref().map(|output| output.as_str().to_owned()))
                    .collect(),
            ),
        ];
        let note = Query::each(Statement::NoteSuccess, columns, |row| row.get("manifest_id"));
        let written: Vec<i64> = self.run(note).await?;
        self.successes.remove(&written, asked_at);
        Ok(())
    }
}

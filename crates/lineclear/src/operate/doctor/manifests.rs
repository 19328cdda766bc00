//! Manifests that cannot be read, and manifests that never fire again.

use std::time::{Duration, Instant};

use lineclear_model::doctor::ManifestHealth;
use lineclear_model::{Manifest, Micros, duration, preview};

use crate::db::statements::Statement;
use crate::db::{Row, values};
use crate::error::no_answer;
use crate::manifests::stored::manifest_of;
use crate::store::{Store, StoreResult};

/// Manifests that are checked at most, the newest first.
const MOST: usize = 5_000;
/// The time for finding ticks that are not excluded.
const PREVIEW_TIMEOUT: Duration = Duration::from_millis(500);

impl Store {
    pub(crate) async fn manifest_health(&self) -> StoreResult<ManifestHealth> {
        let most = i64::try_from(MOST).unwrap_or(i64::MAX);
        let rows = self.bounded(Statement::DoctorManifests, values![most]).await?;
        let mut health = ManifestHealth {
            looked_at: rows.len() as u64,
            more: rows.len() >= MOST,
            ..ManifestHealth::default()
        };
        let mut exclude = Vec::new();
        for row in &rows {
            if row.get::<bool>("removed")? {
                continue;
            }
            let key: String = row.get("key")?;
            match manifest_of(row) {
                Ok(manifest) => match remaining(&manifest, row)? {
                    Remaining::None => health.never.push((key, written(&manifest))),
                    Remaining::SomeUnlessExcluded => exclude.push(manifest),
                    Remaining::Some => {}
                },
                Err(error) => health.unreadable.push((key, error.to_string())),
            }
        }
        if !exclude.is_empty() {
            let now = self.one(Statement::Now, values![]).await?.get("now")?;
            // Computing may take a while, so it must not block the runtime.
            let preview = tokio::task::spawn_blocking(move || all_excluded(&exclude, now));
            let (never, unsure) = preview.await.map_err(|_| no_answer("exclusions"))?;
            health.never.extend(never);
            health.unsure = unsure;
        }
        Ok(health)
    }
}

/// The ticks that a manifest still has.
enum Remaining {
    Some,
    /// None, although it is enabled and has a schedule.
    None,
    /// Its schedule has some, and it excludes times.
    SomeUnlessExcluded,
}

/// Manifests whose exclusions cover every tick of the preview; and how many were not checked for lack of time.
fn all_excluded(manifests: &[Manifest], now: Micros) -> (Vec<(String, String)>, u64) {
    let (begun, mut never, mut unsure) = (Instant::now(), Vec::new(), 0);
    for manifest in manifests {
        if begun.elapsed() > PREVIEW_TIMEOUT {
            unsure += 1;
            continue;
        }
        let ahead = preview(&manifest.rules(), &manifest.key, now, 1);
        if ahead.ticks.is_empty() {
            let through = ahead.excluded_through.map(|at| format!(" up to {at}")).unwrap_or_default();
            let why = format!("{}, and all is excluded{through}", written(manifest));
            never.push((manifest.key.to_string(), why));
        }
    }
    (never, unsure)
}

/// The remaining ticks of a manifest. One that was to fire once, and has, is not broken.
fn remaining(manifest: &Manifest, row: &Row) -> StoreResult<Remaining> {
    let next: Option<Micros> = row.get("next_due_at")?;
    let held: bool = row.get("held")?;
    let once = manifest.schedule.once_at().is_some();
    if !manifest.enabled || held || !manifest.schedule.is_timed() {
        return Ok(Remaining::Some);
    }
    Ok(match next {
        None if once => Remaining::Some,
        None => Remaining::None,
        Some(_) if manifest.rules().exclude.is_empty() => Remaining::Some,
        Some(_) => Remaining::SomeUnlessExcluded,
    })
}

/// The schedule as it was written.
fn written(manifest: &Manifest) -> String {
    let fields = manifest.schedule.fields();
    let when = fields
        .cron
        .clone()
        .or_else(|| fields.every.map(|every| format!("every {}", duration::format(every))));
    let end = fields.end.map(|end| format!(" until {end}")).unwrap_or_default();
    format!("{}{end}", when.unwrap_or_default())
}

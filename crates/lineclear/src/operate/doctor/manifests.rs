//! What manifests say: those that cannot be read, and those that fire no more.

use std::time::{Duration, Instant};

use lineclear_model::doctor::ManifestHealth;
use lineclear_model::{Manifest, Micros, duration, preview};

use crate::db::statements::Statement;
use crate::db::{Row, Value};
use crate::error::no_answer;
use crate::manifests::upsert::manifest_of;
use crate::store::{Store, StoreResult};

/// Manifests that are looked at, newest first.
const MOST: usize = 5_000;
/// Ticks that are not excluded are looked for so long.
const LOOK_AHEAD: Duration = Duration::from_millis(500);

impl Store {
    pub(crate) async fn orders_facts(&self) -> StoreResult<ManifestHealth> {
        let most = i64::try_from(MOST).unwrap_or(i64::MAX);
        let rows = self.bounded(Statement::DoctorManifests, vec![Value::Int(Some(most))]).await?;
        let mut orders = ManifestHealth {
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
                Ok(manifest) => match left(&manifest, row)? {
                    Left::Nothing => orders.never.push((key, written(&manifest))),
                    Left::WhatIsNotExcluded => exclude.push(manifest),
                    Left::Something => {}
                },
                Err(error) => orders.unreadable.push((key, error.to_string())),
            }
        }
        if !exclude.is_empty() {
            let now = self.one(Statement::Now, Vec::new()).await?.get("now")?;
            // It only computes, and may do so for a while.
            let looked = tokio::task::spawn_blocking(move || all_excluded(&exclude, now));
            let (never, unsure) = looked.await.map_err(|_| no_answer("exclusions"))?;
            orders.never.extend(never);
            orders.unsure = unsure;
        }
        Ok(orders)
    }
}

/// Ticks that a manifest has left.
enum Left {
    Something,
    /// None, though it is switched on and has a schedule of its own.
    Nothing,
    /// Its schedule has some, and it excludes times.
    WhatIsNotExcluded,
}

/// Those that exclude every tick they have, as far as one can see; and how many were not looked at, because it took too long.
fn all_excluded(manifests: &[Manifest], now: Micros) -> (Vec<(String, String)>, u64) {
    let (begun, mut never, mut unsure) = (Instant::now(), Vec::new(), 0);
    for manifest in manifests {
        if begun.elapsed() > LOOK_AHEAD {
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

/// What is left to one that is switched on. One that was to fire once and has, is over and not broken.
fn left(manifest: &Manifest, row: &Row) -> StoreResult<Left> {
    let next: Option<Micros> = row.get("next_due_at")?;
    let held: bool = row.get("held")?;
    let once = manifest.schedule.once_at().is_some();
    if !manifest.enabled || held || !manifest.schedule.is_timed() {
        return Ok(Left::Something);
    }
    Ok(match next {
        None if once => Left::Something,
        None => Left::Nothing,
        Some(_) if manifest.rules().exclude.is_empty() => Left::Something,
        Some(_) => Left::WhatIsNotExcluded,
    })
}

/// Its schedule, as somebody wrote it.
fn written(manifest: &Manifest) -> String {
    let fields = manifest.schedule.fields();
    let when = fields
        .cron
        .clone()
        .or_else(|| fields.every.map(|every| format!("every {}", duration::format(every))));
    let end = fields.end.map(|end| format!(" until {end}")).unwrap_or_default();
    format!("{}{end}", when.unwrap_or_default())
}

//! What manifests say: those that cannot be read, and those that fire no more.

use lineclear_model::doctor::Orders;
use lineclear_model::{Manifest, Micros, duration};

use crate::store::db::{Row, Value};
use crate::store::sql::Statement;
use crate::store::verbs::manifest::manifest_of;
use crate::store::{Store, StoreResult};

/// Manifests that are looked at, newest first.
const MOST: usize = 5_000;

impl Store {
    pub(super) async fn orders_facts(&self) -> StoreResult<Orders> {
        let most = i64::try_from(MOST).unwrap_or(i64::MAX);
        let rows = self.bounded(Statement::DoctorManifests, vec![Value::Int(Some(most))]).await?;
        let mut orders =
            Orders { looked_at: rows.len() as u64, more: rows.len() >= MOST, ..Orders::default() };
        for row in &rows {
            if row.get::<bool>("removed")? {
                continue;
            }
            let key: String = row.get("key")?;
            match manifest_of(row) {
                Ok(manifest) if fires_no_more(&manifest, row)? => {
                    orders.never.push((key, written(&manifest)));
                }
                Ok(_) => {}
                Err(error) => orders.unreadable.push((key, error.to_string())),
            }
        }
        Ok(orders)
    }
}

/// Switched on, with a schedule of its own that has no tick left. One that was to fire once and has, is over and not broken.
fn fires_no_more(manifest: &Manifest, row: &Row) -> StoreResult<bool> {
    let next: Option<Micros> = row.get("next_due_at")?;
    let held: bool = row.get("held")?;
    let has_ticks = manifest.schedule.is_timed() && manifest.schedule.once_at().is_none();
    Ok(manifest.enabled && !held && has_ticks && next.is_none())
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

//! pause, resume: a manifest and its waiting jobs step aside, and come back.

use lineclear_model::{Micros, Name, SkipReason, begin};

use super::manifest::{Stored, read};
use super::turn::{self, SkippedRange};
use crate::store::StoreResult;
use crate::store::db::{Column, Session, Value, Verb};
use crate::store::sql::Statement;

/// Verb: pause or resume manifests. Returns those that exist, and limit keys whose jobs may now try.
pub(crate) struct Switch {
    pub(crate) keys: Vec<Name>,
    pub(crate) enabled: bool,
}

pub(crate) struct Switched {
    pub(crate) found: Vec<Name>,
    pub(crate) limit_keys: Vec<String>,
}

impl Verb for Switch {
    type Answer = Switched;

    async fn run(&self, session: &mut Session) -> StoreResult<Switched> {
        let stored = read(session, self.keys.iter()).await?;
        let changing: Vec<&Stored> = stored.values().filter(|s| s.manifest.enabled != self.enabled).collect();
        let mut limit_keys = Vec::new();
        if !changing.is_empty() {
            self.write(session, &changing).await?;
            let ids = changing.iter().map(|stored| stored.id).collect();
            let move_jobs = if self.enabled { Statement::Unpark } else { Statement::Park };
            for row in session.rows(move_jobs, vec![Value::Ints(ids)]).await? {
                limit_keys.extend(row.get::<Option<String>>("limit_key")?);
            }
        }
        Ok(Switched { found: stored.into_keys().collect(), limit_keys })
    }
}

impl Switch {
    async fn write(&self, session: &mut Session, changing: &[&Stored]) -> StoreResult<()> {
        let mut columns = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut ranges = Vec::new();
        for stored in changing {
            let mut through = stored.planned_through;
            let mut next_due_at = stored.next_due_at;
            if self.enabled {
                // Ticks that fell into the pause are skipped, and the ledger says so; they are not missed.
                ranges.extend(paused_range(stored));
                let start = begin(&stored.manifest.rules(), stored.now);
                (through, next_due_at) = (start.planned_through, start.next_due_at);
            }
            columns.0.push(Some(stored.id));
            columns.1.push(self.enabled);
            columns.2.push(Some(through));
            columns.3.push(next_due_at);
        }
        turn::take(session, Vec::new(), ranges).await?;
        let columns = vec![
            Column::Ints(columns.0),
            Column::Bools(columns.1),
            Column::Times(columns.2),
            Column::Times(columns.3),
        ];
        session.rows(Statement::ManifestSwitch, columns).await.map(drop)
    }
}

fn paused_range(stored: &Stored) -> Option<SkippedRange> {
    let schedule = &stored.manifest.schedule;
    let from: Micros = schedule.next_after(stored.planned_through)?;
    let until = schedule.last_through(stored.now)?;
    (from <= until).then_some(SkippedRange {
        manifest_id: stored.id,
        from,
        until,
        reason: SkipReason::Disabled,
    })
}

//! backfill: past ticks that did not run become jobs, each once, according to the ledger.

use std::collections::{BTreeSet, HashSet};

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Name, Overlap, Payload, Schedule, ticks_between};

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Value, Verb};
use crate::journey::enqueue::insert::{QueueRow, queue};
use crate::journey::plan::firing::{JobTemplate, SkippedRange, write_skipped};
use crate::manifests::pause::move_jobs;
use crate::manifests::stored::manifest_of;
use crate::store::{JobId, Store, StoreError, StoreResult};
use crate::validate;

/// Most ticks of one call.
pub const BACKFILL_MAX: u32 = 1_000;

/// How to backfill.
#[derive(Clone, Debug)]
pub struct BackfillOptions {
    /// Another input for these jobs; `None` is the manifest's.
    pub input: Option<Payload>,
    /// Not before; `None` is now.
    pub due_at: Option<Micros>,
    /// Most ticks of this call; at most [`BACKFILL_MAX`].
    pub most: u32,
}

impl Default for BackfillOptions {
    fn default() -> BackfillOptions {
        BackfillOptions { input: None, due_at: None, most: BACKFILL_MAX }
    }
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backfilled {
    /// The new jobs, in the order of their ticks.
    pub jobs: Vec<JobId>,
    /// Ticks that had run before, or were backfilled before.
    pub known: u64,
    /// The range has more ticks than one call takes: continue from here.
    pub next: Option<Micros>,
    /// From here on, ticks of the range are left to the planner: they are in the future, or in a pause or hold that is not
    /// over.
    pub undecided_from: Option<Micros>,
}

/// Verb: ticks of a manifest in `from..to` that did not run. `None`: there is no such manifest.
pub(crate) struct Backfill {
    pub(crate) key: Name,
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) options: BackfillOptions,
}

impl Verb for Backfill {
    type Answer = Option<Backfilled>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Backfilled>> {
        // Locked: the planner does not decide ticks of this manifest meanwhile, nor does another backfill.
        let rows =
            session.rows(Statement::ManifestRead, vec![Value::Texts(vec![self.key.to_string()])]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if row.get("removed")? {
            return Ok(None);
        }
        let (template, manifest) = (JobTemplate::of(row)?, manifest_of(row)?);
        let schedule = &manifest.schedule;
        if !schedule.is_timed() {
            let why = format!("{} has no ticks of its own; trigger it instead", self.key);
            return Err(StoreError::refused("backfill", why));
        }
        let decided: Micros = row.get("planned_through")?;
        let most = self.options.most.clamp(1, BACKFILL_MAX) as usize;
        let before = self.from.offset(-1);
        let ticks = ticks_between(&manifest.rules(), &self.key, before, decided, most + 1).into_iter();
        let mut ticks: Vec<Micros> = ticks.map(|tick| tick.tick_at).filter(|tick| *tick < self.to).collect();
        let mut answer = Backfilled {
            next: ticks.get(most).copied(),
            undecided_from: schedule.next_after(decided.max(before)).filter(|tick| *tick < self.to),
            ..Backfilled::default()
        };
        ticks.truncate(most);
        if let (Some(first), Some(last)) = (ticks.first().copied(), ticks.last().copied()) {
            let params =
                vec![Value::Int(Some(template.id)), Value::Time(Some(first)), Value::Time(Some(last))];
            let ledger = session.rows(Statement::TickRange, params).await?;
            let fired = claim(session, template.id, &ticks, &ledger).await?;
            answer.known = u64::try_from(ticks.len() - fired.len()).expect("a count fits");
            let ticks_taken = fired.iter().map(|(tick, _)| *tick).collect();
            split_ranges(session, template.id, schedule, &ticks_taken, &ledger).await?;
            answer.jobs = fired.iter().map(|(_, job)| *job).collect();
            let jobs: Vec<QueueRow> =
                fired.iter().map(|(tick, job)| self.job(&template, *tick, *job)).collect();
            queue(session, &jobs).await?;
            if !manifest.enabled {
                // Like all waiting jobs of a paused manifest, they are parked until it is resumed.
                move_jobs(session, vec![template.id], false).await?;
            }
        }
        Ok(Some(answer))
    }
}

impl Backfill {
    fn job(&self, template: &JobTemplate, tick_at: Micros, job: JobId) -> QueueRow {
        let queued = template.job(Origin::Backfill);
        QueueRow {
            id: Some(job.0),
            tick_at: Some(tick_at),
            due_at: self.options.due_at,
            input: self.options.input.as_ref().map_or(queued.input, |input| input.as_str().to_owned()),
            // Never fresh: they may all wait. But a manifest whose jobs must not overlap runs them one after another.
            limit_key: (template.overlap != Overlap::Allow).then(|| format!("manifest:{}", template.id)),
            ..queued
        }
    }
}

/// Writes ticks that did not run into the ledger as fired; returns those, with their jobs.
async fn claim(
    session: &mut Session,
    manifest: i64,
    ticks: &[Micros],
    ledger: &[Row],
) -> StoreResult<Vec<(Micros, JobId)>> {
    let mut fired = HashSet::new();
    for row in ledger {
        if row.get::<Option<i64>>("job_id")?.is_some() {
            fired.insert(row.get::<Micros>("tick_at")?);
        }
    }
    let wanted: Vec<Option<Micros>> =
        ticks.iter().filter(|tick| !fired.contains(tick)).map(|tick| Some(*tick)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let columns = vec![Column::Ints(vec![Some(manifest); wanted.len()]), Column::Times(wanted)];
    let mut fired = Vec::new();
    for row in session.rows(Statement::TickBackfill, columns).await? {
        fired.push((row.get("tick_at")?, JobId(row.get("job_id")?)));
    }
    fired.sort_unstable();
    Ok(fired)
}

/// Records the rest of skipped ranges as skipped again.
async fn split_ranges(
    session: &mut Session,
    manifest_id: i64,
    schedule: &Schedule,
    fired: &BTreeSet<Micros>,
    ledger: &[Row],
) -> StoreResult<()> {
    let mut shortened = (Vec::new(), Vec::new());
    let mut rest = Vec::new();
    for row in ledger {
        let Some(until) = row.get::<Option<Micros>>("until_tick_at")? else { continue };
        let from: Micros = row.get("tick_at")?;
        let reason = row.word("skip_reason", lineclear_model::SkipReason::from_word)?;
        let inside: Vec<Micros> = fired.range(from..=until).copied().collect();
        if inside.is_empty() {
            continue;
        }
        for (piece_from, piece_until) in left_over(schedule, from, until, &inside) {
            if piece_from == from {
                shortened.0.push(Some(from));
                shortened.1.push(Some(piece_until));
            } else {
                rest.push(SkippedRange { manifest_id, from: piece_from, until: piece_until, reason });
            }
        }
    }
    if !shortened.0.is_empty() {
        let manifests = Column::Ints(vec![Some(manifest_id); shortened.0.len()]);
        let columns = vec![manifests, Column::Times(shortened.0), Column::Times(shortened.1)];
        session.rows(Statement::TickShorten, columns).await?;
    }
    write_skipped(session, &rest).await
}

/// The parts of `from..=until` between the ticks that were fired. The range may be from an older schedule, so its ends count
/// as ticks.
fn left_over(schedule: &Schedule, from: Micros, until: Micros, fired: &[Micros]) -> Vec<(Micros, Micros)> {
    let mut pieces = Vec::new();
    let mut at = Some(from);
    for &tick in fired {
        if let Some(at) = at.filter(|at| *at < tick) {
            let end = schedule.last_through(tick.offset(-1)).unwrap_or(at);
            pieces.push((at, end.max(at)));
        }
        at = schedule.next_after(tick).map(|next| next.min(until)).filter(|next| *next > tick);
    }
    pieces.extend(at.filter(|at| *at <= until).map(|at| (at, until)));
    pieces
}

impl Store {
    /// Queues a job for each tick of a manifest in `from..to` that did not run, because it was missed, skipped or before its
    /// time. Repeating the call adds nothing. Excluded times stay excluded. `None`: there is no such manifest.
    pub async fn backfill(
        &self,
        key: Name,
        from: Micros,
        to: Micros,
        options: BackfillOptions,
    ) -> StoreResult<Option<Backfilled>> {
        validate::check_backfill(from, to, &options)?;
        let backfilled = self.run(Backfill { key, from, to, options }).await?;
        self.announce_work();
        Ok(backfilled)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_left_of_a_range_is_every_tick_that_was_not_taken() {
        let at = |second: i64| Micros::EPOCH.offset(second * 1_000_000);
        let schedule = Schedule::every(Duration::from_secs(10)).unwrap();
        let left = |fired: &[i64]| {
            let fired: Vec<Micros> = fired.iter().map(|second| at(*second)).collect();
            let pieces = left_over(&schedule, at(10), at(60), &fired);
            let seconds = |at: Micros| at.get() / 1_000_000;
            pieces.iter().map(|(from, until)| (seconds(*from), seconds(*until))).collect::<Vec<_>>()
        };
        assert_eq!(left(&[30]), [(10, 20), (40, 60)]);
        assert_eq!(left(&[10, 20]), [(30, 60)]);
        assert_eq!(left(&[50, 60]), [(10, 40)]);
        assert_eq!(left(&[20, 40]), [(10, 10), (30, 30), (50, 60)]);
        assert_eq!(left(&[10, 20, 30, 40, 50, 60]), []);
        let older = left_over(&schedule, at(13), at(27), &[at(20)]);
        assert_eq!(older, [(at(13), at(13)), (at(27), at(27))], "its ends are no ticks of today's schedule");
    }
}
